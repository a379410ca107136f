"""Planted faults of calls: deadly ones, ones that follow others, state, limits (obj-7, 9, 10, 12, 13, 15, 16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import SimpleNamespace
from typing import Any

from signalbox.core.ports import Ports, Put
from signalbox.core.problems import Problem
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery, StoredMessage
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import Mailbox
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.machine.deadly_calls import Mark
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import CallRecord, Message
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.objects.planting import in_objects
from tests.simulation.faults.points import always, original
from tests.simulation.worlds.objects import world as objects_world

mark_next = original("objects.Mark.next")
follow = original("objects.Turn.follow")
forward = original("objects.Turn.forward")
end = original("objects.Turn.end")
page_of = original("objects.page_of")
refused = original("objects.Turn.refused")


def _never_marked(_: Ports, __: Delivery, ___: Mailbox, message: StoredMessage, ____: set[str]) -> StoredMessage:
    return message


def _marked_by_deliveries(
    _: Ports, delivery: Delivery, __: Mailbox, message: StoredMessage, ____: set[str]
) -> StoredMessage | None:
    return None if delivery.deliveries > 7 else message


def _never_started(*_: Any) -> bool:
    return False


def _given_up_at_once(self: Mark, run: str, now: datetime) -> Mark:
    """A call is given up although its last start may still be running."""
    return mark_next(replace(self, until=None) if self.is_spent else self, run, now)


def _given_up_by_its_run(self: Mark, run: str, now: datetime) -> Mark:
    """A call is given up by a second delivery of the run that made its last start."""
    return mark_next(replace(self, until=None) if self.run == run else self, run, now)


def _not_owned(self: Mark, run: str, now: datetime) -> Mark:
    return mark_next(replace(self, until=None), run, now)


def _is_spent_early(mark: Mark) -> bool:
    return mark.attempts >= LIMITS.call_attempts_max - 1


def _whole_page(mailbox: Mailbox, *, careful: bool) -> tuple[StoredMessage, ...]:
    """A careful run marks the first call, and applies the whole page."""
    return page_of(mailbox, careful=False)


def _not_checked(*_: Any) -> None:
    """A run finds the newer state only in its method, after its start was counted."""


def _dropped(self: Turn, message: Message, id_: str, since: datetime) -> None:
    """A continuation that arrives before the outcome is not kept with the call."""
    call = self.calls.get(message.target)
    if call is None or not call.is_pending:
        follow(self, message, id_, since)
    else:
        self._resolve(id_, since, CallOutcome())


def _with_its_call(self: Turn, message: Message, id_: str, since: datetime) -> None:
    """All continuations are kept in the record of the call that they follow."""
    call = self.calls.get(message.target)
    if call is None or not call.is_pending:
        follow(self, message, id_, since)
        return
    then = (*call.message.then, message.continuation)
    self.calls[message.target] = replace(call, message=replace(call.message, then=then))
    self.changed.add(message.target)
    self._resolve(id_, since, CallOutcome())


def _kept_with_its_call(call: CallRecord) -> dict[Any, Any]:
    return {("then",): [task.to_record() for task in call.message.then], ("held",): list(call.held)}


def _forgotten(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    end(self, id_, since, replace(call, held=()))


def _at_the_end(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    """Held calls wait again as if they were posted now."""
    end(self, id_, self.now, call)


def _at_once(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    """Held calls wait again with the same `since`."""
    end(self, id_, since, call)
    self.resumed |= dict.fromkeys(call.held, since)


def _never_cut(self: Turn) -> bool:
    return False


def _any_version(*_: Any) -> None:
    """A newer state is read as if it were of this version."""


def _version_only(self: ObjectClass, state: str | None) -> None:
    """The state's fields are not read before a start is counted."""
    if state is not None:
        self.check_version(json.loads(state)["version"])


read_once = cache(json.loads)
"""Parses a state's text once: a method continues with the changes of another call, or of a turn that lost its race."""


def _with_nothing_read(seed: int) -> None:
    read_once.cache_clear()
    objects_world.run(seed)


def _whenever(self: Turn, message: Message, *, gave_up: bool) -> Problem | None:
    return refused(self, replace(message, not_after=None), gave_up=gave_up)


def _not_among_failures(*_: Any) -> Iterator[Put]:
    return iter(())


def _without_continuations(
    self: Turn, id_: str, since: datetime, address: ObjectAddress, message: Any, *target: str
) -> None:
    call = self.calls[id_]
    self.calls[id_] = replace(call, message=replace(call.message, then=()))
    forward(self, id_, since, address, message, *target)


def _any_method(_: Any, __: ObjectAddress, ___: Mailbox, page: tuple[StoredMessage, ...]) -> tuple[StoredMessage, ...]:
    """A method that the code does not have is the error of its call at once."""
    return page


FAULTS = (
    in_objects("obj-7", "marks", "objects.marked", _never_marked),
    in_objects("obj-7", "marks on the call, not on the run", "objects.marked", _marked_by_deliveries),
    in_objects("obj-7", "a mark's owner", "objects.Mark.next", _not_owned),
    in_objects("obj-7", "the time of the last start", "objects.Mark.next", _given_up_at_once),
    in_objects("obj-7", "the last start of another delivery", "objects.Mark.next", _given_up_by_its_run),
    in_objects("obj-7", "one start a delivery", "objects.has_started", _never_started),
    in_objects("obj-7", "all attempts of a call", "objects.Mark.is_spent", property(_is_spent_early)),
    in_objects("obj-7", "one call at a time", "objects.page_of", _whole_page),
    in_objects("obj-7", "a failure for each call that was given up", "objects.failures_of", _not_among_failures),
    in_objects("obj-9", "keeping a continuation with its call", "objects.Turn.follow", _dropped),
    Fault(
        "obj-9",
        "a record of each continuation that waits",
        always(("objects.Turn.follow", _with_its_call), ("objects.kept_reply", _kept_with_its_call)),
        objects_world.run,
    ),
    in_objects("obj-10", "keeping calls on a result", "objects.Turn.end", _forgotten),
    in_objects("obj-10", "the place of calls on a result", "objects.Turn.end", _at_the_end),
    in_objects("obj-10", "the order of calls that wait again", "objects.Turn.end", _at_once),
    in_objects("obj-10", "ending a turn with what others waited for", "objects.Turn.is_cut", _never_cut),
    in_objects("obj-10", "the continuations of a forwarded call", "objects.Turn.forward", _without_continuations),
    in_objects("obj-13", "waiting for newer code", "objects.understood", _any_method),
    in_objects("obj-12", "leaving newer state alone", "objects.ObjectClass.check_version", _any_version),
    in_objects(
        "obj-12", "a look at the fields before a start counts", "objects.ObjectClass.check_state", _version_only
    ),
    in_objects("obj-12", "a look at the version before a start counts", "remembering.Version.check", _not_checked),
    replace(
        in_objects(
            "obj-15",
            "the state's text at the beginning of each call",
            "objects.json",
            SimpleNamespace(loads=read_once, dumps=json.dumps),
        ),
        run=_with_nothing_read,
    ),
    in_objects("obj-16", "the limit in time", "objects.Turn.refused", _whenever),
)
