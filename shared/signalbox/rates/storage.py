"""Reads and writes of rates and their waits.

Waits are ordered by their records' create times, like those of semaphores (docs/protocols/semaphores.md, sem-13).
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import Writes
from signalbox.core.ports import REMOVE, SERVER_TIME, Change, Delete, Put, Query, Snapshot, Store
from signalbox.core.queue_order import read_in_order
from signalbox.core.records.queries import Condition, Order
from signalbox.core.times import microseconds
from signalbox.rates import machine
from signalbox.rates.limits import LIMITS
from signalbox.rates.machine import Admitted, Loaded
from signalbox.rates.model import Rate, RateWait, path_of, wait_path, waits_of
from signalbox.rates.problems import NoRate

SINCE = Order(("since",))


def rate_of(name: str, snapshot: Snapshot) -> Rate:
    """Return the rate of a record. Raises `NoRate`."""
    if snapshot.data is None:
        raise NoRate(f"Rate {name!r} does not exist. Create it with `PUT`, or check its name.", field="name")
    return Rate.from_record(snapshot.data)


def incarnation_of(snapshot: Snapshot) -> int:
    """Return the create time of a rate's record in microseconds, which distinguishes rates of the same name."""
    return 0 if snapshot.create_time is None else microseconds(snapshot.create_time)


def wait_of(snapshot: Snapshot) -> RateWait | None:
    """Return the wait of a record, or None if the record does not exist."""
    if snapshot.data is None:
        return None
    return RateWait.from_record(snapshot.id, snapshot.data, snapshot.create_time, snapshot.update_time)


def waits_query(name: str, limit: int) -> Query:
    """Return the query of the first waits. Only waits that have not been granted have the queried field."""
    return Query(waits_of(name), order_by=(SINCE,), limit=limit)


@dataclass(frozen=True, slots=True)
class AdmitReads:
    """The read plan of an admit run: the rate's record, and then, never before, the head of its queue."""

    name: str

    @property
    def path(self) -> str:
        """The path of the rate's record."""
        return path_of(self.name)

    def load(self, store: Store, attempt: int) -> tuple[Snapshot, Loaded]:  # noqa: ARG002  each attempt reads the same
        """Return the rate's snapshot and the loaded records."""
        [snapshot] = store.read(self.path)
        now, incarnation = snapshot.read_time, incarnation_of(snapshot)
        rate = None if snapshot.data is None else Rate.from_record(snapshot.data)
        if rate is not None and machine.is_asleep(rate, now):
            return snapshot, Loaded(self.name, rate, incarnation, now, asleep=True)
        count = LIMITS.rate_grants_page_max if rate is None else machine.page_size(rate, now)
        waits, more = _head(store, self.name, count)
        return snapshot, Loaded(self.name, rate, incarnation, now, waits, more)


def _head(store: Store, name: str, count: int) -> tuple[tuple[RateWait, ...], bool]:
    """Read the first waits by create time, and whether there are more behind them."""

    def read(limit: int) -> list[RateWait]:
        return [wait for snapshot in store.query(waits_query(name, limit)) if (wait := wait_of(snapshot))]

    head, more = read_in_order(read, count)
    return head[:count], more or len(head) > count


@dataclass(frozen=True, slots=True)
class WaitsOfBatch:
    """The read plan of a page of the waits of a batch run's units. Waits that have ended are not found."""

    name: str
    batch: str

    @property
    def path(self) -> str:
        """The path of the rate's record."""
        return path_of(self.name)

    def load(self, store: Store, attempt: int) -> tuple[Snapshot, ...]:  # noqa: ARG002  each attempt reads the same
        """Return the records of the waits."""
        of_batch = (Condition(("batch",), "==", self.batch),)
        return tuple(store.query(Query(waits_of(self.name), of_batch, limit=LIMITS.rate_grants_page_max)))


def put_wait(name: str, wait: RateWait, snapshot: Snapshot) -> Put:
    """Return the write that puts a new wait at the end of the queue. Its record must not exist."""
    return Put(wait_path(name, wait.id), {**wait.to_record(), "since": SERVER_TIME}, snapshot.guard)


def leave(name: str, wait: RateWait, now: Any) -> Change:
    """Return the write that takes a wait out of the queue and keeps its record, if unchanged, as a receipt."""
    assert wait.version is not None, "a wait that leaves was read"
    of_unit = {"batch": REMOVE} if wait.unit else {}
    fields = {"state": wait.state, "granted_at": wait.granted_at, "since": REMOVE, **of_unit}
    fields["expires_at"] = now + timedelta(seconds=CORE_LIMITS.receipt_seconds)
    return Change(wait_path(name, wait.id), {(field,): value for field, value in fields.items()}, wait.version)


def admit_writes(snapshot: Snapshot, loaded: Loaded, admitted: Admitted) -> Writes:
    """Return the writes of an admit run. A run that changes nothing has no writes."""
    grants = [leave(loaded.name, wait, loaded.now) for wait in admitted.granted]
    deletes = _deletes(loaded.name, admitted.stale)
    rate = admitted.rate
    own = [Put(snapshot.path, rate.to_record(), snapshot.guard)] if rate is not None and rate != loaded.rate else []
    return (*grants, *deletes, *own)


def _deletes(name: str, waits: Iterable[RateWait]) -> list[Delete]:
    return [Delete(wait_path(name, wait.id), wait.version) for wait in waits]
