"""The classes of objects whose code a process has, and which functions have the others."""

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime

from shared.adapters import runtime
from shared.adapters.settings import settings
from shared.core.rules.problems import BadObjectCall
from shared.objects.operations import objects as operations
from shared.objects.operations.runs import Code
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.classes import ObjectClass
from shared.objects.rules.messages import Message
from shared.objects.rules.methods import Applied
from shared.objects.rules.outcomes import CallOutcome

_NO_PORTS = BadObjectCall(
    "A method of an object has only its state and what it sends: a task or a flow may read and write."
)


_declared: dict[str, str] = {}


def declare(classes: Iterable[str], function: str) -> None:
    """Note that a function of this process has these classes: in tests no catalogue says so."""
    _declared.update(dict.fromkeys(classes, function))


@dataclass(frozen=True, slots=True)
class LocalClasses:
    """The classes of a function by name: this process has their code."""

    function: str
    classes: Mapping[str, ObjectClass]

    @property
    def code(self) -> Code:
        """Return the code as the operations run it."""
        return Code(self.function, self.apply, self.function_of, self._check)

    def function_of(self, class_name: str) -> str:
        """Return the function that has a class. Raises `BadObjectCall` if none has."""
        if class_name in self.classes:
            return self.function
        known = {**_declared, **settings().object_classes}
        if class_name not in known:
            names = ", ".join(sorted({*known, *self.classes})) or "none"
            raise BadObjectCall(f"The catalogue has no class {class_name!r}. Known: {names}.", field="class")
        return known[class_name]

    def read(self, address: ObjectAddress, message: Message) -> CallOutcome:
        """Return the outcome of a call that is read-only, on the last state. Raises `Unavailable`."""
        state, now = operations.read_state(runtime.ports().store, address)
        return self.apply(address, state, message, now).outcome

    def apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        """Run a method, with nothing but its state: the kit's own reads and writes are refused."""
        with runtime.ports_refused(_NO_PORTS):
            applied = self.classes[address.class_name].apply(address, state, message, now)
        try:
            if applied.outcome.object:
                self.function_of(applied.outcome.object.class_name)
        except BadObjectCall as problem:
            return Applied(state, CallOutcome.from_problem(problem))
        return applied

    def _check(self, address: ObjectAddress, state: str | None) -> None:
        self.classes[address.class_name].check_state(state)


NO_CLASSES = LocalClasses("", {})
local_classes: ContextVar[LocalClasses] = ContextVar("local_classes", default=NO_CLASSES)
"""The classes of the function that handles the request; in tests a process serves many functions."""
