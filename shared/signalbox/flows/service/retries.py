"""Retry a run in place: plan, and commit the next execution into its header (`machine/rewinds.py`).

    read the header and the log ──► refuse, or plan ──► one commit under the header's guard: header, listing, wake-up

If the process has the flow's code, a replay checks the plan before the commit. The next turn opens the execution. A
sub-flow is retried alone while its parent waits for its outcome: the same commit deletes the message of the failure and
writes the parent's header. With `family`, the highest ancestor that has failed because of it is retried, and the
opening turns continue the failed sub-flows down to it.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from datetime import datetime
from itertools import islice, pairwise

from signalbox.core import outbox
from signalbox.core.effects import Effect, name_of
from signalbox.core.keys import IdSpace
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import Conflict, Delete, Ports, Snapshot, Write
from signalbox.core.problems import Contended, OtherBody, Problem
from signalbox.core.times import EPOCH
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.commands import Batch, Lock, RatePermits
from signalbox.flows.machine.deadlines import checked_timeout, deadline_id, deadline_message, wake_at_deadline
from signalbox.flows.machine.effects import (
    cancel_batch_effect,
    cancel_rate_effect,
    cancel_wait_effect,
    release_effect,
    wake_flow,
)
from signalbox.flows.machine.rewinds import (
    Plan,
    RetryAnswer,
    SubFlowRetry,
    check_state,
    deadline_after,
    failed_because_of,
    handled_in_branch,
    leases_of_tail,
    plan_of,
    retried_before,
    rewound_header,
    waits_for,
)
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.turns import FlowTurn
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import FAILED, RUNNING, FlowHeader
from signalbox.flows.model.messages import (
    Cancel,
    Message,
    Result,
    message_to_record,
    parent_key,
    sub_flow_address,
)
from signalbox.flows.model.waits import Wait
from signalbox.flows.problems import BadFlow, CannotRetry, utf8_bytes
from signalbox.flows.service.reads import present, stuck_below
from signalbox.flows.service.turns import adopted_sub_flows
from signalbox.flows.storage.commits import end_name, header_of, rewind_writes
from signalbox.flows.storage.log import LoadedLog, read_log
from signalbox.mailboxes.machine import next_revision
from signalbox.mailboxes.model.messages import header_path, message_path
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.storage import header_put, message_put, revision_of
from signalbox.payloads.service import opens_payloads

ASKS_LETTERS = 16
"""Letters of the digest of a request, which is kept with its key."""

RETRY_KEY_BYTES = 200
"""Bytes of a key that the header keeps as it is. Of a longer one, and of one that is not UTF-8, it keeps a hash: it has
the keys of 100 retries."""

RETRY_KEYS = IdSpace("retry")


@dataclass(frozen=True, slots=True)
class RetryOptions:
    """A retry from the first `from_entry` entries, or by the default plan. Raises `BadFlow`."""

    from_entry: int | None = None
    family: bool = False
    timeout_seconds: float | None = None
    reason: str = ""

    def __post_init__(self) -> None:
        """Check the values, whatever the run is."""
        entry = self.from_entry
        if entry is not None and (isinstance(entry, bool) or not isinstance(entry, int) or entry < 0):
            raise BadFlow("`from_entry` must be a whole number, 0 or more.", field="from_entry")
        if self.family and entry is not None:
            raise BadFlow(
                "With `family`, each run is retried by its default plan: leave out `from_entry`.", field="family"
            )
        checked_timeout(self.timeout_seconds)

    @property
    def asks(self) -> str:
        """A digest of what a repeat under the same key must ask for again."""
        return name_of("retry", repr(self.from_entry), repr(self.family), repr(self.timeout_seconds))[:ASKS_LETTERS]


@dataclass(frozen=True, slots=True)
class _Found:
    """A run as it was read, and its log."""

    read: Snapshot
    header: FlowHeader
    log: LoadedLog

    @property
    def now(self) -> datetime:
        return self.read.read_time


@opens_payloads
def retry(
    ports: Ports,
    flows: Flows,
    address: FlowAddress,
    key: str,
    options: RetryOptions,
    *,
    dry_run: bool = False,
    check_ancestor: Callable[[FlowAddress], None] = lambda _: None,
) -> RetryAnswer:
    """Let a run that has failed, or is stuck, continue in place. A repeat under the same key changes nothing.

    `check_ancestor` raises an error if the caller may not retry the ancestor that `family` has found. Raises `NoFlow`,
    `CannotRetry`, and `OtherBody` for another request under a key.
    """
    if key and not 0 < utf8_bytes(key) <= RETRY_KEY_BYTES:
        key = RETRY_KEYS.derived(name_of("key of a retry", key))
    for lost in range(CORE_LIMITS.rounds_max):
        try:
            return _retry(ports, flows, address, key, options, check_ancestor, dry_run=dry_run)
        except Conflict:
            pause(ports, lost)
    raise Contended(f"{address.base} is being changed by too many processes at once")


def _retry(
    ports: Ports,
    flows: Flows,
    address: FlowAddress,
    key: str,
    options: RetryOptions,
    check_ancestor: Callable[[FlowAddress], None],
    *,
    dry_run: bool,
) -> RetryAnswer:
    [read] = ports.store.read(header_path(address.base))
    header, parent = present(read, address), None
    if repeated := _repeated(header, key, options):
        return repeated
    if header.parent and (header.state == FAILED or options.family):
        [parent] = ports.store.read(header_path(header.parent.base))
    if options.family and header.parent:
        climbed = _climb(ports, read, header, parent, key, options)
        highest = climbed.address if isinstance(climbed, RetryAnswer) else climbed[1].address
        if highest != address:
            check_ancestor(highest)
        if isinstance(climbed, RetryAnswer):
            return climbed
        read, header, parent = climbed
    waits_for_stuck = _stuck_below(ports, header, check_ancestor) if header.state == RUNNING else ""
    check_state(header, read.read_time, options.timeout_seconds, waits_for_stuck)
    if parent:
        _check_parent(header, parent, check_ancestor)
    found = _Found(read, header, read_log(ports.store, header))
    plan = plan_of(header, found.log.whole, options.from_entry)
    seconds = options.timeout_seconds
    deadline_at = deadline_after(seconds, found.now)
    after = rewound_header(header, plan, key, found.now, options.reason, deadline_at, options.asks)
    _check_replay(flows, found, after)
    ended, sub_flows = _ended(ports, header), list[SubFlowRetry]()
    if dry_run:
        sub_flows += islice(_sub_flows(ports, flows, found, after), LIMITS.flows_listed_max)
    else:
        _commit(ports, found, after, parent, seconds)
    return _answer(found, after, plan, ended, sub_flows)


def _answer(
    found: _Found, after: FlowHeader, plan: Plan, ended: Sequence[Wait], sub_flows: Sequence[SubFlowRetry]
) -> RetryAnswer:
    dropped = list(plan.dropped(found.log.whole))
    return RetryAnswer(
        after.address,
        after.execution_id,
        plan.keep,
        [(number, entry) for number, entry in dropped if number in plan.blanks],
        [(number, entry) for number, entry in dropped if number > plan.keep],
        [wait.signature for wait in found.header.pending.values()],
        [wait.signature for wait in ended],
        sub_flows,
    )


def _ended(ports: Ports, header: FlowHeader) -> Sequence[Wait]:
    """Return the waits of a stuck run whose commands have ended: their outcomes wait in the mailbox, or in a sub-flow.

    Sleeps are not among them. Only the current attempts of steps are looked up.
    """
    paths = [_outcome_path(header, wait) for wait in header.pending.values()]
    reads = ports.store.read(*paths) if paths else ()
    return [wait for wait, read in zip(header.pending.values(), reads, strict=True) if _has_ended(header, wait, read)]


def _outcome_path(header: FlowHeader, wait: Wait) -> str:
    """Return the path of the record that has the outcome of a pending command once it has ended."""
    if address := sub_flow_address(header.address, wait):
        return header_path(address.base)
    claim = header.running.get(wait.path)
    posted = Result(wait, CallOutcome(), delivery=claim.delivery if claim else "")
    return message_path(header.address.base, posted.id_for(header.address))


def _has_ended(header: FlowHeader, wait: Wait, read: Snapshot) -> bool:
    if address := sub_flow_address(header.address, wait):
        child = header_of(read, address)
        return child is not None and child.end is not None
    return read.data is not None and "later" not in read.data  # a timer is a message for later


def _sub_flows(ports: Ports, flows: Flows, found: _Found, after: FlowHeader) -> Iterator[SubFlowRetry]:
    """Iterate over the failed sub-flows that opening turns continue, each before those below it.

    The sub-flows below a run whose code this process does not have are left out.
    """
    try:
        if (turn := _opening_turn(flows, found, after)) is None:
            return
        with closing(turn):
            adopted = list(adopted_sub_flows(ports.store, turn, found.log.whole))
    except (Stuck, CannotRetry):  # of a sub-flow: it fails again
        return
    for each in adopted:
        failed = [entry for entry in each.plan.dropped(each.log.whole) if entry[0] in each.plan.blanks]
        yield SubFlowRetry(each.child.address, each.plan.keep, failed)
        yield from _sub_flows(ports, flows, _Found(each.read, each.child, each.log), each.after)


def _stuck_below(ports: Ports, header: FlowHeader, check_other: Callable[[FlowAddress], None]) -> str:
    """Return a stuck sub-flow for which a run waits, as FLOW/ID, if the caller may retry it, or an empty text."""
    for child in stuck_below(ports.store, header).values():
        with suppress(Problem):
            check_other(child.address)
            return f"{child.address.name}/{child.address.key}"
    return ""


def _repeated(header: FlowHeader, key: str, options: RetryOptions) -> RetryAnswer | None:
    """Return the answer of the retry that was carried out under a key, if any. Raises `OtherBody`."""
    before = retried_before(header, key)
    if before is None:
        return None
    if before.asks != options.asks:
        run = f"{header.address.name}/{header.address.key}"
        raise OtherBody(f"{run} was retried under this key with another body. Use a key of its own.")
    execution_id = f"{header.incarnation}-{header.generation}.{before.rewind}"
    return RetryAnswer(header.address, execution_id, repeated=True)


# --- the family ---


def _climb(
    ports: Ports, read: Snapshot, header: FlowHeader, parent: Snapshot | None, key: str, options: RetryOptions
) -> RetryAnswer | tuple[Snapshot, FlowHeader, Snapshot | None]:
    """Return the highest ancestor that has failed because of a sub-flow, and the parent that waits for it, if any.

    If the key's first request has retried an ancestor, return its answer, also when the family has gone on since.
    Raises `CannotRetry`.
    """
    runs = [(read, header, parent)]
    while (
        parent is not None and header.parent and (above := header_of(parent, FlowAddress.of_base(header.parent.base)))
    ):
        if repeated := _repeated(above, key, options):
            return repeated
        upper = ports.store.read(header_path(above.parent.base))[0] if above.parent else None
        runs.append((parent, above, upper))
        header, parent = above, upper
    for run, (_, above, _) in pairwise(runs):
        _, header, _ = run
        if header.state != FAILED or above.state != FAILED:
            return run
        if not failed_because_of(above, read_log(ports.store, above).whole, header):
            return run  # its parent does not wait any more
    return runs[-1]


def _check_parent(header: FlowHeader, parent: Snapshot, check_ancestor: Callable[[FlowAddress], None]) -> None:
    """Raise `CannotRetry` if the parent of a sub-flow does not wait for this execution of it.

    A caller who may not retry the parent is not told which run it is.
    """
    assert header.parent is not None, "it is a sub-flow"
    address = FlowAddress.of_base(header.parent.base)
    above = header_of(parent, address)
    if header.state != FAILED or (above is not None and waits_for(above, header)):
        return
    try:
        check_ancestor(address)
        name = f"{address.name}/{address.key}"
    except Problem:
        name = ""
    advice = {
        FAILED: "Ask for the `family`, which is retried from its highest run.",
        "running": "It handles the failure: wait for its end.",
    }
    state, run = above.state if above else "removed", f"The parent {name}".rstrip()
    detail = f"{run} is {state}, and no longer waits for this run. {advice.get(state, 'Fork it.')}"
    raise CannotRetry(detail, "parent-moved-on", parent=name, field="family" if state == FAILED else None)


# --- the plan's check, and the commit ---


def _check_replay(flows: Flows, found: _Found, after: FlowHeader) -> None:
    """Raise `CannotRetry` if the code, as far as this process has it, does not fit what the plan keeps."""
    try:
        if turn := _opening_turn(flows, found, after):
            turn.close()
    except Stuck as stuck:
        assert after.rewound is not None, "the run was rewound"
        whole = found.log.whole
        if after.rewound.blanks and _fits(flows.definitions[after.address.name], found, after, whole):
            raise handled_in_branch(after.rewound.blanks, whole) from stuck
        kept = len(after.rewound.kept(whole))
        detail = f"The code does not fit the {kept:,} entries that the retry keeps: {stuck.detail}"
        raise CannotRetry(detail, "does-not-fit", field="from_entry") from stuck


def _opening_turn(flows: Flows, found: _Found, after: FlowHeader) -> FlowTurn | None:
    """Return the opening turn of a rewound run, or None if this process does not have the code. Raises `Stuck`."""
    definition = flows.definitions.get(after.address.name)
    if definition is None or after.written_by > flows.revision:
        return None
    assert after.rewound is not None, "the run was rewound"
    whole = found.log.whole
    return FlowTurn.open(definition, after, after.rewound.kept(whole), whole[after.rewound.keep :], found.now)


def _fits(definition: FlowDefinition, found: _Found, after: FlowHeader, whole: Sequence[Message]) -> bool:
    """Return whether the code fits the whole log."""
    try:
        with closing(FlowTurn.open(definition, after, whole, (), found.now)):
            return True
    except Stuck:
        return False


def _commit(
    ports: Ports, found: _Found, after: FlowHeader, parent: Snapshot | None, timeout_seconds: float | None
) -> None:
    header, base = found.header, after.address.base
    assert after.rewound is not None, "the run was rewound"
    tail = leases_of_tail(header, after.rewound.kept(found.log.whole))
    after = replace(after, leases={path: lease for path, lease in after.leases.items() if path not in tail})
    writes: list[Write] = rewind_writes(found.read, header, after)
    effects: list[Effect] = [release_effect(base, header.function, lease["granted"]) for lease in tail.values()]
    effects += _cancels(header)
    for write, wake in _cancels_of_sub_flows(ports, header):
        writes.append(write)
        effects.append(wake)
    if timeout_seconds is not None:
        id_, message = deadline_message(after, timeout_seconds)
        writes += [Delete(message_path(base, deadline_id(header)))] if header.deadline_at else []
        writes.append(message_put(base, id_, message_to_record(message), after.deadline_at))
        effects += wake_at_deadline(after)
    if parent is not None and header.parent and header.state == FAILED:
        writes += of_waiting_parent(header, parent)
    outbox.commit(ports, writes, [*effects, wake_flow(base, header.function)])


def of_waiting_parent(header: FlowHeader, parent: Snapshot) -> Sequence[Write]:
    """Return the writes on a parent that waits: it does not receive the failure, and its header is written.

    A termination of the parent that has seen the ended sub-flow thus loses its guard, and looks again.
    """
    assert header.parent is not None, "it is a sub-flow"
    above = header_of(parent, FlowAddress.of_base(header.parent.base))
    assert above is not None, "it waits"
    put = header_put(parent, above.to_record(), next_revision(revision_of(parent), EPOCH))
    return [put, Delete(message_path(header.parent.base, end_name(header)))]


def _cancels(header: FlowHeader) -> list[Effect]:
    """Return the tasks that cancel the batches and the waits of a stuck run."""
    effects = []
    for wait in header.pending.values():
        kind, _, name = wait.signature.partition(" ")
        if kind == Batch.kind:
            effects.append(cancel_batch_effect(header, wait))
        elif kind == Lock.kind:
            effects.append(cancel_wait_effect(header, name, wait))
        elif kind == RatePermits.kind:
            effects.append(cancel_rate_effect(header, name, wait))
    return effects


def _cancels_of_sub_flows(ports: Ports, header: FlowHeader) -> Sequence[tuple[Write, Effect]]:
    """Return the messages that cancel the sub-flows for which a stuck run waits, with their wake-ups."""
    waits = [(wait, address) for wait in header.pending.values() if (address := sub_flow_address(header.address, wait))]
    if not waits:
        return []
    found = []
    for (wait, address), read in zip(waits, ports.store.read(*(header_path(a.base) for _, a in waits)), strict=True):
        child = header_of(read, address)
        if child is None or child.end:
            continue
        id_ = name_of("abandoned", address.base, wait.execution_id, wait.path)
        key = parent_key(header.address.base, wait)
        cancel = Cancel(f"{header.address.name} was retried, and does not wait for it any more", parent=key)
        put = message_put(address.base, id_, message_to_record(cancel))
        found.append((put, wake_flow(address.base, child.function)))
    return found
