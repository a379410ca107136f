"""The kit's own tasks on a batch: expand a page, check after the seal, retry what failed, complete a parent's unit."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from shared.batches.operations import walk
from shared.batches.operations.units import complete_unit, life_of, with_outcome
from shared.batches.rules import batches as rules
from shared.batches.rules import units
from shared.batches.rules.batches import Life, Unit
from shared.core.operations.ports import NotFound, Ports, Snapshot
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, BatchSealed, NothingToRun


def follow(ports: Ports, task: str, payload: Mapping[str, Any]) -> None:
    """Do one of the kit's tasks. Raises `Unavailable` when it should run again, and `BadBatch` when it never could."""
    life = _life(payload)
    try:
        match task, payload:
            case "expand", {"page": int(page)}:
                expand_page(ports, life, page)
            case "check", _:
                walk.check(ports, life)
            case "retry", {"call": str(call), "after": int(after)}:
                retry_page(ports, life, call, after)
            case "retry", {"units": [*indexes]}:
                retry_units(ports, life, [int(index) for index in indexes])
            case "child", {"unit": dict(parent)}:
                _complete_parent(ports, life, Unit.of(parent))
            case _:
                raise BadBatch("This is none of a batch's tasks.")
    except NotFound:
        ports.log.info("a task came after its batch was gone", batch=life.batch, task=task)


def _life(payload: Mapping[str, Any]) -> Life:
    match payload:
        case {"batch": str(batch), "incarnation": str(incarnation)}:
            return Life(batch, incarnation)
    raise BadBatch("This payload names no batch.")


def expand_page(ports: Ports, life: Life, number: int) -> None:
    """Hand over a task for each unit of a page. Names make repeating harmless; neighbours have different counters."""
    [page] = ports.store.read(life.page(number))
    if page.data is None or not page.data.get("task"):
        return
    size = page.data["size"]
    first = page.data["first"]
    every = [Unit(life.batch, life.incarnation, first + at, 0, number, at, size) for at in range(size)]
    ports.queue.create(_tasks(every, [page]))


def _tasks(every: Sequence[Unit], read: Sequence[Snapshot]) -> list[Effect]:
    """Make the units' tasks with the payloads of the pages that were read; units of other pages are left out."""
    payloads = {page.path: json.loads(page.data["units"]) for page in read if page.data is not None}
    calls = {page.path: Call.from_record(page.data["task"]) for page in read if page.data is not None}
    now = read[0].read_time
    known = [(unit, unit.life.page(unit.page)) for unit in every]
    return [unit.effect(calls[path], payloads[path][unit.offset], now) for unit, path in known if path in calls]


# --- retries ---


def retry(ports: Ports, batch: str, indexes: Sequence[int] | None) -> None:
    """Try again what failed, of these units or of all. Raises `NothingToRun`, `BatchSealed` or `NotFound`."""
    life = life_of(ports, batch)
    [read] = ports.store.read(life.header)
    header = rules.alive(read.data, life)
    if header is None or header.task is None:
        raise NothingToRun("The units of this batch are completed from outside.")
    if header.state == "cancelled":
        raise BatchSealed("A cancelled batch does no more work.")
    call = ports.store.new_id()
    if indexes is None:
        ports.queue.create([_retrying(life, call, -1)])
        return
    chunks = [indexes[at : at + LIMITS.units_listed_max] for at in range(0, len(indexes), LIMITS.units_listed_max)]
    ports.queue.create([life.ask("retry", call, at, units=list(chunk)) for at, chunk in enumerate(chunks)])


def _retrying(life: Life, call: str, after: int) -> Effect:
    return life.ask("retry", call, after, call=call, after=after)


def retry_page(ports: Ports, life: Life, call: str, after: int) -> None:
    """Try again the units that failed and come after an index, one page of them; the next page is handed on first."""
    found = with_outcome(ports, life, "failed", None if after < 0 else after)
    last = found[-1].data if found else None
    if last is not None and len(found) == LIMITS.units_listed_max:
        ports.queue.create([_retrying(life, call, last["index"])])
    _retry(ports, life, found)


def retry_units(ports: Ports, life: Life, indexes: Sequence[int]) -> None:
    """Try again those of some units that failed."""
    _retry(ports, life, ports.store.read(*map(life.unit, indexes)))


def _retry(ports: Ports, life: Life, found: Sequence[Snapshot]) -> None:
    """Hand over the next attempt of what failed; an attempt's name is taken once, however often it is asked for."""
    failed = [units.next_attempt(one.data) for one in found if one.data is not None and one.data["state"] == "failed"]
    if failed:
        numbers = sorted({unit.page for unit in failed})
        ports.queue.create(_tasks(failed, ports.store.read(*map(life.page, numbers))))


# --- sub-batches ---


def _complete_parent(ports: Ports, life: Life, unit: Unit) -> None:
    """Complete the unit whose work a batch was, whichever way the batch ended."""
    [read] = ports.store.read(life.header)
    header = rules.alive(read.data, life)
    if header is None or not header.ended:
        return
    complete_unit(ports, unit, units.of_child(life, header))
