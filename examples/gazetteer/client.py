"""A small client of the documents API, to copy into a program of your own.

It needs the base URL only. A permanent error (4xx) is raised as `Refused`. A transient one (503, 502 and 504 of a
gateway, 429, a broken connection) is retried after a jittered pause that doubles, and not before the time in
Retry-After, until `retry_seconds` are over. That is safe because every call here may run twice: a put
replaces, and a delete whose first answer got lost finds nothing left to delete. Threads may share a client.
"""

import json
import random
import time
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

Document = dict[str, Any]

RETRIED_STATUSES = frozenset({429, 502, 503, 504})
PAUSE_FIRST_SECONDS = 0.1
PAUSE_MAX_SECONDS = 5.0
TIMEOUT_SECONDS = 30.0
PAGE_DOCUMENTS = 200


class Refused(Exception):
    """A permanent error. `problem` is the body (RFC 9457), as far as it is one."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.problem = _problem(response)
        reason = self.problem.get("detail") or self.problem.get("title") or response.reason_phrase
        super().__init__(f"{response.request.method} {response.request.url}: {self.status} {reason}")


class GaveUp(Exception):
    """No definite answer came in time. The call may have taken effect or not."""


class Documents:
    """The documents below one base URL, which ends in ``/`` or ``/PREFIX-``.

    `connections_max` limits the calls under way at once; `token` is an identity token, where the service requires one.
    """

    def __init__(
        self,
        base_url: str,
        *,
        token: str = "",
        connections_max: int = 16,
        retry_seconds: float = 60,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._base_url = base_url
        self._collection = f"{base_url}documents"
        self._retry_seconds = retry_seconds
        self._sleep = sleep
        self._http = httpx.Client(
            headers={"Authorization": f"Bearer {token}"} if token else {},
            limits=httpx.Limits(max_connections=connections_max, max_keepalive_connections=connections_max),
            timeout=httpx.Timeout(TIMEOUT_SECONDS, pool=None),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.close()

    def put(self, key: str, document: Document) -> Document:
        """Store a document under its key, and return it as stored, with its copies."""
        return _json(self._request("PUT", self._url(key), json=document))

    def put_many(self, documents: Mapping[str, Document]) -> dict[str, Any]:
        """Store up to 500 documents in one call; return the problems of those that were refused, by key.

        Retries those with a transient error. Raises `GaveUp` when some have no definite answer by then.
        """
        left = dict(documents)
        refused: dict[str, Any] = {}
        give_up_at = time.monotonic() + self._retry_seconds
        for pause_seconds in _pauses():
            bodies = [{**document, "key": key} for key, document in left.items()]
            results = _json(self._request("POST", self._collection, json=bodies))["results"]
            problems = {each["key"]: each["problem"] for each in results if "problem" in each}
            left = {key: left[key] for key, problem in problems.items() if problem["status"] in RETRIED_STATUSES}
            refused |= {key: problem for key, problem in problems.items() if key not in left}
            if not left or time.monotonic() > give_up_at:
                break
            self._sleep(pause_seconds)
        if left:
            raise GaveUp(f"{len(left)} documents, the first {next(iter(left))}: no answer in time")
        return refused

    def get(self, key: str) -> Document | None:
        """Read a document, or None where there is none."""
        response = self._request("GET", self._url(key), allowed=(404,))
        return None if response.status_code == 404 else _json(response)

    def delete(self, key: str) -> None:
        """Delete a document; a missing one is not an error."""
        self._request("DELETE", self._url(key), allowed=(404,))

    def find(self, where: Mapping[str, Any], *, page_documents: int = PAGE_DOCUMENTS) -> Iterator[Document]:
        """Find the documents whose fields have these values, in order of their keys.

        A field's name may reach into objects and copies: ``{"country.name": "Japan"}``. Reads page by page, as needed.
        """
        token = ""
        while True:
            page = self._page(where, page_documents, token)
            yield from page["documents"]
            token = page.get("next_page_token", "")
            if not token:
                return

    def first(self, where: Mapping[str, Any]) -> Document | None:
        """Find the one with the first key, or None; that costs one read."""
        return next(iter(self._page(where, 1)["documents"]), None)

    def call(self, method: str, path: str, *, allowed: tuple[int, ...] = (), **request: Any) -> httpx.Response:
        """Call another function below the base URL, in the same way: only for what may run twice."""
        return self._request(method, f"{self._base_url}{path}", allowed=allowed, **request)

    def _page(self, where: Mapping[str, Any], limit: int, token: str = "") -> dict[str, Any]:
        # As JSON, or the text "1" would be read as the number.
        conditions = [("where", f"{field}=={json.dumps(value)}") for field, value in where.items()]
        paged = [("page_token", token)] if token else []
        return _json(self._request("GET", self._collection, params=[*conditions, ("limit", str(limit)), *paged]))

    def _url(self, key: str) -> str:
        return f"{self._collection}/{quote(key, safe='')}"

    def _request(self, method: str, url: str, *, allowed: tuple[int, ...] = (), **request: Any) -> httpx.Response:
        """Send a request until it has a definite answer. Raises `GaveUp`, or `Refused` if neither 2xx nor `allowed`."""
        give_up_at = time.monotonic() + self._retry_seconds
        for pause_seconds in _pauses():
            answer = self._try(method, url, **request)
            if isinstance(answer, httpx.Response) and answer.status_code not in RETRIED_STATUSES:
                return _accepted(answer, allowed)
            wait_seconds = max(pause_seconds, _retry_after_seconds(answer))
            if time.monotonic() + wait_seconds > give_up_at:
                break
            self._sleep(wait_seconds)
        raise GaveUp(f"{method} {url}: no answer in {self._retry_seconds:g} s; the last was {answer!r}")

    def _try(self, method: str, url: str, **request: Any) -> httpx.Response | httpx.TransportError:
        try:
            return self._http.request(method, url, **request)
        except httpx.TransportError as error:
            return error


def _pauses() -> Iterator[float]:
    pause_seconds = PAUSE_FIRST_SECONDS
    while True:
        yield pause_seconds * random.uniform(0.5, 1)  # noqa: S311  to spread the clients, not to keep a secret
        pause_seconds = min(2 * pause_seconds, PAUSE_MAX_SECONDS)


def _retry_after_seconds(answer: httpx.Response | httpx.TransportError) -> float:
    text = answer.headers.get("Retry-After", "") if isinstance(answer, httpx.Response) else ""
    return float(text) if text.isdecimal() else 0.0


def _accepted(response: httpx.Response, allowed: tuple[int, ...]) -> httpx.Response:
    if response.is_success or response.status_code in allowed:
        return response
    raise Refused(response)


def _json(response: httpx.Response) -> dict[str, Any]:
    body: dict[str, Any] = response.json()
    return body


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        body = response.json()
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
