"""Objects and flows."""

import json
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from signalbox.client.aio.batches import Batch
from signalbox.client.aio.lease_renewal import sleep
from signalbox.client.aio.list_pages import pages
from signalbox.client.aio.transport import Transport
from signalbox.client.answer_types import RunShown
from signalbox.client.answers import Answer
from signalbox.client.model import Event, Json, TaskCall
from signalbox.client.problems import ApiError, CallFailed, Unavailable
from signalbox.client.requests import keyed
from signalbox.client.retries import Patience
from signalbox.core.given import given

WAIT_SECONDS_MAX = 30.0
"""How long a request waits at the function."""

TIMES = ("started_after", "started_before")
"""The query parameters of the times of starts."""

ENDED = ("completed", "failed", "cancelled")


class ObjectCall:
    """A call of an object's method that was accepted; its outcome is kept for 32 days."""

    def __init__(self, transport: Transport, address: tuple[str, ...], id: str) -> None:
        self._transport = transport
        self._address = address
        self.id = id

    async def result(self, timeout_seconds: float = WAIT_SECONDS_MAX) -> Json:
        """Wait for the method's result and return it, also a large one.

        Raises `CallFailed` with the method's problem, and `TimeoutError`.
        """
        patience = Patience(time.monotonic() + timeout_seconds)
        while True:
            wait = min(WAIT_SECONDS_MAX, max(0.0, patience.ends_at - time.monotonic()))
            parameters = {"wait_seconds": wait}
            answer = await self._transport.send("GET", *self._address, "calls", self.id, parameters=parameters)
            if answer.member("ready", bool):
                return await self.opened(answer)
            await sleep(patience.next_pause(time.monotonic(), f"the call {self.id} has no result"))

    async def opened(self, answer: Answer) -> Json:
        """Return the result in an answer, also a large one. Raises `CallFailed`."""
        return await opened(outcome(answer), self.payload)

    async def payload(self, sha256: str) -> Json:
        """Return the large result of this call by its hash."""
        found = await self._transport.send("GET", *self._address, "calls", self.id, "payloads", sha256)
        return found.part("value").content

    async def raise_outcome(self, error: ApiError) -> None:
        """Raise `CallFailed` if `error` is the problem of the method and not a refusal of the call."""
        if isinstance(error, Unavailable):
            return
        try:
            answer = await self._transport.send("GET", *self._address, "calls", self.id)
            failed = failure(answer)
        except ApiError:
            return
        if failed is not None:
            raise failed from error

    async def then(self, continuation: TaskCall) -> None:
        """Run a task with the outcome, as soon as there is one."""
        body = {"continuation": continuation}
        key = keyed(str(uuid.uuid4()))
        await self._transport.json("POST", *self._address, "calls", self.id, "then", body=body, headers=key)

    async def call(self, method: str, **arguments: Json) -> "ObjectCall":
        """Call a method of the object that this call results in, once the call has ended."""
        found = await self._transport.send(
            "POST",
            *self._address,
            "calls",
            self.id,
            "object",
            method,
            body=arguments,
            headers=keyed(str(uuid.uuid4())),
        )
        return ObjectCall(self._transport, self._address, found.member("call", str))


class Object:
    """An object of a deployment, by its function, class and key."""

    def __init__(self, transport: Transport, function: str, class_name: str, key: str) -> None:
        self._transport = transport
        self._address = (function, "objects", class_name, key)

    async def call(self, method: str, *, timeout_seconds: float = WAIT_SECONDS_MAX, **arguments: Json) -> Json:
        """Call a method and wait for its result.

        Raises `CallFailed` with the problem that the method raised, `ApiError` if the call was refused or the method is
        read-only, and `TimeoutError`.
        """
        began, call = time.monotonic(), ObjectCall(self._transport, self._address, str(uuid.uuid4()))
        try:
            answer = await self._post(call.id, method, arguments, min(WAIT_SECONDS_MAX, timeout_seconds))
        except ApiError as error:
            await call.raise_outcome(error)
            raise
        if answer.member("ready", bool):
            return await call.opened(answer)
        return await call.result(timeout_seconds - (time.monotonic() - began))

    async def post(self, method: str, **arguments: Json) -> ObjectCall:
        """Call a method without waiting for it."""
        call = ObjectCall(self._transport, self._address, str(uuid.uuid4()))
        await self._post(call.id, method, arguments, 0)
        return call

    async def _post(self, id: str, method: str, arguments: Mapping[str, Json], wait_seconds: float) -> Answer:
        options = {"parameters": {"wait_seconds": wait_seconds}, "headers": keyed(id)}
        return await self._transport.send("POST", *self._address, method, body=dict(arguments), **options)

    async def show(self) -> dict[str, Json]:
        """Return whether the object exists, its revision, and the number of messages that wait for it."""
        found = await self._transport.send("GET", *self._address)
        return found.shaped(dict)

    async def payload(self, sha256: str) -> Json:
        """Return the large state of the object by its hash, as the console shows it."""
        found = await self._transport.send("GET", *self._address, "payloads", sha256)
        return found.part("value").content

    async def delete(self) -> None:
        """Delete the object in its turn, behind the calls that wait already."""
        await self._transport.json("DELETE", *self._address, headers=keyed(str(uuid.uuid4())))


class Objects:
    """The objects of a class."""

    def __init__(self, transport: Transport, function: str, class_name: str) -> None:
        self._transport = transport
        self._address = (function, "objects", class_name)

    def list(self, *, prefix: str | None = None) -> AsyncIterator[dict[str, str]]:
        """Iterate over the objects by key: all, or those whose keys begin with `prefix`."""
        return pages(self._transport, "objects", *self._address, parameters={"prefix": prefix})


class Run:
    """A run of a flow, by its id."""

    def __init__(self, transport: Transport, function: str, flow: str, id: str) -> None:
        self._transport = transport
        self._address = (function, "flows", flow, id)
        self.id = id

    async def show(self, wait_seconds: float | None = None) -> RunShown:
        """Return the progress of the run, or wait up to 30 seconds for its end. Raises `NotFound`."""
        found = await self._show(wait_seconds)
        return found.shaped(RunShown)

    async def _show(self, wait_seconds: float | None) -> Answer:
        return await self._transport.send("GET", *self._address, parameters={"wait_seconds": wait_seconds})

    async def result(self, timeout_seconds: float) -> Json:
        """Wait for the end and return the result, also a large one.

        Raises `CallFailed` with the run's problem, and `TimeoutError`.
        """
        patience = Patience(time.monotonic() + timeout_seconds)
        while True:
            wait = min(WAIT_SECONDS_MAX, max(0.0, patience.ends_at - time.monotonic()))
            shown = await self._show(wait)
            if shown.member("state", str) in ENDED:
                return await opened(outcome(shown), self.payload)
            await sleep(patience.next_pause(time.monotonic(), f"the run {self.id} has not ended"))

    async def send(
        self,
        event: str,
        value: Json = None,
        *,
        start: Mapping[str, Json] | None = None,
        if_exists: str | None = None,
        key: str | None = None,
    ) -> dict[str, Json]:
        """Send an event, once. It is kept until the flow waits for it.

        The answer has a `warning` if the code does not wait for the event now. With `start`, for instance
        ``{"arguments": {"order": "7"}}``, the event starts the run if there is none. If there is one, `if_exists`
        decides: ``same`` (the default), ``replace_ended``, ``replace`` or ``refuse``.
        """
        body = {"value": value, **given(start=start, if_exists=if_exists)}
        headers = keyed(key or str(uuid.uuid4()))
        sent = await self._transport.send("POST", *self._address, "events", event, body=body, headers=headers)
        return sent.shaped(dict)

    async def update(
        self,
        name: str,
        value: Json = None,
        *,
        timeout_seconds: float = WAIT_SECONDS_MAX,
        start: Mapping[str, Json] | None = None,
        if_exists: str | None = None,
        key: str | None = None,
    ) -> Json:
        """Send an update, once, and wait for the answer of the run's code. `start` and `if_exists` are as in `send`.

        Raises `CallFailed` with the problem with which the code refused it, `ApiError` if it was not accepted or the
        run ends without an answer, and `TimeoutError`, with a warning if the code does not wait for the update. A
        repeat under the same `key` receives the first answer.
        """
        began = time.monotonic()
        update = await self.post_update(name, value, start=start, if_exists=if_exists, key=key)
        return await update.result(timeout_seconds - (time.monotonic() - began))

    async def post_update(
        self,
        name: str,
        value: Json = None,
        *,
        start: Mapping[str, Json] | None = None,
        if_exists: str | None = None,
        key: str | None = None,
    ) -> "RunUpdate":
        """Send an update, once, without waiting for its answer.

        The returned update has a `warning` if the code does not wait for it now.
        """
        body = {"value": value, **given(start=start, if_exists=if_exists)}
        update, parameters = key or str(uuid.uuid4()), {"wait_seconds": 0}
        address = (*self._address, "updates", name)
        sent = await self._transport.send("POST", *address, parameters=parameters, body=body, headers=keyed(update))
        return RunUpdate(self._transport, self._address, update, str(sent.shaped(dict).get("warning", "")))

    def sent_update(self, id: str) -> "RunUpdate":
        """Return an update by the key under which it was sent, without checking that it exists."""
        return RunUpdate(self._transport, self._address, id)

    async def cancel(self, reason: str | None = None) -> None:
        """Cancel the run: `Cancelled` is raised where its code waits, so that it can clean up."""
        body, key = given(reason=reason), keyed(str(uuid.uuid4()))
        await self._transport.json("POST", *self._address, "cancel", body=body, headers=key)

    async def terminate(self, reason: str | None = None) -> None:
        """End the run as cancelled without running its code."""
        await self._transport.json("POST", *self._address, "terminate", body=given(reason=reason))

    async def fork(
        self,
        id: str,
        from_entry: int,
        *,
        arguments: Mapping[str, Json] | None = None,
        on_complete: TaskCall | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> "Run":
        """Start another run from the first `from_entry` entries of this run's log, and return it.

        Options that are not given are those of this run, which does not change. Raises `Conflict` if the code has ended
        there, holds a lock there or does not fit the entries, or if the id was used in another way.
        """
        options = given(arguments=arguments, on_complete=on_complete, labels=labels, timeout_seconds=timeout_seconds)
        await self._transport.json("POST", *self._address, "fork", body={"id": id, "from_entry": from_entry, **options})
        function, _, flow, _ = self._address
        return Run(self._transport, function, flow, id)

    async def retry(
        self,
        from_entry: int | None = None,
        *,
        family: bool = False,
        timeout_seconds: float | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> dict[str, Json]:
        """Let the run continue in place after a failure, and return what is dropped and what runs again.

        The failed commands of its last `await` run again, or the log is cut after `from_entry` entries. A `dry_run`
        changes nothing. With `family`, the highest run that has failed because of this sub-flow is retried. Raises
        `Conflict`, whose problem has a `reason`.
        """
        options = given(from_entry=from_entry, timeout_seconds=timeout_seconds, reason=reason)
        flags = given(family=family or None, dry_run=dry_run or None)
        headers = keyed(key or str(uuid.uuid4()))
        done = await self._transport.send("POST", *self._address, "retry", body=options | flags, headers=headers)
        return done.shaped(dict)

    async def suspend(self, reason: str | None = None) -> None:
        """Let the run take no further step until it is resumed. Raises `Conflict` if the run has ended."""
        await self._transport.json("POST", *self._address, "suspend", body=given(reason=reason))

    async def resume(self) -> None:
        """Let a suspended run continue, or let a stuck run try again now."""
        await self._transport.json("POST", *self._address, "resume")

    async def query(self, name: str, /, **arguments: Json) -> Json:
        """Return the answer of the run's code, from a replay of its log that changes nothing.

        Raises `Conflict` if it cannot answer, and `NotFound`.
        """
        parameters = given(arguments=json.dumps(arguments) if arguments else None)
        found = await self._transport.send("GET", *self._address, "queries", name, parameters=parameters)
        return found.part("result").content

    async def queries(self) -> list[str]:
        """Return the names of the queries that the code of the run answers now."""
        found = await self._transport.send("GET", *self._address, "queries")
        return found.member("queries", list)

    async def payload(self, sha256: str) -> Json:
        """Return a large value of the run by its hash.

        The status and the log show such a value as ``{"$payload": {"bytes": …, "sha256": …}}``.
        """
        found = await self._transport.send("GET", *self._address, "payloads", sha256)
        return found.part("value").content

    async def _for_replay(self, shown: Json) -> Json:
        """Return a value of the log, wrapped if a replay could take it for a large one that is not there."""
        value = await opened(shown, self.payload)
        match value:
            case {"$payload": dict()}:
                return {"$payload": {"value": value}}
        return value

    def log(self) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the entries of the log, in order. Large values are shown by their size and their hash."""
        return pages(self._transport, "entries", *self._address, "log")

    async def watch(self) -> AsyncIterator[Event]:
        """Iterate over the run's events (``entry`` of its log, ``progress``, ``complete``) until it has ended.

        A stream that breaks is opened again where it ended.
        """
        async for event in self._transport.events(*self._address, "events"):
            yield event

    async def whole_log(self) -> dict[str, Json]:
        """Return the log in one piece, as `signalbox.testing.replay` takes it: a test of code with a real run.

        It also has the large values.
        """
        page = await self._transport.send("GET", *self._address, "log")
        entries, execution = page.member("entries", list), page.member("execution_id", str)
        while token := page.shaped(dict).pop("next_page_token", None):
            page = await self._transport.send("GET", *self._address, "log", parameters={"page_token": token})
            if page.member("execution_id", str) != execution:
                return await self.whole_log()  # the run has continued as new meanwhile
            entries += page.member("entries", list)
        arguments = page.member("arguments", dict)
        for values in (arguments, *entries):
            for name, value in values.items():
                values[name] = await self._for_replay(value)
        return {**page.shaped(dict), "arguments": arguments, "entries": entries}

    async def delete(self) -> None:
        """Remove the run if it has ended, so that its id is free. Raises `Conflict` if it has not."""
        await self._transport.json("DELETE", *self._address)


class RunUpdate:
    """An update of a run that was accepted; its answer is kept for 32 days.

    `warning` is not empty if the code did not wait for the update when it was sent.
    """

    def __init__(self, transport: Transport, address: tuple[str, ...], id: str, warning: str = "") -> None:
        self._transport = transport
        self._address = (*address, "answers", id)
        self.id = id
        self.warning = warning

    async def result(self, timeout_seconds: float = WAIT_SECONDS_MAX) -> Json:
        """Wait for the answer and return it, also a large one.

        Raises `CallFailed` with the problem with which the code refused the update, `Conflict` if the run has ended
        without an answer, and `TimeoutError`, with the warning.
        """
        patience = Patience(time.monotonic() + timeout_seconds, warning=self.warning)
        while True:
            wait = min(WAIT_SECONDS_MAX, max(0.0, patience.ends_at - time.monotonic()))
            answer = await self._transport.send("GET", *self._address, parameters={"wait_seconds": wait})
            if answer.member("ready", bool):
                return await opened(outcome(answer), self.payload)
            await sleep(patience.next_pause(time.monotonic(), f"the update {self.id} has no answer"))

    async def payload(self, sha256: str) -> Json:
        """Return the large answer by its hash."""
        found = await self._transport.send("GET", *self._address, "payloads", sha256)
        return found.part("value").content


class Flow:
    """A flow of a function, by its name."""

    def __init__(self, transport: Transport, function: str, name: str, **options: Any) -> None:
        self._transport = transport
        self._function = function
        self._name = name
        self._options = options

    def with_(self, *, labels: Mapping[str, str] | None = None, timeout_seconds: float | None = None) -> "Flow":
        """Return the same flow with options for its runs: labels, by which lists find them, or a time-out."""
        options = self._options | given(labels=labels, timeout_seconds=timeout_seconds)
        return Flow(self._transport, self._function, self._name, **options)

    async def start(self, id: str, *, on_complete: TaskCall | None = None, **arguments: Json) -> Run:
        """Start a run under an id. A repeat changes nothing; with other arguments it raises `Conflict`."""
        body = {"arguments": arguments, **given(on_complete=on_complete), **self._options}
        await self._transport.json("POST", self._function, "flows", self._name, id, body=body)
        return self.run(id)

    async def start_new(self, *, on_complete: TaskCall | None = None, **arguments: Json) -> Run:
        """Start a run, once, under an id that the deployment chooses. The returned run has this id."""
        body = {"arguments": arguments, **given(on_complete=on_complete), **self._options}
        key = keyed(str(uuid.uuid4()))
        started = await self._transport.send("POST", self._function, "flows", self._name, body=body, headers=key)
        return self.run(started.member("id", str))

    def run(self, id: str) -> Run:
        """Return the run of an id, without checking that it exists."""
        return Run(self._transport, self._function, self._name, id)

    async def count(
        self,
        state: str | None = None,
        label: str | Sequence[str] | None = None,
        prefix: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> int:
        """Return the number of the runs that `runs` would list with these options."""
        parameters = _filter(state, label, prefix, started_after, started_before) | {"count": "true"}
        found = await self._transport.send("GET", self._function, "flows", self._name, parameters=parameters)
        return found.member("count", int)

    async def count_by(
        self,
        name: str,
        state: str | None = None,
        label: str | Sequence[str] | None = None,
        prefix: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
    ) -> dict[str, int]:
        """Return the number of the runs with each value of the label `name`, the largest first."""
        parameters = _filter(state, label, prefix, started_after, started_before) | {"count_by": name}
        found = await self._transport.send("GET", self._function, "flows", self._name, parameters=parameters)
        return found.member("counts", dict)

    async def act_on_all(
        self,
        action: str,
        *,
        state: str | None = None,
        label: str | None = None,
        prefix: str | None = None,
        reason: str | None = None,
    ) -> Batch:
        """Let the function cancel, resume, retry, terminate or delete all runs that match now (`count` tells how many).

        Returns the batch that does it: a unit for each run, whose result is ``done`` or ``skipped``. Runs that begin to
        match later are not among them. Raises `Conflict` for more than 20,000 runs.
        """
        chosen = given(state=state, label=label, prefix=prefix, reason=reason)
        address, key = (self._function, "flows", self._name, ":act"), keyed(str(uuid.uuid4()))
        found = await self._transport.send("POST", *address, body={"action": action, **chosen}, headers=key)
        return Batch(self._transport, found.member("batch", str))

    def runs(
        self,
        state: str | None = None,
        label: str | Sequence[str] | None = None,
        prefix: str | None = None,
        started_after: datetime | None = None,
        started_before: datetime | None = None,
        *,
        newest_first: bool = False,
    ) -> AsyncIterator[dict[str, Json]]:
        """Iterate over the runs by id: all, or those in a state, with a label (`name:value`), or with a prefix.

        With several labels, runs have all of them; write the rarest first.

        With `newest_first`, or with times between which they were started, they are sorted by their starts instead, the
        newest first; then `prefix` is not allowed. The times must have a time zone.
        """
        parameters = _filter(state, label, prefix, started_after, started_before)
        parameters |= given(newest_first=newest_first or None)
        return pages(self._transport, "flows", self._function, "flows", self._name, parameters=parameters)


def _filter(
    state: str | None,
    label: str | Sequence[str] | None,
    prefix: str | None,
    after: datetime | None,
    before: datetime | None,
) -> dict[str, object]:
    """Return the query parameters of a list of runs."""
    times = (each.isoformat() if each else None for each in (after, before))
    return {"state": state, "label": label, "prefix": prefix, **dict(zip(TIMES, times, strict=True))}


def outcome(answer: Answer) -> Json:
    """Return the result of a call or of a run that has ended, or the object that is the result.

    Raises `CallFailed` with the problem of the call or run.
    """
    if (failed := failure(answer)) is not None:
        raise failed
    found = answer.shaped(dict)
    return found["object"] if "object" in found else found.get("result")


async def opened(shown: Json, load: Callable[[str], Awaitable[Json]]) -> Json:
    """Return a value that an answer may show by its size and its hash, or wrapped. `load` returns it by its hash."""
    match shown:
        case {"$payload": {"sha256": str(sha256)}}:
            return await load(sha256)
        case {"$payload": {"value": value}}:
            return value
    return shown


def failure(answer: Answer) -> CallFailed | None:
    """Return the problem of a call or of a run, or None if it did not end with a problem."""
    if answer.shaped(dict).get("error") is None:
        return None
    problem = answer.part("error")
    return CallFailed(problem.member("status", int), problem.shaped(dict))
