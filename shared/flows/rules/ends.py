"""How a flow ended, as its header holds it."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.rules.times import rfc3339
from shared.objects.rules.outcomes import CallOutcome


@dataclass(frozen=True, slots=True)
class End:
    """How a flow ended: in which state, with what outcome, when."""

    state: str
    outcome: CallOutcome
    at: datetime


def end_to_json(end: End | None) -> Any:
    """Return an end as the header holds it."""
    return None if end is None else [end.state, end.outcome.to_json(), rfc3339(end.at)]


def end_from_json(value: Any) -> End | None:
    """Undo `end_to_json`."""
    if value is None:
        return None
    state, outcome, at = value
    return End(state, CallOutcome.from_json(outcome), datetime.fromisoformat(at))
