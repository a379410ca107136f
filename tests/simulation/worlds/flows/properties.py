"""What must hold when a simulated world of flows is at rest.

The oracle: the same coroutine, run plainly with what its log says in the order of the log, waits for what the header
says, and ended as it says. A model of flows, which is not the driver, runs the log in addition (`modelled_flows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from signalbox.core import outbox
from signalbox.core.ports import Query
from signalbox.flows.machine.driver import Driver, Position, replay
from signalbox.flows.machine.headers import end_of
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, Message, Result, sub_flow_address
from signalbox.flows.storage.listings import LABELS
from signalbox.flows.storage.log import read_log
from signalbox.flows.sweep import DELETED_WHILE_STUCK
from signalbox.mailboxes.model.messages import HEADER, collection_of, header_path
from signalbox.semaphores.model.semaphore import Semaphore, path_of
from signalbox.testing.memory_store import MemoryStore
from tests.simulation.world import Violation
from tests.simulation.worlds.flows.callers import TERMINATED
from tests.simulation.worlds.flows.interpreted_programs import FLOW, SEMAPHORE, Code, ends_by_itself
from tests.simulation.worlds.flows.modelled_flows import check_by_model
from tests.simulation.worlds.flows.observed_flows import FlowsHistory
from tests.simulation.worlds.semaphores.lane_shares import is_queued


@dataclass(frozen=True, slots=True)
class FlowsAtRest:
    """A world at rest, with its newest code. `leases_end`: leases may end while flows hold them. `by_model`: a
    model of flows also runs each log."""

    store: MemoryStore
    history: FlowsHistory
    code: Code
    nested: bool = False
    purged: bool = False
    leases_end: bool = False
    by_model: bool = False

    def headers(self) -> list[FlowHeader]:
        """Return all flows there are."""
        return [self.history.headers[base] for base in sorted(self.history.headers)]

    def check(self) -> None:
        """Raise `Violation` if something waits, or a flow is not where its log leads it."""
        if left := self.store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still holds {[one.id for one in left]}")
        for header in self.headers():
            self.history.check_order(header.address.base)
            self._check_mailbox(header)
            self._check_flow(header)

    def check_ended(self) -> None:
        """Raise `Violation` if a flow has not ended."""
        for header in self.headers():
            if not header.end:
                raise Violation(f"{header.address.base} never ends: it waits for {header.pending}")
            self._check_parent(header)

    def check_permits(self) -> None:
        """Raise `Violation` if a permit is held or waited for though all flows have ended."""
        late = [self.store.read(path)[0].data for path in self.history.present if self._is_late(path)]
        if held := [lease for lease in self._leases() if not any(lease in str(message) for message in late)]:
            raise Violation(f"{held} are still held")
        waits = self.store.query(Query(f"{path_of(SEMAPHORE)}/waiters"))
        if not self.purged and (left := [wait.id for wait in waits if is_queued(wait.data)]):
            raise Violation(f"{left} still wait for the permit, and no flow needs them")

    def _leases(self) -> list[str]:
        """Return the ids of the leases of the permit that have not ended."""
        [record] = self.store.read(path_of(SEMAPHORE))
        assert record.data is not None
        leases = Semaphore.from_record(record.data).leases
        return [lease.lease_id for lease in leases if lease.is_live(record.read_time)]

    def check_removed(self) -> None:
        """Raise `Violation` if anything is left of flows that were removed.

        A purge may delete the wake-up of a message that arrives after the removal; then nothing finds the message.
        """
        if left := self.left():
            raise Violation(f"{left} were not removed")

    def left(self) -> list[str]:
        """Return the paths of what is left of the flows, apart from what outlives a removed one."""
        return sorted(path for path in self.history.present if not (self._is_receipt(path) or self._is_late(path)))

    def _is_late(self, path: str) -> bool:
        base, _, message = path.partition("/mailbox/")
        return self.purged and message not in ("", HEADER) and header_path(base) not in self.history.present

    def _is_receipt(self, path: str) -> bool:
        [read] = self.store.read(path)
        return "/mailbox/" in path and read.data is not None and "expires_at" in read.data

    def _check_mailbox(self, header: FlowHeader) -> None:
        if self.purged and header.end:  # its wake-up may be lost; the removal deletes what waits
            return
        now = self.store.read("clock/now")[0].read_time
        found = self.store.query(Query(collection_of(header.address.base), limit=1_000))
        waiting = [one for one in found if one.id != HEADER and one.data and "since" in one.data]
        if due := [one.id for one in waiting if one.data and one.data["since"] <= now]:
            raise Violation(f"{due} wait for ever in {header.address.base}")

    def check_woken(self) -> None:
        """Raise `Violation` if a message waits and no outbox record has a wake-up for it: only the sweeper is left."""
        records = self.store.query(Query(outbox.COLLECTION))
        woken = {task.payload.get("mailbox") for record in records for task in outbox.from_record(record.data)}
        for header in self.headers():
            if not header.stuck and header.address.base not in woken:
                self._check_mailbox(header)

    def _check_labels(self, header: FlowHeader) -> None:
        """Check that the listing has the labels of the header, each alone and with the state."""
        [read] = self.store.read(header.address.base)
        listed = (read.data or {}).get(LABELS, [])
        if listed != header.label_entries:
            raise Violation(f"{header.address.base} has the labels {header.label_entries}, and its listing {listed}")

    def _check_flow(self, header: FlowHeader) -> None:
        base = header.address.base
        self._check_labels(header)
        if header.stuck:
            raise Violation(f"{base} is stuck, though its code is sound: {header.stuck}")
        if is_terminated(header) or self.history.is_half_removed(header):
            return
        driver = self._plainly(header)
        waits = {path: each.command.signature for path, each in driver.pending.items()}
        labels = {name: value for name, value in driver.labels.items() if value is not None}
        if not labels.items() <= header.labels.items() or any(
            driver.labels.get(name, "") is None for name in header.labels
        ):
            raise Violation(f"{base} has the labels {header.labels}, and its code has set {driver.labels}")
        if header.begun and not header.end and not waits:
            raise Violation(f"{base} waits for nothing, and has not ended")
        if not header.end and waits != {path: wait.signature for path, wait in header.pending.items()}:
            raise Violation(f"{base} waits for {header.pending}, its code for {waits}")
        if driver.cancelling and driver.ended and driver.ended.exception() is None:
            raise Violation(f"{base} was cancelled, and its code never received it")
        self._check_completed(header)
        self._check_deadline(header)
        ended = end_of(driver.ended, header.end.at) if driver.ended and header.end else None
        if bool(driver.ended) != bool(header.end) or (header.end and ended != header.end):
            raise Violation(f"{base} ended with {header.end}, its code with {driver.ended}")
        if self.nested:
            self._check_nested(header)
        else:
            self._check_events(header, set(driver.pending))
        self._check_waits(header)
        driver.drop()
        if self.by_model:
            check_by_model(self.code, header, read_log(self.store, header).entries)

    def marks_sent(self) -> set[str]:
        """Return the marks of the tasks that the code of all flows sends in its last generation."""
        drivers = [
            self._plainly(header, began_before=False)
            for header in self.headers()
            if header.begun and not self.history.is_half_removed(header)
        ]
        marks = {call.payload["mark"] for driver in drivers for call in driver.sent}
        for driver in drivers:
            driver.drop()
        return marks

    def _plainly(self, header: FlowHeader, *, began_before: bool = True) -> Driver:
        definition = self.code.flows.definitions[FLOW]
        position = Position(header.execution_id, 1 + header.log.length, dict(header.patches))
        driver = Driver(lambda: definition.begin(header.arguments), position)
        self.code.open.clear()
        self.code.orders.clear()
        self.code.leases_max.clear()
        try:
            log = read_log(self.store, header).entries
            if not self.leases_end:
                self._check_renewals(header, log)
            return replay(driver, header.start_at, log, began_before=began_before)
        except Stuck as stuck:
            raise Violation(f"the log of {header.address.base} cannot be replayed: {stuck}") from stuck

    def _check_renewals(self, header: FlowHeader, log: Sequence[Message]) -> None:
        """Check that no renewal was refused: no lease ends in a world, and a flow renews only what it holds."""
        renewals = [each for each in log if isinstance(each, Result) and each.wait.signature.startswith("renew ")]
        if refused := [each.outcome.error for each in renewals if each.outcome.error]:
            raise Violation(f"{header.address.base} holds a lock whose renewal was refused: {refused}")

    def _check_deadline(self, header: FlowHeader) -> None:
        """Check that a run that has not ended was cancelled if its time is over."""
        now, run = self.store.read("clock/now")[0].read_time, (header.address.base, header.incarnation)
        if header.deadline_at and header.deadline_at < now and not header.end and run not in self.history.cancelled:
            raise Violation(f"{header.address.base} was not cancelled at its deadline {header.deadline_at}")

    def _check_completed(self, header: FlowHeader) -> None:
        """Check that steps whose handles the code has awaited as they ended are in the log in this order."""
        for order in filter(None, self.code.orders):
            log = [entry.outcome for entry in read_log(self.store, header).entries if isinstance(entry, Result)]
            texts = [str(each.error["detail"] if each.error else each.result) for each in log]
            later = iter(texts)  # several steps may have failed with one text
            if not all(text in later for text in order if text in texts):
                raise Violation(f"{header.address.base} has received {order}, and its log has {texts}")

    def _check_events(self, header: FlowHeader, waits: set[str]) -> None:
        """Check that a flow does not wait for an event that has come."""
        awaited = {header.pending[path].signature.removeprefix("event ") for path in waits if path in header.pending}
        for incarnation, event in self.history.landed[header.address.base]:
            lost = isinstance(event, Event) and event.name in awaited and event.value not in self.code.consumed
            if lost and incarnation == header.incarnation and not header.end:
                raise Violation(f"{header.address.base} waits for {event.name}, and {event.value} has come")

    def _check_nested(self, header: FlowHeader) -> None:
        """Check that all events are in the log, and no `any` waits for a command that has ended or never began.

        What the last turn of a generation applied is in no log.
        """
        base = header.address.base
        received = self.history.received[base, header.incarnation]
        for incarnation, event in self.history.landed[base]:
            first = header.generation == 0 and not header.end
            if first and incarnation == header.incarnation and event.value not in received:
                raise Violation(f"{base} never received {event.value}")
        if header.written_by == self.code.revision and len(header.leases) > sum(self.code.leases_max):
            raise Violation(f"{base} holds {header.leases}, and its code has released them")
        if waits := [items for items in self.code.open if any(map(ends_by_itself, items))]:
            raise Violation(f"{base} waits for ever for the first of {waits}")
        if self.code.wrong:
            raise Violation(f"the code of {base} has seen that {self.code.wrong}")
        if self.code.interrupted:
            raise Violation(f"a cancel interrupted the shielded {self.code.interrupted}")
        if self.code.outside:
            raise Violation(f"the clean-ups {self.code.outside} ran outside of their flow")

    def _check_waits(self, header: FlowHeader) -> None:
        """Check that a flow waits for nothing that has ended, and is waited for if it is another's."""
        ends = ("step", "run", "sleep", "object", "renew", *([] if self._leases() else ["lock"]))
        if waits := [each for each in header.pending.values() if each.signature.split()[0] in ends]:
            raise Violation(f"{header.address.base} waits for ever for {waits}")
        for wait in header.pending.values():
            child = sub_flow_address(header.address, wait)
            around_it = self.history.headers.get(child.base) if child else None
            if child and (around_it is None or around_it.end):
                raise Violation(f"{header.address.base} waits for ever for a flow that has ended")
        if header.parent and not header.end:
            around = self.history.headers.get(header.parent.base)
            wait = header.parent.wait
            if around is None or around.execution_id != wait.execution_id or wait.path not in around.pending:
                raise Violation(f"{header.address.base} continues, although its parent does not wait for it")

    def _check_parent(self, header: FlowHeader) -> None:
        """Check that the flow around this one has the outcome in its log, if it still waited for it."""
        if header.parent is None or header.end is None:
            return
        wait = header.parent.wait
        log = self.history.logs[header.parent.base, wait.execution_id]
        entries = [each for each in log if isinstance(each, Result) and each.wait.path == wait.path]
        if entries and entries[0].outcome != header.end.outcome:
            raise Violation(f"{header.parent.base} has {entries} in its log, and {header.address.base} ended otherwise")


def is_terminated(header: FlowHeader) -> bool:
    """Return whether people have ended a flow: its end does not follow from its log."""
    return header.end is not None and (header.end.outcome.error or {}).get("detail") in (
        TERMINATED,
        DELETED_WHILE_STUCK,
    )
