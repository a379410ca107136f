"""The class of the objects in simulated worlds, in several versions. An object remembers its calls, in order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.problems import Problem
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.objects.machine.classes import ObjectClass, Reference, send_post, send_task
from signalbox.objects.model import Applied, Message, Post, method_call

CLASS = "Log"
KEYS = ("a", "b")
FIRST_PASSED_ON, THEN_PASSED_ON, REMINDED = " passed on", " passed on again", " reminded"
REMINDER_SECONDS = 0.3


class Log:
    """An object that remembers which calls it had, in order."""

    seen: list[str] = []  # noqa: RUF012  an object starts with a copy
    key: str

    def note(self, id: str) -> int:  # noqa: A002  a caller names it id
        self.seen.append(id)
        return len(self.seen)

    def pass_on(self, id: str, to: str) -> int:  # noqa: A002  a caller names it id
        for label in (FIRST_PASSED_ON, THEN_PASSED_ON):
            send_post(Post(ObjectAddress(CLASS, to), method_call("note", {"id": f"{id}{label}"}, receipt=False)))
        send_task(Call("user", "sent", {"id": id}))
        return self.note(id)

    def remind(self, id: str) -> int:  # noqa: A002  a caller names it id
        reminder = method_call("note", {"id": f"{id}{REMINDED}"}, receipt=False)
        send_post(Post(ObjectAddress(CLASS, self.key), reminder, REMINDER_SECONDS))
        return self.note(id)

    def open(self, id: str, to: str) -> Reference:  # noqa: A002  a caller names it id
        self.note(id)
        return Reference(ObjectAddress(CLASS, to))

    def refuse(self, id: str) -> None:  # noqa: A002  a caller names it id
        self.note(id)
        raise Problem("No.")


class LaterLog(Log):
    """The same, with a field more, what its code has noted, and a method more."""

    version = 2
    noted: list[str] = []  # noqa: RUF012  an object starts with a copy

    def note(self, id: str) -> int:  # noqa: A002  a caller names it id
        self.noted.append(id)
        return super().note(id)

    def mark(self, id: str) -> int:  # noqa: A002  a caller names it id
        return self.note(id)

    @staticmethod
    def upgrade(state: dict[str, Any], _: int) -> dict[str, Any]:
        return {**state, "noted": []}


class MistakenLog(LaterLog):
    """A deployment that gave a field another type and no higher version: it reads only states that noted nothing."""

    noted: list[int] = []  # type: ignore[assignment]  # noqa: RUF012  the mistake

    def note(self, id: str) -> int:  # noqa: A002  a caller names it id
        return Log.note(self, id)


@dataclass(frozen=True, slots=True)
class Version:
    """The class as one instance of a function has it. `begins` is called with a call's id before its method.

    `too_late` takes the ids of calls that begin after their limit.
    """

    code: ObjectClass
    begins: Callable[[str], None]
    too_late: set[str] = field(default_factory=set)

    def check(self, _: ObjectAddress, state: str | None) -> None:
        """Raise `Unavailable` for a state that the code cannot read."""
        self.code.check_state(state)

    def knows(self, _: ObjectAddress, message: Message) -> bool:
        """Return whether the code has the method of a call."""
        return message.body["method"] in self.code.methods

    def apply(self, address: ObjectAddress, state: str | None, message: Message, now: datetime) -> Applied:
        """Run a method."""
        id_ = message.body["arguments"]["id"]
        if message.not_after is not None and now > message.not_after:
            self.too_late.add(id_)
        self.begins(id_)
        return self.code.apply(address, state, message, now)


OLD, NEW, MISTAKEN = (ObjectClass.from_class(kind) for kind in (Log, LaterLog, MistakenLog))
