"""The flows whose code a process has: their functions and the signatures of their arguments.

A process may have older code than the one that wrote a header. It leaves such a run to newer code.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import field
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Unavailable
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED, Keeping
from signalbox.tasks.requests.signatures import Signature

ON_COMPLETE = "on_complete"


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """The code of a flow, and the signature of its arguments. `keeping` decides how long its ended runs are kept."""

    name: str
    code: Callable[..., Coroutine[Any, Any, Any]]
    signature: Signature
    keeping: Keeping = AS_LONG_AS_NEEDED

    @classmethod
    def from_function(
        cls, code: Callable[..., Any], own: tuple[type, ...] = (), keeping: Keeping = AS_LONG_AS_NEEDED
    ) -> Self:
        """Return the definition of a user's function. Raises `TypeError` if the function cannot be a flow.

        Results of the classes `own` are for the kit and not for callers.
        """
        if not inspect.isroutine(code):
            raise TypeError(f"{code!r} is not a function: write the flow as `async def`")
        if inspect.isasyncgenfunction(code):
            raise TypeError(f"{code.__name__} has `yield` in `async def`: a flow awaits its commands")
        if inspect.isgeneratorfunction(code):
            raise TypeError(f"{code.__name__} is a generator: write `async def`, and `await` instead of `yield`")
        if not inspect.iscoroutinefunction(code):
            raise TypeError(f"{code.__name__} is not `async def`: a flow awaits its commands")
        signature = Signature.from_function(code, own)
        if signature.filled:
            raise TypeError(f"{code.__name__}: the parameters of a flow must be JSON, not a lease, a unit or a context")
        if ON_COMPLETE in inspect.signature(code).parameters:
            raise TypeError(f"{code.__name__}: rename the parameter `on_complete`, which is an option of start()")
        return cls(code.__name__, code, signature, keeping)

    async def begin(self, arguments: Mapping[str, Any]) -> Any:
        """Run the code. If the arguments do not fit, the error is raised when the coroutine is started."""
        return await self.code(**self.signature.bind(arguments, None, stored=True))


@dataclass(frozen=True, slots=True)
class Flows:
    """The flows whose code this process has. `revision` orders deployments."""

    function: str
    definitions: Mapping[str, FlowDefinition] = field(default_factory=dict)
    revision: int = 0

    @property
    def names(self) -> frozenset[str]:
        """The names of the flows."""
        return frozenset(self.definitions)

    def of(self, name: str) -> FlowDefinition:
        """Return the code of a flow. Raises `Unavailable` if a newer deployment may have it."""
        if name not in self.definitions:
            raise Unavailable(f"{self.function} does not have the flow {name!r}; a newer deployment may have it")
        return self.definitions[name]

    def kept(self, header: "FlowHeader") -> "FlowHeader":
        """Return a header with the retention and the archive that this code specifies, if it has the flow."""
        definition = self.definitions.get(header.address.name)
        if definition is None or definition.keeping == header.keeping:
            return header
        return replace(header, keeping=definition.keeping)

    def check_revision(self, written_by: int) -> None:
        """Raise `Unavailable` if newer code wrote the header: this code may not be able to replay its log."""
        if written_by > self.revision:
            raise Unavailable("the header was written by a newer deployment")
