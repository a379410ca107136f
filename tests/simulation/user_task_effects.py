"""An effect of a user's task that takes place once for all of its deliveries: it enqueues another task.

A task of `signalbox.Function` runs in today's library. So do the calls that it makes here, in a world of two releases.
"""

from signalbox.core import idempotency_keys
from signalbox.core.calls import Call
from signalbox.core.effects import Effect
from signalbox.core.ports import Ports
from signalbox.tasks.requests.enqueues import EnqueueRequest
from signalbox.tasks.service import enqueues

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
