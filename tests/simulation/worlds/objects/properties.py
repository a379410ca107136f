"""The checks of a simulated world of objects at rest: each call's effect, outcome and continuations."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import name_of
from signalbox.core.ports import Query
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import HEADER, header_path, message_path
from signalbox.objects.limits import LIMITS as OBJECTS_LIMITS
from signalbox.objects.model import CallRecord, Kind
from signalbox.tasks.model.failures import failure_path
from signalbox.testing.memory_store import MemoryStore
from tests.simulation.world import Violation
from tests.simulation.worlds.objects.call_order import check_order, check_sent_order
from tests.simulation.worlds.objects.callers import Act
from tests.simulation.worlds.objects.observed_objects import History
from tests.simulation.worlds.objects.remembering_class import CLASS, FIRST_PASSED_ON, KEYS, REMINDED, THEN_PASSED_ON


@dataclass(slots=True)
class Tasks:
    """The user's tasks that ran: the outcomes that continuations got, and the tasks' names, by the calls' ids."""

    told: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))
    names: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))


@dataclass(frozen=True, slots=True)
class Rest:
    """A world at rest, after so many `faults`.

    `deadly`: the calls that kill their process; `too_late`: those that began after their limit; `starts`: of each call.
    """

    store: MemoryStore
    history: History
    acts: Sequence[Act]
    tasks: Tasks
    deadly: set[str]
    too_late: set[str]
    starts: Mapping[str, int]
    faults: int

    def check(self) -> None:
        """Raise `Violation` if something waits, or if a committed call did not take effect once, in order."""
        self._check_nothing_waits()
        if self.too_late:
            raise Violation(f"{sorted(self.too_late)} began after their limits")
        for act in self.acts:
            if act.refused:
                self._check_refused(act)
            elif self._has_landed(act):
                self._check_act(act)
            elif act.answered:
                raise Violation(f"{act.id} was answered, and there is no record of it")
        check_order(self.history, self.acts)
        check_sent_order(self.history, self.acts)

    def _check_listing(self, address: ObjectAddress) -> None:
        """Check that an object is listed if it exists, and only then."""
        listing, header = self.store.read(address.base, header_path(address.base))
        exists = header.data is not None and header.data["state"] is not None
        if exists != (listing.data is not None):
            raise Violation(f"{address.base} exists: {exists}, and its listing is {listing.data}")

    def _check_nothing_waits(self) -> None:
        for key in KEYS:
            self._check_listing(ObjectAddress(CLASS, key))
            records = self.store.query(Query(f"{ObjectAddress(CLASS, key).base}/mailbox", limit=1_000))
            if waiting := [one.id for one in records if one.id != HEADER and one.data and not _is_done(one.data)]:
                raise Violation(f"{waiting} of {key} wait for ever")
        if left := self.store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still holds {[one.id for one in left]}")

    def _has_landed(self, act: Act) -> bool:
        """Return whether the record under the act's id is the act's."""
        landed = self.history.landed.get((act.key, act.record))
        return landed is not None and landed[1] == act.message.to_record()["body"]

    def _check_refused(self, act: Act) -> None:
        if self.history.times(None, act.id):
            raise Violation(f"{act.id} was refused, and took effect")

    def _check_act(self, act: Act) -> None:
        call = self._record(act)
        if call is None:
            raise Violation(f"{act.id} has landed, and there is no record of it")
        if act.answer is not None and act.answer.outcome not in (None, call.outcome):
            raise Violation(f"{act.id} was answered with {act.answer.outcome}, and its record is {call}")
        if act.kind is Kind.CALL:
            self._check_call(act, call.outcome.error if call.outcome else None)
            self._check_sent(act)
        if act.kind is Kind.THEN or act.message.then:
            self._check_told(act)
        if act.kind is Kind.ON_RESULT:
            self._check_on_result(act, call)

    def _check_call(self, act: Act, problem: Any) -> None:
        applied = self.history.times(act.key, act.id)
        gave_up, too_late = (bool(problem) and problem["type"] == name for name in ("gave-up", "call-too-late"))
        if gave_up != (act.id in self.deadly and not too_late) or (gave_up and applied):
            raise Violation(f"{act.id} has the outcome {problem}; deadly calls: {self.deadly}")
        if gave_up and self.starts[act.id] + self.faults < OBJECTS_LIMITS.call_attempts_max:
            raise Violation(f"the call {act.id} was given up after {self.starts[act.id]} starts")
        if gave_up and self._failure_of(act) is None:
            raise Violation(f"{act.id} was given up, and is not among the failures")
        if too_late and act.timing.not_after_seconds is None:
            raise Violation(f"{act.id} has no limit, and the outcome {problem}")
        expected = 0 if gave_up or too_late or act.method == "refuse" else 1
        if applied != expected and not (self.history.deleting and not applied):
            raise Violation(f"{act.id} took effect {applied} times on {act.key}")

    def _failure_of(self, act: Act) -> Any:
        base = ObjectAddress(CLASS, act.key).base
        [record] = self.store.read(failure_path(name_of("call given up", base, act.record)))
        return record.data

    def _check_sent(self, act: Act) -> None:
        """Check what a call sent. What a turn did before a deletion in it is not seen."""
        if act.method == "remind" and not self.history.deleting:
            times = self.history.times(act.key, act.id), self.history.times(act.key, act.id + REMINDED)
            if len(set(times)) > 1:
                raise Violation(f"{act.id} and the delayed call that it sent took effect {times} times")
        if act.method != "pass_on" or self.history.deleting:
            return
        applied = self.history.times(act.key, act.id)
        sent = [self.history.times(act.to, act.id + label) for label in (FIRST_PASSED_ON, THEN_PASSED_ON)]
        tasks = len(self.tasks.names["sent", act.id])
        if {applied, tasks, *sent} != {applied}:
            raise Violation(f"{act.id} took effect {applied} times, what it sent {sent} and {tasks}")

    def _check_told(self, act: Act) -> None:
        told = self.tasks.told[act.id]
        if len(self.tasks.names["told", act.id]) != 1 or any(each != told[0] for each in told):
            raise Violation(f"the continuation of {act.id} ran with {told}")
        knows = not act.follows or self._knows(act, self._target(act))
        if knows and told[0].get("error", {}).get("status") == 404:
            raise Violation(f"{act.id} was set after {act.follows} was called, which it did not find")

    def _knows(self, act: Act, target: Act) -> bool:
        """Return whether an act on another's outcome began after that one was committed, and so on for that one."""
        landed = self.history.landed.get((target.key, target.record))
        if landed is None or act.began is None or landed[0] >= act.began:
            return False
        return not target.follows or self._knows(target, self._target(target))

    def _target(self, act: Act) -> Act:
        """Return the act that another follows on."""
        return next(each for each in self.acts if each.id == act.follows)

    def _check_on_result(self, act: Act, call: CallRecord) -> None:
        times = self.history.times(None, act.id)
        if times > 1:
            raise Violation(f"{act.id} took effect {times} times")
        place = self._place(act)
        if place and self.history.times(place, act.id) != 1 and not self.history.deleting:
            raise Violation(f"{act.id} on the result of {act.follows} took effect {times} times, not on {place}")
        if (times == 1) != self._reached(call) and not self.history.deleting:
            raise Violation(f"{act.id} took effect {times} times, and its record is {call}")

    def _place(self, act: Act) -> str:
        """Return the object that a call must have taken effect on, or an empty text."""
        if act.id in self.deadly or not self._has_landed(act):
            return ""
        if act.kind is Kind.CALL:
            return act.key
        target = self._target(act)
        opens = target.method == "open" and self._place(target) and self._knows(act, target)
        return target.to if opens else ""

    def _reached(self, call: CallRecord) -> bool:
        while call.forwarded is not None:
            [record] = self.store.read(message_path(call.forwarded.address.base, call.forwarded.id))
            if record.data is None:
                return False
            call = CallRecord.from_record(record.data)
        return call.outcome is not None and call.outcome.error is None

    def _record(self, act: Act) -> CallRecord | None:
        [record] = self.store.read(message_path(ObjectAddress(CLASS, act.key).base, act.record))
        return None if record.data is None else CallRecord.from_record(record.data)


def _is_done(data: Any) -> bool:
    return "outcome" in data or "forwarded" in data
