"""Which function has the code of a flow, and which flows this process has."""

from collections.abc import Iterable

from shared.adapters.settings import settings
from shared.core.rules.problems import BadFlow

_declared: dict[str, str] = {}


def declare(flows: Iterable[str], function: str) -> None:
    """Note that a function of this process has these flows: in tests no catalogue says so."""
    _declared.update(dict.fromkeys(flows, function))


def function_of(flow: str) -> str:
    """Return the function that has a flow. Raises `BadFlow` if none has."""
    known = {**settings().flow_functions, **_declared}
    if flow not in known:
        raise BadFlow(f"The catalogue has no flow {flow!r}. Known: {', '.join(sorted(known)) or 'none'}.", field="flow")
    return known[flow]
