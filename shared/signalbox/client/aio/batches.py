"""Batches, tasks and failures."""

import time
import uuid
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from typing import Any

from signalbox.client.aio.lease_renewal import sleep
from signalbox.client.aio.list_pages import pages
from signalbox.client.aio.transport import Transport
from signalbox.client.answer_types import BatchShown, FailureShown, UnitShown
from signalbox.client.model import Event, Json, TaskCall
from signalbox.client.problems import Conflict
from signalbox.client.requests import MISSING, keyed, lines, request
from signalbox.client.retries import Patience
from signalbox.core.given import given

UNITS_A_REQUEST = 2_000
"""Units that `populate` holds in memory and sends at once."""

ENDED = ("completed", "cancelled")


class Batch:
    """A batch of a deployment, by its id."""

    def __init__(self, transport: Transport, id: str) -> None:
        self._transport = transport
        self.id = id

    async def populate(
        self, units: Iterable[Json], *, task: TaskCall | None = None, on_complete: TaskCall | None = None, **fields: Any
    ) -> BatchShown:
        """Create the batch with these units, in pages, and seal it. A repeat with the same arguments changes nothing.

        `task` runs once for each unit, whose fields are added to its payload; without a task, units are completed from
        outside. `on_complete` runs once, when all units have ended. `fields` are the other fields of ``POST batches``:
        failures_max, deadline_seconds, concurrency, semaphore, rate, weight, per_task, then, on_failure.

        A batch may end before all units are loaded: it is cancelled, or too many units fail. Then this is its status.
        """
        await self.create(task=task, on_complete=on_complete, **fields)
        rest, page = iter(units), 0
        try:
            while held := list(islice(rest, UNITS_A_REQUEST)):
                page = await self.add(held, page)
            return await self.seal(page)
        except Conflict as refused:
            shown = await self.show()
            if refused.slug == "batch-sealed" and shown["state"] in ENDED and shown["pages"] is None:
                return shown
            raise

    async def create(
        self, *, task: TaskCall | None = None, on_complete: TaskCall | None = None, **fields: Any
    ) -> BatchShown:
        """Create the batch, open for pages of units, or sealed with ``units=[…], sealed=True``."""
        body = {"id": self.id, **given(task=task, on_complete=on_complete, **fields)}
        found = await self._transport.send("POST", "batches", body=body)
        return found.shaped(BatchShown)

    async def add(self, units: list[Json], page: int = 0) -> int:
        """Add units to an open batch from a page's number on; pages have 100 units and are numbered from 0.

        Returns the number after the last page. Pass it to `add` for more units, or to `seal`.
        """
        found = await self._transport.send(
            "POST",
            "batches",
            self.id,
            "units",
            body=lines(units),
            parameters={"page": page},
            media_type="application/x-ndjson",
        )
        return found.member("page", int)

    async def seal(self, pages: int) -> BatchShown:
        """Close the batch at its number of pages."""
        found = await self._transport.send("POST", "batches", self.id, "seal", body={"pages": pages})
        return found.shaped(BatchShown)

    async def show(self) -> BatchShown:
        """Return the state and the counts. Raises `NotFound`."""
        found = await self._transport.send("GET", "batches", self.id)
        return found.shaped(BatchShown)

    async def cancel(self) -> BatchShown:
        """Cancel the batch and its sub-batches; units that have not started do not run."""
        found = await self._transport.send("DELETE", "batches", self.id)
        return found.shaped(BatchShown)

    def units(self, state: str | None = None) -> AsyncIterator[UnitShown]:
        """Iterate over the units with an outcome, or only the ``succeeded`` or ``failed`` ones."""
        parameters = {"state": state}
        return pages(self._transport, "units", "batches", self.id, "units", parameters=parameters)

    async def results(self, state: str | None = None) -> AsyncIterator[UnitShown]:
        """Iterate over all units with an outcome, downloaded as one stream, which is continued if it breaks.

        A large result is shown by its size and its hash (`payload`).
        """
        after: int | None = None
        path = "batches", self.id, "results"
        asked = self._transport.lines(lambda: request("GET", *path, parameters={"state": state, "after": after}))
        async for found in asked:
            unit = found.shaped(UnitShown)
            after = unit["index"]
            yield unit

    async def payload(self, index: int, sha256: str) -> Json:
        """Return the large result of a unit by its hash."""
        found = await self._transport.send("GET", "batches", self.id, "units", str(index), "payloads", sha256)
        return found.part("value").content

    async def watch(self) -> AsyncIterator[Event]:
        """Iterate over the batch's events (``unit``, ``progress``, ``complete``) until it has ended.

        A stream that breaks is opened again where it ended.
        """
        async for event in self._transport.events("batches", self.id, "events"):
            yield event

    async def result(self, timeout_seconds: float) -> BatchShown:
        """Wait until the batch has ended, and return its counts. Raises `TimeoutError`."""
        patience = Patience(time.monotonic() + timeout_seconds)
        while (found := await self.show())["state"] not in ENDED:
            await sleep(patience.next_pause(time.monotonic(), f"the batch {self.id} has not ended"))
        return found

    async def retry(self, units: list[int] | None = None, payload: dict[str, Json] | None = None) -> None:
        """Retry failed units: the named ones or all, with changed arguments if `payload` is given."""
        body, key = given(units=units, payload=payload), keyed(str(uuid.uuid4()))
        await self._transport.json("POST", "batches", self.id, "retry", body=body, headers=key)

    async def complete(self, index: int, *, result: Json = MISSING, error: str | None = None) -> None:
        """Complete a unit from outside, with its result or with an error; a repeat changes nothing."""
        body = {"result": result} if error is None else {"error": error}
        await self._transport.json("POST", "batch-complete", self.id, index, body=body)


class Batches:
    """The batches of a deployment."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, state: str | None = None, *, prefix: str | None = None) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the batches by id: all, or those in `state`, or those whose ids begin with `prefix`."""
        return pages(self._transport, "batches", "batches", parameters={"state": state, "prefix": prefix})


class Tasks:
    """Tasks of functions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def enqueue(
        self,
        call: TaskCall,
        *,
        id: str | None = None,
        at: str | None = None,
        schedule: str | None = None,
        scheduled_at: str | None = None,
    ) -> str:
        """Run a task now, after its ``delay_seconds``, or `at` a time (RFC 3339).

        With an `id`, a repeat does not run it again. Returns the operation, under which a failure of the task would be
        kept.

        The task reads `scheduled_at` (RFC 3339) as its planned time. With a `schedule`, it is enqueued once for this
        time, and not at all if the schedule has done so.
        """
        chosen = {"schedule": schedule} if schedule else {"id": id or str(uuid.uuid4())}
        body = {**call, **chosen, **given(at=at, scheduled_at=scheduled_at)}
        found = await self._transport.send("POST", "tasks", body=body)
        return found.member("operation", str)


class Failures:
    """The tasks that were given up."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, state: str | None = None) -> AsyncIterator[FailureShown]:
        """Iterate over the failures, newest first; with ``state="retrying"`` over tasks that are being retried."""
        return pages(self._transport, "failures", "failures", parameters={"state": state})

    async def count(self, state: str | None = None) -> int:
        """Return the number of the failures, or with ``state="retrying"`` of the tasks that are being retried."""
        found = await self._transport.send("GET", "failures", parameters={"state": state, "count": "true"})
        return found.member("count", int)

    async def get(self, id: str) -> FailureShown:
        """Return a failure. Raises `NotFound`."""
        found = await self._transport.send("GET", "failures", id)
        return found.shaped(FailureShown)

    async def retry(self, id: str) -> None:
        """Run the task again, once. Raises `Conflict` if it is still being retried."""
        await self._transport.json("POST", "failures", id, "retry", headers=keyed(str(uuid.uuid4())))

    async def delete(self, id: str) -> None:
        """Delete the content of the failure."""
        await self._transport.json("DELETE", "failures", id)
