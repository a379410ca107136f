"""The batch functions on the harness's platform, with units whose outcomes a test chooses."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from signalbox.adapters.cost_meter import metered
from signalbox.batches.model.units import PlacedUnit, Unit, UnitOutcome, failed, succeeded
from signalbox.batches.service.units import complete_unit, need_not_run
from signalbox.batches.tasks import run_batch_task
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect
from signalbox.core.ports import Budget, Data, OutOfTime, Ports, Query, Store, unlimited
from signalbox.core.problems import Problem
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import Start
from signalbox.tasks.model.contexts import OfUnit, TaskSubject, parsed
from signalbox.tasks.service.group_runs import GroupTime, run_group
from signalbox.tasks.service.unit_runs import IsLive
from signalbox.testing.simulated_cloud import Platform

TASK = {"function": "painter", "task": "paint", "payload": {"color": "red"}}
NAMED = {"function": "painter", "task": "paint"}
ANNOUNCE = {"function": "painter", "task": "announce", "payload": {}}
ALARM = {"function": "painter", "task": "alarm", "payload": {}}

Work = Callable[[Effect], UnitOutcome]
"""The outcome of a unit, from its task."""


class BatchHarness(Platform):
    """A platform whose `painter` is the test: it records the units that `ran`, `completions` and `alarms`."""

    def __init__(self, store: Store | None = None) -> None:
        super().__init__()
        if store is not None:
            self.ports = metered(Ports(store, self.queue, self.clock, self.log))
        self.completions: list[dict[str, Any]] = []
        self.alarms: list[dict[str, Any]] = []
        self.ran: list[Effect] = []

    def request(
        self, method: str, path: str, body: Any = None, function: str = "batches", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Call a function over HTTP; return the status and the body."""
        response = self.call(function, path, method=method, json=body, headers=headers)
        return response.status_code, response.get_json(force=True)

    def run_tasks(self, do: Work = lambda _: succeeded("painted")) -> None:
        """Run all tasks of the queue; `do` returns a unit's outcome."""
        while self.tasks:
            effect = self.tasks.pop(0)
            if effect.function == "batch_expand":
                run_batch_task(self.ports, effect.task, effect.payload)
            elif effect.task == "announce":
                self.completions.append(dict(effect.context["batch"]))
            elif effect.task == ALARM["task"]:
                self.alarms.append(dict(effect.context["batch"]))
            elif "group" in effect.context:
                self.run_group(effect, do)
            else:
                unit = PlacedUnit.from_record(effect.context["unit"])
                if not need_not_run(self.ports, unit, is_repeated=False):
                    self.ran.append(effect)
                    complete_unit(self.ports, unit, do(effect))

    def run_group(
        self,
        effect: Effect,
        do: Work,
        executions: int = 0,
        is_over: OutOfTime = lambda: False,
        hold: Budget = unlimited,
        is_live: IsLive = lambda _: True,
    ) -> None:
        """Deliver a group's task after so many earlier deliveries; `is_over` says when its time is."""

        def code(own: Delivered[OfUnit], _: TaskSubject | list[Unit] | None, __: Start) -> Any:
            self.ran.append(replace(effect, payload=own.payload, context=own.context.members))
            outcome = do(self.ran[-1])
            if outcome.state == "failed":
                raise Problem(outcome.text)
            return json.loads(outcome.text)

        what = effect.function, effect.task, effect.payload
        delivered: Any = parsed(Delivered(effect.name, effect.context, executions, 0, *what))
        run_group(self.ports, delivered, RetryLimits(3), is_live, code, GroupTime(is_over, hold))

    def records(self) -> dict[str, Data | None]:
        """Return all records of the batch `b`, by path."""
        collections = ("batches", *(f"batches/b/{part}" for part in ("pages", "counters", "units")))
        found = [self.ports.store.query(Query(each, limit=1_000)) for each in collections]
        return {one.path: one.data for some in found for one in some}


def squares(count: int) -> list[dict[str, int]]:
    """Return the payloads of `count` units."""
    return [{"square": number} for number in range(count)]


def batch(count: int, **more: Any) -> dict[str, Any]:
    """Return the body that creates the batch `b` of `count` units."""
    return {"id": "b", "units": squares(count), "task": TASK, "on_complete": ANNOUNCE, "sealed": True} | more


def status(state: str, size: int, succeeded: int, failed: int, pages: int, **more: Any) -> dict[str, Any]:
    """Return the status of the batch `b` as an answer shows it."""
    counts = {"size": size, "succeeded": succeeded, "failed": failed, "remaining": size - succeeded - failed}
    return {"id": "b", "state": state, **counts, "pages": pages} | more


def broken_at(*squares_: int) -> Work:
    """Return the outcomes of units of which these fail."""
    return lambda effect: failed("dry brush") if effect.payload["square"] in squares_ else succeeded(None)
