"""`batch`, `sub_batch` and `SubBatch`, as users import them from `signalbox`; and whether a unit should still run.

Every function with tasks keeps a cache, for a few seconds in each process, of whether a batch's units should still run.
With it a unit costs no read. Units of a cancelled batch may start until their entry expires, which is harmless: an
ended batch ignores their outcomes.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from threading import Lock
from typing import Any, TypedDict, Unpack

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import deployed
from signalbox.adapters.http.json_bodies import json_of, shown_members
from signalbox.batches.model.headers import BatchStatus
from signalbox.batches.model.large_values import stored_result
from signalbox.batches.model.units import PlacedUnit, UnitRecord
from signalbox.batches.problems import BadBatch
from signalbox.batches.requests import BatchSpec, UnitsQuery, check_chosen_id
from signalbox.batches.service import lifecycle, lists, population, units
from signalbox.batches.shown import BatchShown, unit_shown
from signalbox.batches.storage import last_error_of_batch
from signalbox.core.calls import Call, check_arguments, declared_parameters
from signalbox.core.dropped_calls import warn_if_dropped
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.surface.shown import RetriedTaskShown
from signalbox.payloads.model import opened
from signalbox.payloads.service import opening_those_of

Status = Mapping[str, Any]
"""``{"id", "state", "size", "succeeded", "failed", "remaining"}``; `state` is open, sealed, completed or cancelled."""


SubBatch = BatchSpec
"""A batch that a unit's task returns. The unit is completed when that batch ends."""


class BatchOptions(TypedDict, total=False):
    """The options of a batch, as `populate` explains them: the settings of `BatchSpec` except `task`."""

    on_complete: Call | None
    failures_max: int | None
    concurrency: int | None
    on_failure: Call | None
    semaphore: str
    per_task: int | None
    rate: str
    weight: int | str
    deadline_seconds: int
    then: SubBatch | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Units of work under one id, and one completion task when all of them have an outcome."""

    id: str

    def populate(self, calls: Iterable[Call], **options: Unpack[BatchOptions]) -> Status:
        """Create the batch, sealed, with a unit for each call; all must be calls of one task. Return its status.

        - `on_complete`: called after every end of the batch.
        - `failures_max`: the batch ends early if more units than this have failed (None: no limit).
        - `deadline_seconds`: the batch ends early after this time.
        - `concurrency`: the number of units that run at once (None: no limit). The others wait, at no cost.
        - `then`: a batch that `sub_batch` returned. It follows if this one completes with no failed unit, or with at
          most `failures_max`.
        - `on_failure`: called otherwise, and if a batch that follows fails.
        - `semaphore`: each unit runs under a permit of the semaphore of this name, which must exist, and releases it
          when its task has returned or has failed.
        - `rate`: each unit takes `weight` permits of the rate of this name, which must exist, when it starts.
        - `weight`: a number, or the name of the argument that has it.
        - `per_task`, 2 to 100: one task runs that many units one after another and records their outcomes together,
          which is faster and cheaper if units are short. `concurrency` then limits these tasks, and with a `rate`, a
          task takes the permits of all its units, at most the burst.

        A repeat with the same calls changes nothing. Raises `OtherBody` if the id is used with other calls, and
        `BadBatch` or `TooLarge` if no batch can have the calls. At most 10,000 calls of an iterator are in memory. If a
        call after those is refused, the batch stays open until a repeat loads the rest.
        """
        id_, units = check_chosen_id(self.id), _Units(calls)
        spec = _spec(units.task, options)
        return _shown(population.populate_whole(runtime.ports(), id_, spec, units))

    def status(self) -> Status:
        """Return state and counts, and `last_error` while a unit that raised is being retried. Raises `NotFound`."""
        status = lifecycle.get(runtime.ports(), self.id)
        return _shown(status, last_error_of_batch(runtime.ports(), self.id) if status.runs else None)

    def results(self, state: str = "") -> Iterator[Mapping[str, Any]]:
        """Iterate over the units with an outcome, or only those in `state`, not in the order of indexes.

        `state` is ``succeeded`` or ``failed``. Each unit is ``{"index", "attempt", "state", "result" or "error"}``.
        Raises `NotFound` or `BadQuery`.
        """
        query = UnitsQuery.of_results({"state": state})
        return map(_with_result, lists.outcomes_of(runtime.ports(), self.id, query))

    def cancel(self) -> Status:
        """End the batch and return its status. Units that have not started do not run. Raises `NotFound`."""
        return _shown(lifecycle.cancel(runtime.ports(), self.id))


def _with_result(record: UnitRecord) -> Mapping[str, Any]:
    """Return a unit with an outcome as its JSON, also with a large result."""
    members: dict[str, Any] = shown_members(unit_shown(record))
    if record.outcome.state == "succeeded":
        with opening_those_of(runtime.ports()):
            members["result"] = opened(stored_result(record.outcome))
    return members


def batch(id: str) -> Batch:
    """Return the batch with this id, which need not exist yet."""
    return Batch(id)


def sub_batch(calls: Iterable[Call], **options: Unpack[BatchOptions]) -> SubBatch:
    """Return a batch for a unit's task to return: the unit is completed when this batch and those that follow it end.

    The unit's result is the status of that batch. The options are those of `populate`. Raises `BadBatch` or `TooLarge`
    if no batch can have the calls.
    """
    checked = _Units(calls)
    units = list(checked)
    warn_if_dropped("sub_batch", "return it from the code of a unit")
    return replace(_spec(checked.task, options), units=units, sealed=True)


OF_UNITS = ("concurrency", "semaphore", "per_task", "rate", "weight")
"""The options that need a unit: a batch without calls has no task."""


def _spec(task: Call | None, options: BatchOptions) -> BatchSpec:
    """Return a batch of the task with these options, without its units."""
    given: dict[str, Any] = {name: value for name, value in options.items() if task or name not in OF_UNITS}
    for name in ("on_complete", "on_failure"):
        if given.get(name) is not None:
            given[name] = deployed(given[name], name)
    return BatchSpec(task=task, **given)


def _shown(status: BatchStatus, last_error: RetriedTaskShown | None = None) -> Status:
    """Return a status as its JSON, with the times of the error as `datetime`."""
    shown: dict[str, Any] = json_of(BatchShown.of(status))
    return shown if last_error is None else {**shown, "last_error": shown_members(last_error)}


class _Units:
    """The payloads of calls, which must all be of one task. Of an iterator, only the first call is kept in memory."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._calls = iter(calls)
        self.first = list(islice(self._calls, 1))
        self.task = replace(deployed(self.first[0], "task", may_be_large=True), payload={}) if self.first else None
        for call in self.first:
            self._check(call)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for call in chain(self.first, self._calls):
            self._check(call)
            yield dict(call.payload)

    def _check(self, call: Call) -> None:
        if self.task != replace(call, payload={}):
            raise BadBatch("All units of a batch must be calls of one task, through one queue.", field="units")
        check_arguments(declared_parameters(), call, "units")


FRESH_SECONDS = 5.0

BATCHES_MAX = 1_000
"""Entries in the cache of a process. The cache is cleared when it has more."""

_Key = tuple[str, str, bool]
_live: dict[_Key, tuple[bool, float]] = {}
_lock = Lock()


def is_live(unit: PlacedUnit) -> bool:
    """Return whether a unit should run, as known at most `FRESH_SECONDS` ago. Raises `Unavailable`."""
    key = (unit.batch, unit.incarnation, unit.attempt > 0)
    with _lock:
        live, fresh_until = _live.get(key, (False, 0.0))
    return live if time.monotonic() < fresh_until else _read_live(unit, key)


def forget_liveness() -> None:
    """Clear the cache of `is_live`. For tests whose clock differs from this machine's."""
    with _lock:
        _live.clear()


def _read_live(unit: PlacedUnit, key: _Key) -> bool:
    live = units.unit_is_live(runtime.ports(), unit)
    with _lock:
        if len(_live) >= BATCHES_MAX:
            _live.clear()
        _live[key] = (live, time.monotonic() + FRESH_SECONDS)
    return live
