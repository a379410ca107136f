"""The order in which calls of simulated objects took effect.

Calls are compared in lanes: those of one object; those on the result of one call; those that one object's calls sent to
another. In a lane, a call that began after another was committed takes effect after it. For a delayed call, its due
time counts as the time at which it began and was committed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from signalbox.objects.model import Kind
from tests.simulation.world import Violation
from tests.simulation.worlds.objects.callers import Act
from tests.simulation.worlds.objects.observed_objects import History
from tests.simulation.worlds.objects.remembering_class import FIRST_PASSED_ON, THEN_PASSED_ON


class Effect(NamedTuple):
    """An effect `label` on the object `key`; `landed`: its call, in the mailbox that it was posted to."""

    lane: tuple[str, str]
    key: str
    label: str
    began: datetime
    landed: datetime


def check_order(history: History, acts: Sequence[Act]) -> None:
    """Raise `Violation` if a call took effect before one that was committed when it began."""
    lanes: dict[tuple[str, str, str], list[Effect]] = defaultdict(list)
    for each in (effect for act in acts if not act.refused for effect in _effects(history, act)):
        lanes[*each.lane, each.key].append(each)
    for (*_, key), effects in lanes.items():
        places = {id_: place for place, id_ in enumerate(history.lives[key].all)}
        for first in effects:
            for second in effects:
                if first.landed < second.began and places[first.label] > places[second.label]:
                    raise Violation(f"{second.label} overtook {first.label} on {key}: {history.lives[key].lives}")


def check_sent_order(history: History, acts: Sequence[Act]) -> None:
    """Raise `Violation` if what one call sent to one object took effect in another order."""
    for act in acts:
        if act.method == "pass_on":
            sent = [act.id + FIRST_PASSED_ON, act.id + THEN_PASSED_ON]
            found = [each for each in history.lives[act.to].all if each in sent]
            if found == sent[::-1]:
                raise Violation(f"{found[0]} overtook {found[1]} on {act.to}")


def _effects(history: History, act: Act) -> Iterator[Effect]:
    landed = history.landed.get((act.key, act.record))
    if landed is None or act.began is None:
        return
    due = history.due.get((act.key, act.record), act.began)
    times = max(act.began, due), max(landed[0], due)
    if act.kind is Kind.CALL:
        yield from _found(history, ("direct", ""), act.key, act.id, times)
    if act.method == "pass_on":
        yield from _found(history, ("sent", act.key), act.to, act.id + FIRST_PASSED_ON, times)
    if act.kind is Kind.ON_RESULT:
        for key in list(history.lives):
            yield from _found(history, ("result", act.follows), key, act.id, times)


def _found(
    history: History, lane: tuple[str, str], key: str, label: str, times: tuple[datetime, datetime]
) -> Iterator[Effect]:
    if label in history.lives[key].all:
        yield Effect(lane, key, label, *times)
