"""Calls of tasks, as a user's function makes them."""

from dataclasses import dataclass, replace
from datetime import datetime

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.core.rules import calls
from shared.kit.idempotency import content_of, idempotency_key, is_repeated
from shared.tasks.operations import enqueues
from shared.tasks.rules.enqueues import EnqueueRequest


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Call(calls.Call):
    """A call of a task, for a wait or a batch, or to `enqueue`."""

    def enqueue(
        self,
        *,
        delay_seconds: float | None = None,
        at: datetime | None = None,
        id: str | None = None,  # noqa: A002  the word of the HTTP API
    ) -> str:
        """Run the task, now or later; return its operation, under which a failure would be kept.

        `id` makes a repeat recognisable for 32 days; in a task the kit derives one that a second delivery repeats.
        Raises `BadCall` for a call or a time that cannot be, `OtherBody` if the id was used for another call.
        """
        call = self if delay_seconds is None else replace(self, delay_seconds=delay_seconds).checked("call")
        request = EnqueueRequest(deployed(call, "call"), id or "", at)
        ports = runtime.ports()
        if id:
            return enqueues.by_id(ports, request)
        if name := idempotency_key("enqueue", content_of(call)):
            return enqueues.from_task(ports, request, name, is_repeated=is_repeated())
        return enqueues.anew(ports, request)
