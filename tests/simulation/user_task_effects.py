"""What a user's task does: an effect that takes place once for all of its deliveries, and any exception.

The effect enqueues another task.

A task of `signalbox.Function` runs in today's library. So do the calls that it makes here, in a world of two releases.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, NoReturn

from signalbox.core import idempotency_keys
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues
from tests.simulation.processes import EXITS
from tests.simulation.reached_counts import CODE_EXITS, REACHED

if TYPE_CHECKING:
    from tests.simulation.world import World

CHILD = "child"
"""The function, and the task, that effects enqueue."""


def take_effect(ports: Ports, what: str) -> None:
    """Enqueue the task of an effect. Called by the code of a task."""
    request = EnqueueRequest(Call(CHILD, CHILD, {"what": what}))
    name = idempotency_keys.idempotency_key("enqueue", idempotency_keys.content_of(request.call))
    assert name, "inside of a task every call has its key"
    enqueues.from_task(ports, request, name, is_repeated=idempotency_keys.is_repeated())


def effect_of(task: Effect) -> str:
    """Return the effect that a task was enqueued for."""
    return str(task.payload["what"])


EXITS_RATE = 0.25
"""Probability that code which raises, raises one of `EXITS`."""


def raise_any(world: World, broken: type[Exception], what: str) -> NoReturn:
    """Raise `broken`, or one of `EXITS`: the same for the same `what`, so that no seed changes.

    The last release let these end the process.
    """
    own = Random(what)
    if world.versions is None and own.random() < EXITS_RATE:
        REACHED[CODE_EXITS] += 1
        raise own.choice(EXITS)
    raise broken
