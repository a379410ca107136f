"""A flow as its function has it: a generator function, and what it takes."""

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from shared.core.rules.problems import Unavailable
from shared.tasks.rules.signatures import Signature


@dataclass(frozen=True, slots=True)
class FlowDefinition:
    """The code of the flow `name`."""

    name: str
    code: Callable[..., Generator[Any, Any, Any]]
    signature: Signature

    @classmethod
    def from_function(cls, code: Callable[..., Any]) -> Self:
        """Read a user's function. Raises `TypeError` if it yields nothing, or for a parameter that is no JSON."""
        if not inspect.isgeneratorfunction(code):
            raise TypeError(f"{code.__name__} is no generator function: a flow yields what it waits for")
        signature = Signature.from_function(code)
        if signature.filled:
            raise TypeError(f"{code.__name__} takes JSON only: a flow has no lease, no unit and no context of a task")
        return cls(code.__name__, code, signature)

    def begin(self, arguments: Mapping[str, Any]) -> Generator[Any, Any, Any]:
        """Return the generator of a run. Arguments that do not fit are its error, raised when it begins."""
        bound = self.signature.bind(arguments, None)
        return (yield from self.code(**bound))


@dataclass(frozen=True, slots=True)
class Flows:
    """The flows whose code this process has. `revision` orders deployments: a header of a newer one is left alone."""

    function: str
    definitions: Mapping[str, FlowDefinition] = field(default_factory=dict)
    revision: int = 0

    def of(self, name: str) -> FlowDefinition:
        """Return the code of a flow. Raises `Unavailable`: a newer deployment may have it."""
        if name not in self.definitions:
            raise Unavailable(f"{self.function} has no flow {name!r}: an older deployment?")
        return self.definitions[name]

    def check_revision(self, written_by: int) -> None:
        """Raise `Unavailable` for a flow that newer code has brought forward."""
        if written_by > self.revision:
            raise Unavailable("the flow was brought forward by a newer deployment")
