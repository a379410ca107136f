"""Retry units that failed, on request: all of them or named ones, at once or in chains.

A repeated request under a key has the same task names, so it creates nothing more. In a batch that limits its
`concurrency`, each chain runs one retry at a time, and `units.follow` enqueues the next.
"""

from collections.abc import Sequence
from typing import Any

from signalbox.batches import storage
from signalbox.batches.limits import LIMITS
from signalbox.batches.machine import units as machine
from signalbox.batches.model.large_values import place_of_batch
from signalbox.batches.model.pages import digest
from signalbox.batches.model.tree import BatchRun
from signalbox.batches.model.units import Retries, UnitRecord
from signalbox.batches.problems import BatchSealed, NothingToRun
from signalbox.batches.requests import RetryRequest
from signalbox.batches.service.units import enqueue_look, failure_to_retry, retry_next, tasks_of
from signalbox.core.calls import check_names, declared_parameters
from signalbox.core.effects import Effect
from signalbox.core.given import given
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.times import microseconds
from signalbox.payloads.model import Outgoing, is_large
from signalbox.payloads.service import store as store_payloads


def retry_all(run: BatchRun, retries: Retries, after: int) -> Effect:
    """Return the task that retries all failed units after an index; -1 means from the first unit on."""
    return _retrying(run, retries, after, after=after)


def retry_named(run: BatchRun, retries: Retries, indexes: Sequence[int]) -> Sequence[Effect]:
    """Return the tasks that retry named units. A task retries at most `units_listed_max` units."""
    chunks = [indexes[at : at + LIMITS.units_listed_max] for at in range(0, len(indexes), LIMITS.units_listed_max)]
    return [_retrying(run, retries, at, units=chunk) for at, chunk in enumerate(chunks)]


def _retrying(run: BatchRun, retries: Retries, at: int, **units: Any) -> Effect:
    call = {"call": retries.call, "called_at": retries.called_at, "payload": retries.payload}
    return machine.retry_task(run, retries, at, **units, **call, **given(named=retries.is_named or None))


def retry_page(ports: Ports, run: BatchRun, retries: Retries, after: int) -> None:
    """Retry a page of the failed units after an index, once the task for the next page is enqueued."""
    found = storage.read_outcomes(ports, run, "failed", None if after < 0 else after)
    if len(found) == LIMITS.units_listed_max:
        last = UnitRecord.from_record(found[-1].data or {})
        ports.queue.create([retry_all(run, retries, last.unit.index)])
    enqueue_retries(ports, run, retries, found)


def retry_units(ports: Ports, run: BatchRun, retries: Retries, indexes: Sequence[int], looks: int = 0) -> None:
    """Retry those of the units that failed. `looks` is the number of times that the call has looked at them."""
    enqueue_retries(ports, run, retries, ports.store.read(*map(run.unit_path, indexes)), looks)


def enqueue_retries(ports: Ports, run: BatchRun, retries: Retries, found: Sequence[Snapshot], looks: int = 0) -> None:
    """Enqueue the next attempt of the units that failed.

    If the name of an attempt's task is taken, another call may have enqueued it, with other arguments. So this call
    looks again later, and retries the unit if that attempt has failed by then.
    """
    failed = [
        record.unit.next_attempt(retries) for one in found if (record := failure_to_retry(one, retries)) is not None
    ]
    if not failed:
        return
    numbers = sorted({unit.page for unit in failed})
    taken = ports.queue.create(tasks_of(failed, ports.store.read(*map(run.page_path, numbers)), retries))
    if again := [unit for unit in failed if unit.operation in taken]:
        look = _retrying(run, retries, 0, units=[unit.index for unit in again])
        enqueue_look(ports, run, looks, retries, *(unit.operation for unit in again), **look.payload)


def begin_chains(ports: Ports, run: BatchRun, chain: Retries, concurrency: int, indexes: Sequence[int] | None) -> None:
    """Enqueue the tasks that begin the chains of a retry: of the named units, or of all failed units.

    For all failed units this is one task, with the number of chains and the time of the call. So a repeat of the call
    under its key begins no other chains, even if it finds another number of failed units.
    """
    if indexes is not None:
        _create_chains(ports, run, machine.chains_of_named(chain, concurrency, indexes))
    elif failed := storage.count_units(ports, run, "failed"):
        [whole] = machine.chains_of_all(chain, run.incarnation, 1)
        chains = min(concurrency, failed)
        ports.queue.create([machine.retry_task(run, chain, chain=whole.to_record(), chains=chains)])


def run_chain(ports: Ports, run: BatchRun, chain: Retries, chains: int, looks: int) -> None:
    """Begin a chain of retries, or continue it; if `chains` is more than 1, divide it into that many and begin those.

    `looks` is the number of times that the chain has looked at its next unit.
    """
    if chains > 1:
        _create_chains(ports, run, machine.chains_of_all(chain, run.incarnation, chains))
    else:
        retry_next(ports, run, chain, looks)


def _create_chains(ports: Ports, run: BatchRun, chains: Sequence[Retries]) -> None:
    tasks = [machine.retry_task(run, one, at, chain=one.to_record()) for at, one in enumerate(chains)]
    for at in range(0, len(tasks), CORE_LIMITS.outbox_tasks_max):
        ports.queue.create(tasks[at : at + CORE_LIMITS.outbox_tasks_max])


def stored_retries(ports: Ports, run: BatchRun, retries: Retries) -> Retries:
    """Store the changed arguments of retries if they are large. Return the retries with their names.

    Raises `TooLarge`, `Unavailable`.
    """
    if not is_large(retries.payload):
        return retries
    outgoing = Outgoing()
    named = replace(retries, payload=outgoing.claimed_members(retries.payload, place_of_batch(run)), is_named=True)
    store_payloads(ports, outgoing)
    return named


def retry(ports: Ports, batch: str, request: RetryRequest, key: str = "") -> None:
    """Enqueue retries of units that failed; the same request under the same `key` enqueues nothing more.

    Raises `NothingToRun`, `BatchSealed`, `BadArgument` or `NotFound`.
    """
    run, header, now = storage.read_header_at(ports, batch)
    if header.settings.task is None:
        raise NothingToRun("The batch has no task: its units are completed from outside.")
    if header.state == "cancelled":
        raise BatchSealed("The batch was cancelled, so its units cannot be retried.")
    check_names(declared_parameters(), replace(header.settings.task, payload=request.payload), "payload")
    indexes = None if request.units is None else sorted(set(request.units))
    call = digest(key, indexes, request.payload) if key else ports.store.new_id()
    retries = stored_retries(ports, run, Retries(call, microseconds(now), request.payload))
    if header.settings.concurrency is not None:
        begin_chains(ports, run, retries, header.settings.concurrency, indexes)
    elif indexes is None:
        ports.queue.create([retry_all(run, retries, -1)])
    else:
        ports.queue.create(retry_named(run, retries, indexes))
