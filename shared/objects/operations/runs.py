"""Run a mailbox: turn after turn, until nothing is due.

    read the mailbox ──► apply in order, in memory ──► commit: header, calls, messages, tasks ──► hand over
          ▲                                                    │ guard lost: another run was faster
          └────────────────────────────────────────────────────┘

A call that kills its process would kill every run. So from the third delivery of a wake-up on, or where the first call
bears a mark already, a run goes carefully: it marks one call, applies it, and goes on with the next.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from shared.core.operations import outbox
from shared.core.operations.mailbox import Mailbox, check_due, is_over, read_mailbox, revision_of, wake_again
from shared.core.operations.perform import Contended, pause
from shared.core.operations.ports import SERVER_TIME, Change, Conflict, Ports, Put
from shared.core.operations.time_budgets import Budget, OutOfTime
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import Waiting, message_path, next_revision
from shared.core.rules.problems import Unavailable
from shared.core.rules.wake_ups import WakeUp
from shared.objects.operations.records import (
    FunctionOf,
    TurnWrites,
    effects_of,
    state_of,
    wake_object,
)
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.failures import failure_of
from shared.objects.rules.marks import Mark
from shared.objects.rules.messages import CallRecord, Kind, targets_of
from shared.objects.rules.methods import Apply
from shared.objects.rules.turns import Turn
from shared.tasks.rules.failures import path_of


@dataclass(frozen=True, slots=True)
class Code:
    """The code of the classes of a function: how a method is applied, and which function has which class.

    `check` raises `Unavailable` for a state that is newer than the code.
    """

    function: str
    apply: Apply
    function_of: FunctionOf
    check: Callable[[ObjectAddress, str | None], None] = lambda _, __: None


@dataclass(frozen=True, slots=True)
class Run:
    """One delivery of a wake-up, the task `id`; `deliveries` came before it."""

    wake: WakeUp
    id: str
    deliveries: int = 0

    @property
    def address(self) -> ObjectAddress:
        """Return the object whose mailbox this runs."""
        return ObjectAddress.of_base(self.wake.mailbox)


def run(ports: Ports, code: Code, delivery: Run, budget: Budget) -> None:
    """Apply what is due. Raises `Unavailable` if the wake-up is to be delivered again."""
    out_of_time, lost = budget(), 0
    while lost < LIMITS.rounds_max:
        mailbox = read_mailbox(ports.store, delivery.wake.mailbox, LIMITS.mailbox_page)
        check_due(delivery.wake, mailbox)
        if not mailbox.waiting or is_over(delivery.wake, mailbox.header):
            return _wake_again(ports, code, delivery.wake, mailbox)
        try:
            if not _turn(ports, code, delivery, mailbox, out_of_time):
                return _wake_again(ports, code, delivery.wake, mailbox)
        except Conflict:
            pause(ports, lost)
            lost += 1
    raise Contended(f"{delivery.wake.mailbox} is written by many at once")


def _wake_again(ports: Ports, code: Code, wake: WakeUp, mailbox: Mailbox) -> None:
    wake_again(ports, wake_object(ObjectAddress.of_base(wake.mailbox), code.function, wake.until), wake, mailbox)


def _turn(ports: Ports, code: Code, delivery: Run, mailbox: Mailbox, out_of_time: OutOfTime) -> bool:
    """Commit one turn. Returns whether this run is to go on; whatever is left has a wake-up of its own.

    Raises `Conflict` when another was faster.
    """
    careful = delivery.deliveries >= LIMITS.careful_deliveries or Mark.from_record(mailbox.waiting[0].data) is not None
    page = _page(mailbox, careful=careful)
    if careful:  # before a mark: older code waits, however often it comes
        code.check(delivery.address, state_of(mailbox.header))
    begun = _marked(ports, delivery, mailbox, page[0]) if careful else page[0]
    spent, page = begun is None, (begun or page[0], *page[1:])
    turn = begin_turn(ports, delivery.address, mailbox, page)
    taken = take_all(turn, page, code.apply, out_of_time, gave_up=spent)
    more = mailbox.more or taken < len(mailbox.waiting)
    versions = {each.id: each.version for each in page}
    writes = [
        *(_failures(code, turn, page[0]) if spent else ()),
        *TurnWrites(mailbox.header, {}, versions).writes(turn),
    ]
    outbox.commit(ports, writes, effects_of(turn, code.function_of, code.function, more=more))
    return careful and more and not out_of_time()


def _page(mailbox: Mailbox, *, careful: bool) -> tuple[Waiting, ...]:
    """Return the messages of one turn: a careful one has marked the first alone."""
    return mailbox.waiting[:1] if careful else mailbox.waiting


def _marked(ports: Ports, delivery: Run, mailbox: Mailbox, message: Waiting) -> Waiting | None:
    """Mark the start of a call and return it so; None: it was started too often. Raises `Unavailable`, `Conflict`."""
    before = Mark.from_record(message.data) or Mark()
    if before.is_spent:
        ports.log.error("call given up", object=delivery.wake.mailbox, call=message.id)
        return None
    mark = before.next(delivery.id, mailbox.read_time).to_record()
    path = message_path(delivery.wake.mailbox, message.id)
    committed = ports.store.commit([Change(path, {("mark",): mark}, message.version)])
    return replace(message, version=committed.commit_time)


def _failures(code: Code, turn: Turn, message: Waiting) -> Iterator[Put]:
    """Iterate over the record that keeps a method's call which was given up, to be looked at and called again."""
    call = turn.calls[message.id]
    if call.message.kind is Kind.CALL and call.outcome and call.outcome.error:
        failure = failure_of(code.function, turn.address, message.id, call.message, call.outcome.error)
        times = {"failed_at": SERVER_TIME, "recorded_at": SERVER_TIME}
        yield Put(path_of(failure.id), failure.to_record() | times)


def begin_turn(ports: Ports, address: ObjectAddress, mailbox: Mailbox, page: tuple[Waiting, ...]) -> Turn:
    """Return a turn before its first message. The calls that others follow on are read, unless they are on the page."""
    calls = {each.id: CallRecord.from_record(each.data) for each in page}
    targets = sorted(targets_of([call.message for call in calls.values()]) - calls.keys())
    paths = [message_path(address.base, target) for target in targets]
    for snapshot in ports.store.read(*paths) if paths else ():
        if snapshot.data is not None:
            calls[snapshot.id] = CallRecord.from_record(snapshot.data)
    revision = next_revision(revision_of(mailbox.header), mailbox.read_time)
    return Turn(address, state_of(mailbox.header), revision, mailbox.read_time, calls)


def take_all(
    turn: Turn, page: tuple[Waiting, ...], apply: Apply, out_of_time: OutOfTime, *, gave_up: bool = False
) -> int:
    """Apply messages while they fit and there is time, at least one; return how many. Raises `Unavailable`."""
    taken = 0
    try:
        for each in page:
            if (taken and out_of_time()) or not turn.take(each.id, each.since, apply, gave_up=gave_up):
                break
            taken += 1
    except Unavailable:
        if not taken:
            raise
    return taken
