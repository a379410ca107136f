# Generated from client/aio/batches.py by `make docs`: change that one.
"""Batches, tasks and failures."""

import time
import uuid
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from signalbox.client.answer_types import BatchShown, FailureShown, UnitShown
from signalbox.client.blocking.lease_renewal import sleep
from signalbox.client.blocking.list_pages import pages
from signalbox.client.blocking.transport import Transport
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

    def populate(
        self, units: Iterable[Json], *, task: TaskCall | None = None, on_complete: TaskCall | None = None, **fields: Any
    ) -> BatchShown:
        """Create the batch with these units, in pages, and seal it. A repeat with the same arguments changes nothing.

        `task` runs once for each unit, whose fields are added to its payload; without a task, units are completed from
        outside. `on_complete` runs once, when all units have ended. `fields` are the other fields of ``POST batches``:
        failures_max, deadline_seconds, concurrency, semaphore, rate, weight, per_task, then, on_failure.

        A batch may end before all units are loaded: it is cancelled, or too many units fail. Then this is its status.
        """
        self.create(task=task, on_complete=on_complete, **fields)
        rest, page = iter(units), 0
        try:
            while held := list(islice(rest, UNITS_A_REQUEST)):
                page = self.add(held, page)
            return self.seal(page)
        except Conflict as refused:
            shown = self.show()
            if refused.slug == "batch-sealed" and shown["state"] in ENDED and shown["pages"] is None:
                return shown
            raise

    def create(self, *, task: TaskCall | None = None, on_complete: TaskCall | None = None, **fields: Any) -> BatchShown:
        """Create the batch, open for pages of units, or sealed with ``units=[…], sealed=True``."""
        body = {"id": self.id, **given(task=task, on_complete=on_complete, **fields)}
        found = self._transport.send("POST", "batches", body=body)
        return found.shaped(BatchShown)

    def add(self, units: list[Json], page: int = 0) -> int:
        """Add units to an open batch from a page's number on; pages have 100 units and are numbered from 0.

        Returns the number after the last page. Pass it to `add` for more units, or to `seal`.
        """
        found = self._transport.send(
            "POST",
            "batches",
            self.id,
            "units",
            body=lines(units),
            parameters={"page": page},
            media_type="application/x-ndjson",
        )
        return found.member("page", int)

    def seal(self, pages: int) -> BatchShown:
        """Close the batch at its number of pages."""
        found = self._transport.send("POST", "batches", self.id, "seal", body={"pages": pages})
        return found.shaped(BatchShown)

    def show(self) -> BatchShown:
        """Return the state and the counts. Raises `NotFound`."""
        found = self._transport.send("GET", "batches", self.id)
        return found.shaped(BatchShown)

    def cancel(self) -> BatchShown:
        """Cancel the batch and its sub-batches; units that have not started do not run."""
        found = self._transport.send("DELETE", "batches", self.id)
        return found.shaped(BatchShown)

    def units(self, state: str | None = None) -> Iterator[UnitShown]:
        """Iterate over the units with an outcome, or only the ``succeeded`` or ``failed`` ones."""
        parameters = {"state": state}
        return pages(self._transport, "units", "batches", self.id, "units", parameters=parameters)

    def results(self, state: str | None = None) -> Iterator[UnitShown]:
        """Iterate over all units with an outcome, downloaded as one stream, which is continued if it breaks.

        A large result is shown by its size and its hash (`payload`).
        """
        after: int | None = None
        path = "batches", self.id, "results"
        asked = self._transport.lines(lambda: request("GET", *path, parameters={"state": state, "after": after}))
        for found in asked:
            unit = found.shaped(UnitShown)
            after = unit["index"]
            yield unit

    def payload(self, index: int, sha256: str) -> Json:
        """Return the large result of a unit by its hash."""
        found = self._transport.send("GET", "batches", self.id, "units", str(index), "payloads", sha256)
        return found.part("value").content

    def watch(self) -> Iterator[Event]:
        """Iterate over the batch's events (``unit``, ``progress``, ``complete``) until it has ended.

        A stream that breaks is opened again where it ended.
        """
        for event in self._transport.events("batches", self.id, "events"):
            yield event

    def result(self, timeout_seconds: float) -> BatchShown:
        """Wait until the batch has ended, and return its counts. Raises `TimeoutError`."""
        patience = Patience(time.monotonic() + timeout_seconds)
        while (found := self.show())["state"] not in ENDED:
            sleep(patience.next_pause(time.monotonic(), f"the batch {self.id} has not ended"))
        return found

    def retry(self, units: list[int] | None = None, payload: dict[str, Json] | None = None) -> None:
        """Retry failed units: the named ones or all, with changed arguments if `payload` is given."""
        body, key = given(units=units, payload=payload), keyed(str(uuid.uuid4()))
        self._transport.json("POST", "batches", self.id, "retry", body=body, headers=key)

    def complete(self, index: int, *, result: Json = MISSING, error: str | None = None) -> None:
        """Complete a unit from outside, with its result or with an error; a repeat changes nothing."""
        body = {"result": result} if error is None else {"error": error}
        self._transport.json("POST", "batch-complete", self.id, index, body=body)


class Batches:
    """The batches of a deployment."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, state: str | None = None, *, prefix: str | None = None) -> Iterator[dict[str, Json]]:
        """Iterate over the batches by id: all, or those in `state`, or those whose ids begin with `prefix`."""
        return pages(self._transport, "batches", "batches", parameters={"state": state, "prefix": prefix})


class Tasks:
    """Tasks of functions."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def enqueue(
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
        found = self._transport.send("POST", "tasks", body=body)
        return found.member("operation", str)


class Failures:
    """The tasks that were given up."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, state: str | None = None) -> Iterator[FailureShown]:
        """Iterate over the failures, newest first; with ``state="retrying"`` over tasks that are being retried."""
        return pages(self._transport, "failures", "failures", parameters={"state": state})

    def count(self, state: str | None = None) -> int:
        """Return the number of the failures, or with ``state="retrying"`` of the tasks that are being retried."""
        found = self._transport.send("GET", "failures", parameters={"state": state, "count": "true"})
        return found.member("count", int)

    def get(self, id: str) -> FailureShown:
        """Return a failure. Raises `NotFound`."""
        found = self._transport.send("GET", "failures", id)
        return found.shaped(FailureShown)

    def retry(self, id: str) -> None:
        """Run the task again, once. Raises `Conflict` if it is still being retried."""
        self._transport.json("POST", "failures", id, "retry", headers=keyed(str(uuid.uuid4())))

    def delete(self, id: str) -> None:
        """Delete the content of the failure."""
        self._transport.json("DELETE", "failures", id)
