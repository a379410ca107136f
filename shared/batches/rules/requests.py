"""What callers send: batches, pages, seals, retries; checked, and units cut into pages."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shared.batches.rules import batches
from shared.core.rules.calls import Call
from shared.core.rules.keys import valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadBatch, BadKey, NotFound, TooLarge


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a batch is to be. `units` are payloads; without `task` they are completed from outside."""

    units: Sequence[Any] = ()
    task: Call | None = None
    on_complete: Call | None = None
    sealed: bool = False
    failures_max: int | None = None
    deadline_seconds: int = LIMITS.batch_deadline_seconds

    def digest(self) -> str:
        """Hash all of it: the same order under the same id is a repeat."""
        calls = [None if call is None else asdict(call) for call in (self.task, self.on_complete)]
        return batches.digest(list(self.units), *calls, self.sealed, self.failures_max, self.deadline_seconds)


def check_id(batch: str) -> str:
    """Give the id back, or raise `BadKey`."""
    if not valid_key(batch):
        raise BadKey("No batch can have this id.", field="id")
    return batch


def parse_order(body: Mapping[str, Any]) -> Order:
    """Read the body of a call that creates a batch, without its id. Raises `BadBatch`, `BadCall` or `TooLarge`."""
    known = {"id", "units", "task", "on_complete", "sealed", "failures_max", "deadline_seconds"}
    if unknown := sorted(body.keys() - known):
        raise BadBatch(f"Unknown: {', '.join(unknown)}. Known: {', '.join(sorted(known))}.", field=unknown[0])
    deadline_seconds = _whole(body, "deadline_seconds", 1, LIMITS.batch_deadline_seconds_max)
    order = Order(
        units=_list(body.get("units", []), "units"),
        task=_call(body, "task"),
        on_complete=_call(body, "on_complete"),
        sealed=_flag(body, "sealed"),
        failures_max=_whole(body, "failures_max", 0, 10**9),
        deadline_seconds=LIMITS.batch_deadline_seconds if deadline_seconds is None else deadline_seconds,
    )
    check_units(order.units, order.task)
    return order


def check_units(units: Sequence[Any], task: Call | None, units_max: int = LIMITS.call_units_max) -> None:
    """Refuse units that cannot be held or run: raises `BadBatch` or `TooLarge`, naming the unit."""
    if len(units) > units_max:
        raise TooLarge(f"Send at most {units_max:,} units; these are {len(units):,}.", field="units")
    task_bytes = 0 if task is None else len(_text(task.payload))
    for index, unit in enumerate(units):
        if task is not None and not isinstance(unit, dict):
            raise BadBatch("A unit that a task does is an object: its arguments.", field=f"units[{index}]")
        if task_bytes + len(_text(unit)) > LIMITS.task_bytes_max:
            raise TooLarge(f"A unit has at most {LIMITS.task_bytes_max:,} bytes.", field=f"units[{index}]")


def parse_page(body: Mapping[str, Any]) -> tuple[int, Sequence[Any]]:
    """Read ``{"page": n, "units": [1…100]}``."""
    _only(body, "page", "units")
    number = _needed(body, "page")
    units = _list(body.get("units"), "units")
    if not units:
        raise BadBatch("A page has at least one unit.", field="units")
    return number, units


def check_page(units: Sequence[Any], task: Call | None) -> None:
    """Refuse units that are no page. Raises `BadBatch` or `TooLarge`."""
    check_units(units, task, LIMITS.page_units_max)
    if len(cut(units)) > 1:
        raise TooLarge(f"A page has at most {LIMITS.page_bytes_max:,} bytes; send these units as two.", field="units")


def parse_seal(body: Mapping[str, Any]) -> int:
    """Read ``{"pages": n}``."""
    _only(body, "pages")
    return _needed(body, "pages")


def parse_retry(body: Mapping[str, Any]) -> list[int] | None:
    """Read ``{"units"?: [index…]}``; None means all that failed."""
    _only(body, "units")
    if "units" not in body:
        return None
    indexes = _list(body["units"], "units")
    if len(indexes) > LIMITS.retry_units_max:
        raise TooLarge(f"Name at most {LIMITS.retry_units_max:,} units, or none for all that failed.", field="units")
    return sorted({_needed({"units": index}, "units") for index in indexes})


def cut(units: Sequence[Any]) -> list[Sequence[Any]]:
    """Cut units into pages of at most 100 units and 900,000 bytes; the same units give the same pages."""
    pages: list[list[Any]] = []
    page_bytes = 0
    for unit in units:
        unit_bytes = len(_text(unit)) + 1
        if not pages or len(pages[-1]) == LIMITS.page_units_max or page_bytes + unit_bytes > LIMITS.page_bytes_max:
            pages.append([])
            page_bytes = 0
        pages[-1].append(unit)
        page_bytes += unit_bytes
    return list(pages)


def _text(value: Any) -> str:
    """Write a value as a page's record holds it: in ASCII, so that letters are bytes."""
    return json.dumps(value, separators=(",", ":"))


def _only(body: Mapping[str, Any], *names: str) -> None:
    if unknown := sorted(body.keys() - set(names)):
        raise BadBatch(f"Unknown: {', '.join(unknown)}. Known: {', '.join(names)}.", field=unknown[0])


def _call(body: Mapping[str, Any], field: str) -> Call | None:
    return None if body.get(field) is None else Call.from_request(body[field], field)


def _flag(body: Mapping[str, Any], field: str) -> bool:
    value = body.get(field, False)
    if not isinstance(value, bool):
        raise BadBatch("Say true or false.", field=field)
    return value


def _list(value: Any, field: str) -> Sequence[Any]:
    if not isinstance(value, list):
        raise BadBatch("Send a list.", field=field)
    return value


def _whole(body: Mapping[str, Any], field: str, least: int, most: int) -> int | None:
    if body.get(field) is None:
        return None
    value = body[field]
    if type(value) is not int or not least <= value <= most:
        raise BadBatch(f"Give a whole number from {least:,} to {most:,}.", field=field)
    return int(value)


def _needed(body: Mapping[str, Any], field: str) -> int:
    value = _whole(body, field, 0, 10**9)
    if value is None:
        raise BadBatch("Give a whole number from 0.", field=field)
    return value


def id_of(body: Mapping[str, Any], idempotency_key: str | None) -> str | None:
    """Give the id a caller wishes for a new batch: the body's, else the ``Idempotency-Key``. Raises `BadKey`."""
    if "id" not in body:
        return idempotency_key or None
    if not isinstance(body["id"], str):
        raise BadKey("A batch's id is a text.", field="id")
    return check_id(body["id"])


def parse_index(text: str) -> int:
    """Read a unit's name. Raises the problem `NotFound` for what can be none."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise NotFound("A unit's name is its index.", field="index")
    return int(text)
