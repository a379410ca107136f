"""The client itself: the names under which everything else is found."""

import uuid
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs, unquote

import httpx

from signalbox.client.aio.batches import Batch, Batches, Failures, Tasks
from signalbox.client.aio.documents import Documents, Transforms, Verifications
from signalbox.client.aio.objects_and_flows import Flow, Object, Objects
from signalbox.client.aio.rates import Rate, Rates
from signalbox.client.aio.semaphores import CriticalSection, Semaphore, Semaphores
from signalbox.client.aio.standings import Standings, Yokes
from signalbox.client.aio.transport import Transport
from signalbox.client.identity import Fetch
from signalbox.client.model import Json
from signalbox.client.requests import MISSING, keyed

LOCAL = "http://127.0.0.1:8080/"


class AsyncClient:
    """A client of one deployment, or of the local stack.

    - ``base_url``: as `signalbox deploy` shows it, with ``/`` or ``/PREFIX-`` at its end.
    - ``token``: returns an identity token for the URL of a function; by default, that of the environment's service
      account or of the person who is signed in with gcloud. Only ``https://`` gets that one. A person's token is valid
      for every function, so the receiver may call whatever the person may: name only hosts that you trust.
    - ``retry_seconds``: how long a call is repeated if it gets no answer, or 429, 502, 503 or 504.
    - ``transport``: httpx's, for a proxy or a test.
    """

    def __init__(
        self,
        base_url: str = LOCAL,
        *,
        token: Fetch | None = None,
        retry_seconds: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if not base_url.endswith(("/", "-")):
            base_url += "/"
        self._transport = Transport(base_url, token, retry_seconds, transport)
        self.documents = Documents(self._transport)
        self.transforms = Transforms(self._transport)
        self.verifications = Verifications(self._transport)
        self.semaphores = Semaphores(self._transport)
        self.rates = Rates(self._transport)
        self.batches = Batches(self._transport)
        self.tasks = Tasks(self._transport)
        self.failures = Failures(self._transport)
        self.yokes = Yokes(self._transport)
        self.standings = Standings(self._transport)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Json = MISSING,
        parameters: Mapping[str, object] | None = None,
        headers: Mapping[str, str | None] | None = None,
    ) -> Json:
        """Call a route that a function defines, such as ``shop/stock?item=tea``, and return the answer's JSON.

        Like every call, it may be repeated, so the route must tolerate being called twice. A POST has an
        ``Idempotency-Key``, which all its attempts share. Raises `ApiError`, and `Unavailable`.
        """
        key = keyed(str(uuid.uuid4())) if method == "POST" else {}
        route, _, query = path.partition("?")
        segments = [unquote(segment) for segment in route.strip("/").split("/")] if route.strip("/") else []
        asked = {**parse_qs(query, keep_blank_values=True), **(parameters or {})}
        return await self._transport.json(
            method, *segments, body=body, parameters=asked, headers={**key, **(headers or {})}
        )

    def semaphore(self, name: str) -> Semaphore:
        """Return the semaphore of a name, without checking that it exists."""
        return Semaphore(self._transport, name)

    def rate(self, name: str) -> Rate:
        """Return the rate of a name, without checking that it exists."""
        return Rate(self._transport, name)

    def critical_section(self, key: str) -> CriticalSection:
        """Return the critical section of a key."""
        return CriticalSection(self._transport, key)

    def batch(self, id: str) -> Batch:
        """Return the batch of an id, without checking that it exists."""
        return Batch(self._transport, id)

    def object(self, function: str, class_name: str, key: str) -> Object:
        """Return the object of a function's class under a key; it exists once a method was called."""
        return Object(self._transport, function, class_name, key)

    def objects(self, function: str, class_name: str) -> Objects:
        """Return the objects of a function's class."""
        return Objects(self._transport, function, class_name)

    def flow(self, function: str, name: str) -> Flow:
        """Return a flow of a function."""
        return Flow(self._transport, function, name)
