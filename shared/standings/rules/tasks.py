"""The tasks of the queue `standings`: fold runs, walks, removals, recounts; and the tasks of thresholds."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from shared.core.rules.effects import Effect, name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import Unavailable
from shared.core.rules.times import microseconds, slot_end
from shared.standings.rules.declarations import Threshold
from shared.standings.rules.keys import StandingKey
from shared.standings.rules.standings import Standing

QUEUE = "standings"
FUNCTION = "standing_fold"


def fold_task(key: StandingKey, moment: datetime) -> Effect:
    """Return the fold run that sees what was committed at `moment`: one run for all of a slot."""
    ends_at = slot_end(moment, LIMITS.fold_slot_seconds)
    payload: Mapping[str, Any] = {"standing": key.text, "at": ends_at.isoformat()}
    due_at = ends_at + timedelta(seconds=LIMITS.fold_margin_seconds)
    return Effect(name_of(key.path, "fold", microseconds(ends_at)), QUEUE, FUNCTION, "fold", payload, not_before=due_at)


def check_due(now: datetime, not_before: datetime) -> None:
    """Raise `Unavailable` for a run that is early: what it is for may not have been committed yet."""
    if now < not_before:
        raise Unavailable("what this run is for may not have been committed yet")


def work_task(task: str, run: str, **work: Any) -> Effect:
    """Return one page of a walk, a removal or a recount; `run` and the work name it."""
    name = name_of("standings", task, run, *sorted(work.items()))
    return Effect(name, QUEUE, FUNCTION, task, {"run": run, **work})


def threshold_tasks(key: StandingKey, standing: Standing, reached: Iterable[Threshold], now: datetime) -> list[Effect]:
    """Return the tasks of the thresholds that a standing has reached: each is once in a standing's life."""
    shown = {"kind": key.kind, "id": key.id, **standing.to_json()}
    return [
        replace(
            each.call.effect(name_of(key.path, "threshold", each.name), now),
            payload={**each.call.payload, "standing": shown},
        )
        for each in reached
    ]
