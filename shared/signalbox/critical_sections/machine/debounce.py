"""Calls under one key share the next run: its arguments, and the time of its start.

The run has the arguments of the last call and the items of all calls. A debounced call postpones it, at most until the
earliest of the latest times of all calls: `debounce_max_seconds` after the first call, for each call that has it, and
the time of the call itself for one without a debounce. So no call can break what another one was promised.
"""

from datetime import datetime, timedelta
from typing import Any

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.problems import TooLarge, Unavailable
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.model import NextRun
from signalbox.critical_sections.problems import OtherTask
from signalbox.critical_sections.requests import SectionRequest


def merge(next_: NextRun | None, request: SectionRequest, now: datetime) -> NextRun:
    """Merge a call into the next run: the run has the call's arguments, all calls' items, and the earliest latest time.

    A debounced call postpones the run, at most until its latest time; a call without a debounce never does.
    """
    call, first_at, due_at = request.continuation, now, now + timedelta(seconds=request.debounce_seconds)
    latest: list[datetime] = []
    if next_ is not None:
        _check_same_task(next_, request)
        first_at = next_.first_at
        latest += [] if next_.latest_at is None else [next_.latest_at]
        if request.collect:
            call = _concatenate(call, request.collect, next_.call.payload[request.collect])
    if not request.debounce_seconds:
        latest.append(now if next_ is None else min(now, next_.due_at))
    if request.debounce_max_seconds is not None:
        latest.append(first_at + timedelta(seconds=request.debounce_max_seconds))
    latest_at = min(latest, default=None)
    due_at = due_at if latest_at is None else min(due_at, latest_at)
    return NextRun(call, request.collect, request.lease_seconds, first_at, due_at, latest_at)


def _check_same_task(next_: NextRun, request: SectionRequest) -> None:
    call = request.continuation
    if (next_.call.function, next_.call.task, next_.collect) != (call.function, call.task, request.collect):
        due = f"{next_.call.function}/{next_.call.task}"
        detail = f"Calls under one key share a run, and a run of {due} is due. Call again once that run has started."
        raise OtherTask(detail, field="key")


def _concatenate(call: Call, argument: str, items: list[Any]) -> Call:
    """Return the call with `items` in front of the items of `argument`. Raises `Unavailable` if a limit is exceeded."""
    all_items = [*items, *call.payload[argument]]
    full = Unavailable("the next run has collected as many items as it can hold; it must start first")
    if len(all_items) > LIMITS.collected_items_max:
        raise full
    try:
        return replace(call, payload={**call.payload, argument: all_items}).checked("continuation")
    except TooLarge as error:
        raise full from error
