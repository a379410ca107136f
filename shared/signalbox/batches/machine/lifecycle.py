"""Every decision about a batch as a whole: the next state of its header, and the tasks that its commit enqueues.

    open        pages can be added
    sealed      the number of pages is fixed, so no page can be added
    completed   every unit has an outcome
    cancelled   it ended otherwise: the header's `reason` names the cause
    removed     the sweeper is deleting the records, and the id cannot be used yet

    command          in state                            if                       state      reason     then
    ---------------  ----------------------------------  -----------------------  ---------  ---------  --------
    create           none                                default deadline         open       -          -
    create           none                                nearer deadline          open       -          deadline
    create           open, sealed, completed, cancelled  same spec                same       -          -
    create           open, sealed, completed, cancelled  another spec             OtherBody
    create           removed                             -                        Unavailable

    seal             open                                after the last page      sealed     -          check
    seal             open                                no page, none loaded     completed  -          end
    seal             open                                before the last page     PageOutOfOrder
    seal             open                                after a missing page     PageOutOfOrder
    seal             sealed, completed, cancelled        same number of pages     same       -          -
    seal             sealed, completed, cancelled        another number of pages  BatchSealed

    complete         open                                -                        same       -          -
    complete         sealed                              failures tolerated       completed  -          end
    complete         sealed                              too many failures        cancelled  failures   end
    fail             open, sealed                        failures tolerated       same       -          -
    fail             open, sealed                        too many failures        cancelled  failures   end
    cancel           open, sealed                        -                        cancelled  cancelled  end
    end_with_parent  open, sealed                        -                        cancelled  parent     end
    time_out         open, sealed                        -                        cancelled  deadline   end
    replace_sub      open                                -                        cancelled  replaced   end
    replace_sub      sealed                              -                        same       -          -
    any end          completed, cancelled                -                        same       -          -

    sweep            open, sealed                        before the deadline      same       -          walk
    sweep            open, sealed                        at the deadline          same       -          time out
    sweep            completed, cancelled                its parent exists        same       -          keep
    sweep            completed, cancelled                no parent exists         removed    same       remove
    sweep            removed                             no parent exists         removed    same       remove

`then` names the tasks that the commit enqueues, and for `sweep` the sweeper's action after its commit. The tasks of an
`end` depend on the header's options, as follows. A batch succeeded if it completed with no failed unit, or with
failures that `failures_max` tolerates.

    state      reason    failures   options                          tasks
    ---------  --------  ---------  -------------------------------  -------------------------
    completed  -         none       -                                -
    completed  -         none       on_complete, on_failure          complete
    completed  -         none       on_complete, on_failure, then    complete, then
    completed  -         none       then, parent                     then
    completed  -         none       parent                           child
    completed  -         tolerated  on_complete, on_failure, then    complete, then
    completed  -         some       on_complete, on_failure, then    complete, failure
    completed  -         some       on_failure, then, parent         failure, child
    cancelled  deadline  none       -                                cancel
    cancelled  failures  some       on_complete, on_failure, then    cancel, complete, failure
    cancelled  parent    none       on_failure, then, parent         cancel, failure, child
    cancelled  replaced  none       on_complete, on_failure, parent  cancel

If the function of the batch has an `on_failure`, an end without success also has its notice (`end_notice`).

Pages do not change the header: `pages` decides whether a page may follow.

The second machine is the counter tree: the step that follows from a node after a child has been propagated to it, or
when a walk reaches it. A node is full when all of its children have been propagated to it. Before the seal these are
all children that a node of its level can have; from the seal on, all that exist.

    node         children  header        then
    -----------  --------  ------------  ---------
    page         missing   open, sealed  wait
    page         full      open, sealed  propagate
    below root   missing   open, sealed  wait
    below root   full      open, sealed  propagate
    root         missing   sealed        wait
    root         full      sealed        complete
    highest      missing   open          wait
    highest      full      open          wait

A full node of the highest level waits for the seal, because the root is known from the seal on. Before this step, the
failures below the node are compared with `failures_max`: too many end the batch, however many children are missing.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime, timedelta
from enum import Enum
from typing import Literal

from signalbox.batches.limits import LIMITS
from signalbox.batches.machine.pages import page_start
from signalbox.batches.model import tree
from signalbox.batches.model.headers import REPLACED, Counts, Header
from signalbox.batches.model.pages import Loaded
from signalbox.batches.model.tree import BatchRun, Counter, Node, NodeRecord, PageNode
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.core.effects import Decision, Effect
from signalbox.core.failure_notices import FailureNotice
from signalbox.core.given import given
from signalbox.core.kit_names import ADMIT_QUEUE, RATE_DROP, SEMAPHORE_ADMIT
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.problems import OtherBody, Unavailable

Decided = Decision[Header, None]


# --- creation ---


def create(run: BatchRun, held: Header | None, new: Header, now: datetime) -> Decision[Header, bool]:
    """Create a batch with the header `new`, or return the header that an earlier call created.

    The answer is whether the batch is new. Raises `OtherBody` or `Unavailable`.
    """
    if held is not None:
        return Decision(_repeated(run.batch, held, new), False)
    return Decision(new, True, deadline_tasks(run, new, now))


def _repeated(batch: str, held: Header, new: Header) -> Header:
    if held.state == "removed":
        raise Unavailable(f"the batch {batch!r} is being removed", retry_after_seconds=60)
    if held.digest != new.digest:
        raise OtherBody(f"The batch {batch!r} exists with a different body. Use another id.", field="id")
    return held


def deadline_tasks(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    """Return the task of a deadline that is nearer than the default. For other deadlines the sweeper is enough."""
    if header.deadline_at - now >= timedelta(seconds=LIMITS.batch_deadline_seconds):
        return ()
    return (replace(run.effect_for("deadline"), not_before=header.deadline_at),)


# --- the seal ---


def seal(run: BatchRun, header: Header, pages: int, end: Loaded, last: Loaded, now: datetime) -> Decided:
    """Fix the number of pages. A batch without units completes.

    `end` is the record stored under the number `pages`, `last` the record under the number before that. Raises
    `PageOutOfOrder` or `BatchSealed`.
    """
    if header.state != "open":
        if header.pages is None:
            raise BatchSealed(f"The batch has ended before it was sealed: it is {header.state}.", field="pages")
        if header.pages != pages:
            raise BatchSealed(f"The batch was sealed at {header.pages} pages.", field="pages")
        return Decision(header, None)
    size = size_at_seal(header, pages, end, last)
    sealed = replace(header, state="sealed", pages=pages, size=size, due_at=_idle_until(header, now))
    if not size:
        return ended_batch(run, sealed, "completed", Counts(0, 0, 0), now)
    return Decision(sealed, None, (run.effect_for("check"),))


def size_at_seal(header: Header, pages: int, end: Loaded, last: Loaded) -> int:
    """Return the number of units of a batch with this number of pages. Raises `PageOutOfOrder` or `BatchSealed`."""
    if end is not None:
        raise PageOutOfOrder(f"Page {pages} is loaded: the batch has more than {pages} pages.", field="pages")
    if pages:
        return page_start(header, pages, last).first
    if header.first_pages:
        raise PageOutOfOrder(f"The batch was created with {header.first_pages} pages.", field="pages")
    return 0


# --- ends ---


def complete(run: BatchRun, header: Header, failed: int, now: datetime) -> Decided:
    """End a batch whose units all have an outcome. Too many failures cancel it, even at its last unit."""
    if header.state != "sealed":
        return Decision(header, None)
    size = header.size or 0
    counts = Counts(size, size - failed, failed)
    if too_many_failed(header.settings.failures_max, failed):
        return ended_batch(run, header, "cancelled", counts, now, "failures")
    return ended_batch(run, header, "completed", counts, now)


def fail(run: BatchRun, header: Header, counts: Counts, now: datetime) -> Decided:
    """Cancel a batch in which more units have failed than it tolerates. Retries may have reduced the failures since."""
    if header.ended or not too_many_failed(header.settings.failures_max, counts.failed):
        return Decision(header, None)
    return ended_batch(run, header, "cancelled", counts, now, "failures")


def too_many_failed(failures_max: int | None, failures: int) -> bool:
    """Return whether this number of failures cancels a batch."""
    return failures_max is not None and failures > failures_max


def cancel(run: BatchRun, header: Header, counts: Counts, now: datetime) -> Decided:
    """Cancel a batch for a caller."""
    return _cancel(run, header, counts, now, "cancelled")


def end_with_parent(run: BatchRun, header: Header, counts: Counts, now: datetime) -> Decided:
    """Cancel a sub-batch whose parent's batch was cancelled."""
    return _cancel(run, header, counts, now, "parent")


def time_out(run: BatchRun, header: Header, counts: Counts, missing: Sequence[int], now: datetime) -> Decided:
    """Cancel a batch at its deadline; `missing` are indexes of units without an outcome."""
    return _cancel(run, header, counts, now, "deadline", tuple(missing))


def replace_sub(run: BatchRun, header: Header, counts: Counts, now: datetime) -> Decided:
    """Cancel a sub-batch that was not sealed and whose definition is lost."""
    return _cancel(run, header, counts, now, REPLACED) if header.state == "open" else Decision(header, None)


def _cancel(
    run: BatchRun, header: Header, counts: Counts, now: datetime, reason: str, missing: tuple[int, ...] = ()
) -> Decided:
    if header.ended:
        return Decision(header, None)
    return ended_batch(run, header, "cancelled", counts, now, reason, missing)


def ended_batch(
    run: BatchRun,
    header: Header,
    state: Literal["completed", "cancelled"],
    counts: Counts,
    now: datetime,
    reason: str = "",
    missing: tuple[int, ...] = (),
) -> Decided:
    """Return the header of a batch that has ended, with its counts, and the tasks of its end."""
    ended = replace(header, state=state, **asdict(counts), reason=reason, missing=missing, due_at=_kept_until(now))
    return Decision(ended, None, end_tasks(run, ended, now))


def end_tasks(run: BatchRun, header: Header, now: datetime) -> tuple[Effect, ...]:
    """Return the tasks of an end: the batch's calls, and the batch that follows or the completion of its parent's unit.

    A cancelled batch also cancels its sub-batches. Nothing else follows the end of a sub-batch that another replaces.
    """
    rate = given(rate=header.settings.rate or None)
    tasks = [run.effect_for("cancel", "", after="", **rate)] if header.state == "cancelled" else []
    if header.reason == REPLACED:
        return tuple(tasks)
    calls = {
        "complete": header.settings.on_complete,
        "failure": None if has_succeeded(header) else header.settings.on_failure,
    }
    completion = {"id": run.batch, **header.summary()}
    tasks += [call.effect(run.task_name(name), now, batch=completion) for name, call in calls.items() if call]
    tasks += end_notice(run, header)
    if header.then and has_succeeded(header):
        tasks.append(run.effect_for("then"))
    elif header.parent is not None:
        tasks.append(run.effect_for("child", unit=header.parent.to_record()))
    return tuple(tasks)


def end_notice(run: BatchRun, header: Header) -> tuple[Effect, ...]:
    """Return the task that notifies the function of a batch's units of an end without success.

    There is none if a caller has cancelled the batch, or if a flow or, after a cancel, a unit receives the failure.
    Without a `task`, the function of the batch's `on_failure` or `on_complete` is notified.
    """
    settings = header.settings
    call = settings.task or settings.on_failure or settings.on_complete
    is_of_flow = settings.on_complete is not None and settings.on_complete.is_of_flow
    awaited = is_of_flow or (header.parent is not None and header.state == "cancelled")
    if has_succeeded(header) or awaited or call is None or header.reason == "cancelled":
        return ()
    detail = f"{header.failed} of {header.size or 0} units failed."
    if header.reason == "deadline":
        detail = f"The deadline is over; {len(header.missing)} units without an outcome are known. {detail}"
    notice = FailureNotice("batch", "failed", "", run.batch, header.reason or "failures", detail)
    return notice.tasks(call.function, run.key)


def drop_task(run: BatchRun, rate: str) -> Effect:
    """Return the task that ends the waits for a rate of the units of a batch that is cancelled, or removed.

    Otherwise the waits would take their permits, one after another, although no unit runs.
    """
    payload = {"rate": rate, "batch": run.key}
    return Effect(run.task_name("drop"), ADMIT_QUEUE, SEMAPHORE_ADMIT, RATE_DROP, payload)


def has_succeeded(header: Header) -> bool:
    """Return whether a batch completed with no failed unit, or with failures that `failures_max` tolerates."""
    return header.state == "completed" and (header.failed == 0 or header.settings.failures_max is not None)


# --- the sweeper ---


class SweepAction(Enum):
    """The sweeper's action on a batch that is due, after it has written the header's next `due_at`."""

    KEEP = "it has ended, but its parent batch exists: a redelivery of the parent's unit would create it again"
    REMOVE = "it ended long ago"
    TIME_OUT = "its deadline has passed"
    WALK = "it made no progress for a while: propagate what is full because a process died"


def sweep(header: Header, parent_exists: bool, now: datetime) -> Decision[Header, SweepAction]:
    """Return the header with the time of the sweeper's next visit, and the action of this visit."""
    if header.ended and parent_exists:
        return Decision(replace(header, due_at=_kept_until(now)), SweepAction.KEEP)
    if header.ended:
        return Decision(replace(header, state="removed", due_at=_next_visit(now)), SweepAction.REMOVE)
    if header.deadline_at <= now:
        return Decision(replace(header, due_at=_next_visit(now)), SweepAction.TIME_OUT)
    return Decision(replace(header, due_at=_idle_until(header, now)), SweepAction.WALK)


def silent_tasks(run: BatchRun, counters: Sequence[Counter], now: datetime) -> list[Effect]:
    """Return a task for each page with units without an outcome whose counter has not changed for an hour.

    The tasks of such units may be lost. All visits of the sweeper within an hour return the same tasks.
    """
    since = now - timedelta(seconds=LIMITS.unit_silent_seconds)
    pages = sorted({each.page for each in counters if each.changed_at is not None and each.changed_at <= since})
    hour = int(now.timestamp() // LIMITS.unit_silent_seconds)
    return [run.effect_for("repeat", page, hour, page=page) for page in pages[: LIMITS.silent_pages_max]]


def _next_visit(now: datetime) -> datetime:
    return now + timedelta(seconds=LIMITS.batch_idle_seconds)


def _idle_until(header: Header, now: datetime) -> datetime:
    """Return when the sweeper handles a running batch next, if the batch has not ended by then."""
    return min(header.deadline_at, _next_visit(now))


def _kept_until(now: datetime) -> datetime:
    """Return when an ended batch may be removed."""
    return now + timedelta(seconds=LIMITS.batch_keep_seconds)


# --- the counter tree ---


class NextStep(Enum):
    """The step that follows from a node."""

    WAIT = "children are missing, or the root is not known before the seal"
    PROPAGATE = "the node is full: propagate it to its parent"
    COMPLETE = "the root is full: all units have an outcome"


def step_of_page(node: PageNode) -> NextStep:
    """Return the next step of a page's node. It needs no header, since a page never grows."""
    return NextStep.WAIT if node.missing_counters() else NextStep.PROPAGATE


def step_of_node(node: Node, record: NodeRecord, header: Header) -> NextStep:
    """Return the next step of a node above the pages' level."""
    if record.missing(node, header.pages):
        return NextStep.WAIT
    if header.pages is not None and node == tree.root(header.pages):
        return NextStep.COMPLETE
    return NextStep.WAIT if tree.is_top(node) else NextStep.PROPAGATE
