"""The operations on rates: load, decide, commit.

A wait is created by a commit that cannot conflict, however many waits there are, and that enqueues an admit run. All
runs of one time slot are one task. It grants the waits at the head of the queue in one guarded commit with the rate's
record, each with its own time, and enqueues their tasks for these times. An acquire without a task changes the record.
"""

from collections.abc import Callable, Mapping
from datetime import datetime

from signalbox.core.effects import Decision
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.perform import Records, Writes, perform
from signalbox.core.ports import Conflict, Delete, Must, Ports, Put, Query, Snapshot
from signalbox.core.problems import NotFound, Unavailable
from signalbox.core.surface.paging import Listing, with_prefix
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.core.wake_ups import complete_wake_ups
from signalbox.rates import machine
from signalbox.rates.limits import LIMITS
from signalbox.rates.machine import Admitted, Loaded
from signalbox.rates.model import (
    COLLECTION,
    Acquired,
    Rate,
    RateSettings,
    RateView,
    RateWait,
    WaitAnswer,
    path_of,
    wait_path,
)
from signalbox.rates.requests import AcquireRequest, RateWaitRequest, check_name
from signalbox.rates.storage import (
    AdmitReads,
    WaitsOfBatch,
    admit_writes,
    incarnation_of,
    leave,
    put_wait,
    rate_of,
    wait_of,
    waits_query,
)

AGAIN = (Conflict, Unavailable)
"""The errors after which an operation decides again. An operation recognises its own commit in the records."""

# --- limits ---


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """A rate after a `PUT` or `PATCH`, and whether the call created it."""

    view: RateView
    created: bool = False


def put(ports: Ports, name: str, wanted: RateSettings) -> ChangedSettings:
    """Create a rate or set its limits; waits stay. Raises `BadKey` or `Unavailable`."""
    return _set(ports, name, lambda _: wanted, new=wanted)


def patch(ports: Ports, name: str, request: SettingsPatch[RateSettings]) -> ChangedSettings:
    """Change some limits. Raises `NoRate`, `BadRate` or `Unavailable`."""
    return _set(ports, name, request.applied_to)


def _set(
    ports: Ports, name: str, changed: Callable[[RateSettings], RateSettings], *, new: RateSettings | None = None
) -> ChangedSettings:
    """Change the limits. A rate that does not exist is created with the limits `new`, if they are given."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, ChangedSettings]:
        [snapshot], now = read, read[0].read_time
        if new is not None and snapshot.data is None:
            rate = machine.new_rate(new, now)
            created = ChangedSettings(RateView(name, rate, now), created=True)
            return Decision((Put(snapshot.path, rate.to_record(), Must.NOT_EXIST),), created)
        before = rate_of(name, snapshot)
        settings = changed(before.settings)
        if settings == before.settings:
            return Decision((), ChangedSettings(RateView(name, before, now)))
        rate = machine.change_settings(before, settings, now)
        effects = (machine.admit_task(name, incarnation_of(snapshot)),)
        write = Put(snapshot.path, rate.to_record(), snapshot.guard)
        return Decision((write,), ChangedSettings(RateView(name, rate, now)), effects)

    return perform(ports, [path_of(check_name(name))], decide)[0]


def delete(ports: Ports, name: str) -> None:
    """Delete a rate; its waits end, and their tasks do not run. Raises `NoRate` or `Unavailable`.

    The run that deletes the waits may be lost. So a call that finds no rate, but waits, enqueues it again before it
    raises `NoRate`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        [snapshot] = read
        if snapshot.data is None:
            end_again(ports, name, snapshot.read_time)
        rate_of(name, snapshot)
        effects = (machine.admit_task(name, incarnation_of(snapshot)),)
        return Decision((Delete(snapshot.path, snapshot.guard),), None, effects)

    perform(ports, [path_of(check_name(name))], decide)


def end_again(ports: Ports, name: str, now: datetime) -> None:
    """Enqueue the run that deletes the waits that are left of a rate that does not exist."""
    if ports.store.query(waits_query(name, 1)):
        ports.queue.create(complete_wake_ups([machine.admit_task(name, 0)], now))


def pause(ports: Ports, name: str) -> RateView:
    """Grant no permits until `resume`; waits stay in their order. Raises `NoRate` or `Unavailable`."""
    return _switch(ports, name, machine.pause)


def resume(ports: Ports, name: str) -> RateView:
    """Grant permits again, to the waits first. Raises `NoRate` or `Unavailable`."""
    return _switch(ports, name, machine.resume)


def _switch(ports: Ports, name: str, switched: Callable[[Rate, datetime], Rate]) -> RateView:
    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, RateView]:
        [snapshot], now = read, read[0].read_time
        before = rate_of(name, snapshot)
        after = switched(before, now)
        writes = () if after == before else (Put(snapshot.path, after.to_record(), snapshot.guard),)
        effects = machine.admit_effects(name, before, after, incarnation_of(snapshot))
        return Decision(writes, RateView(name, after, now), effects)

    return perform(ports, Records([path_of(check_name(name))]), decide, retry_on=AGAIN)[0]


# --- views ---


def get(ports: Ports, name: str) -> RateView:
    """Return a rate and the number of its waits. Raises `BadKey` or `NoRate`."""
    [snapshot] = ports.store.read(path_of(check_name(name)))
    rate = rate_of(name, snapshot)
    return RateView(name, rate, snapshot.read_time, ports.store.count(waits_query(name, 1)))


@dataclass(frozen=True, slots=True)
class RatesPage:
    """Rates by name; `more` has the token of the next page, as a member of the answer."""

    rates: tuple[RateView, ...]
    more: Mapping[str, str]


def find(ports: Ports, listing: Listing) -> RatesPage:
    """Return a page of the rates. Rates that may have waits also have the number of waits."""
    found = ports.store.query(Query(COLLECTION, with_prefix(listing.prefix), limit=listing.limit, after=listing.after))
    views = (RateView(snapshot.id, rate_of(snapshot.id, snapshot), snapshot.read_time) for snapshot in found)
    counted = tuple(_with_count(ports, view) for view in views)
    return RatesPage(counted, listing.next_page([snapshot.id for snapshot in found]))


def _with_count(ports: Ports, view: RateView) -> RateView:
    if view.rate.alarm_at is None and view.rate.paused_at is None:
        return view
    return replace(view, waiting=ports.store.count(waits_query(view.name, 1)))


# --- permits ---


def acquire(ports: Ports, name: str, request: AcquireRequest) -> Acquired:
    """Take permits if they are there now. Raises `NoRate`, `BadRate`, `OtherBody` or `Unavailable`."""
    asked = request if request.id else replace(request, id=ports.store.new_id())

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Acquired]:
        [snapshot] = read
        rate = rate_of(name, snapshot)
        decided = machine.acquire(rate, asked, snapshot.read_time)
        writes = () if decided.state == rate else (Put(snapshot.path, decided.state.to_record(), snapshot.guard),)
        return Decision(writes, decided.answer)

    return perform(ports, Records([path_of(check_name(name))]), decide, retry_on=AGAIN)[0]


def wait(ports: Ports, name: str, request: RateWaitRequest) -> WaitAnswer:
    """Put a wait into the queue. A repeat is answered with the wait's state.

    Raises `NoRate`, `BadRate`, `OtherBody` or `Unavailable`.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, WaitAnswer | None]:
        snapshot, own = read
        incarnation, found = incarnation_of(snapshot), wait_of(own)
        if found and (found.incarnation == incarnation or found.state != "waiting"):
            return Decision((), machine.repeated_wait(name, found, request, own.read_time))
        rate = rate_of(name, snapshot)
        weight = min(request.weight, rate.settings.burst) if request.at_most_burst else request.weight
        machine.check_weight(rate, weight)
        if found:  # its rate was deleted; if overwritten, it would keep its create time, and so its place
            return Decision((Delete(own.path, own.guard),), None)
        waiting = RateWait(
            request.id,
            incarnation,
            request.continuation,
            weight,
            unit=request.unit,
            batch=request.batch,
        )
        answer = WaitAnswer(waiting.id, waiting.state)
        return Decision((put_wait(name, waiting, own),), answer, (machine.admit_task(name, incarnation),))

    reads = Records([path_of(check_name(name)), wait_path(name, request.id)])
    while (answer := perform(ports, reads, decide, retry_on=AGAIN)[0]) is None:
        pass
    if answer.lost:
        ports.queue.create(answer.lost)
    return answer


def cancel(ports: Ports, name: str, id_: str, *, by_flow: bool = False) -> bool:
    """End a wait. Return whether the wait had not been granted.

    Raises `NotFound` if there is no such wait, and `WaitOfFlow` if the wait is a flow's.
    """

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        [own] = read
        waiting = wait_of(own)
        if waiting is None:
            raise NotFound(f"Rate {name!r} has no wait {id_!r}.", field="id")
        waiting.continuation.check_cancel(by_flow=by_flow)
        if waiting.state != "waiting":
            return Decision((), waiting.state == "cancelled")
        cancelled = replace(waiting, state="cancelled")
        behind = (machine.admit_task(name, waiting.incarnation),) if waiting.weight > 1 else ()
        unit = machine.unit_task(name, cancelled)
        return Decision((leave(name, cancelled, own.read_time),), True, behind + unit)

    return perform(ports, Records([wait_path(check_name(name), id_)]), decide, retry_on=AGAIN)[0]


def drop_waits(ports: Ports, name: str, batch: str) -> None:
    """Cancel all waits of the units of a batch that was cancelled or removed. Raises `Unavailable`."""

    def decide(found: tuple[Snapshot, ...]) -> Decision[Writes, bool]:
        waits = [wait for snapshot in found if (wait := wait_of(snapshot))]
        writes = tuple(leave(name, replace(wait, state="cancelled"), found[0].read_time) for wait in waits)
        behind = tuple(machine.admit_task(name, wait.incarnation) for wait in waits[:1])
        return Decision(writes, bool(waits), behind)

    while perform(ports, WaitsOfBatch(name, batch), decide, retry_on=AGAIN)[0]:
        pass


# --- the admit run ---


def admit(ports: Ports, name: str, not_before: datetime | None = None) -> None:
    """Grant the waits whose permits are there now or soon. Raises `Unavailable` if the run is early or contended.

    Also raises it if waits of a deleted rate are left that no alarm leads to: the next delivery of the run continues.
    """
    for _ in range(LIMITS.rate_pages_max):
        admitted = _admit_page(ports, name, not_before)
        if not admitted.again:
            return
    if admitted.rate is None or admitted.rate.alarm_at is None:
        raise Unavailable("waits of a deleted rate are left")


def _admit_page(ports: Ports, name: str, not_before: datetime | None) -> Admitted:
    """Grant a page of waits in one commit with the rate's record, or delete a page of waits of a deleted rate."""

    def decide(loaded: tuple[Snapshot, Loaded]) -> Decision[Writes, Admitted]:
        snapshot, read = loaded
        machine.check_due(read.now, not_before)
        admitted = machine.admit(read)
        effects = tuple(machine.continuation_task(name, one, read.now) for one in admitted.granted)
        effects += machine.ended_tasks(name, admitted, read.now)
        if admitted.rate is not None and read.rate is not None:
            effects += machine.admit_effects(name, read.rate, admitted.rate, read.incarnation)
        return Decision(admit_writes(snapshot, read, admitted), admitted, effects)

    return perform(ports, AdmitReads(name), decide, retry_on=AGAIN)[0]
