# Generated from client/aio/transport.py by `make docs`: change that one.
"""Sends requests with a token, and repeats them while the function is unavailable."""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import httpx

from signalbox.client.answers import Answer
from signalbox.client.blocking.lease_renewal import in_thread, sleep
from signalbox.client.event_reader import EventReader
from signalbox.client.identity import Fetch, Tokens, default_token
from signalbox.client.model import Event, Json
from signalbox.client.requests import Request, request
from signalbox.client.retries import Answered, Attempts

TIMEOUT_SECONDS = 60.0
"""Timeout of one attempt. The longest call that waits at the function waits for 30 seconds."""

CONNECT_SECONDS = 5.0
"""Timeout of one connection, within that of its attempt: an address that does not answer is not waited for."""

THIS_MACHINE = re.compile(r"127(\.[0-9]{1,3}){3}|localhost|::1")

NO_ANSWER = (httpx.TransportError, httpx.DecodingError)
AGAIN_SECONDS = 1.0
"""The pause before a stream that has ended is opened again."""

AGAIN = {"Retry-After": str(AGAIN_SECONDS)}


class Transport:
    """The connection of a client to one base URL, which ends in ``/`` or ``/PREFIX-``."""

    def __init__(
        self,
        base_url: str,
        token: Fetch | None,
        retry_seconds: float,
        transport: httpx.BaseTransport | None,
    ) -> None:
        self.base_url = base_url
        is_encrypted = httpx.URL(base_url).scheme == "https"  # in lower case, as it will be called
        self._tokens = Tokens(token or default_token) if token or is_encrypted else None
        self._retry_seconds = retry_seconds
        self._attempt_seconds = TIMEOUT_SECONDS
        is_remote = not THIS_MACHINE.fullmatch(httpx.URL(base_url).host)  # which no proxy reaches
        self._http = httpx.Client(timeout=_timeout(TIMEOUT_SECONDS), transport=transport, trust_env=is_remote)

    def within(self, retry_seconds: float) -> "Transport":
        """Return the same connection with less patience, if this one has more."""
        other = copy(self)
        other._retry_seconds = min(retry_seconds, self._retry_seconds)
        return other

    def trying(self, attempt_seconds: float) -> "Transport":
        """Return the same connection with less time for one attempt, if this one has more."""
        other = copy(self)
        other._attempt_seconds = min(attempt_seconds, self._attempt_seconds)
        return other

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def json(self, *arguments: Any, **options: Any) -> Json:
        """Send a request, as `send` does, and return the answer's JSON; None for an empty one."""
        answer = self.send(*arguments, **options)
        return answer.content

    def send(self, *arguments: Any, **options: Any) -> Answer:
        """Send the request that `requests.request` makes of the arguments until it has an answer, and return it.

        Raises `ApiError` for an unsuccessful answer and for one that is not JSON, and `Unavailable` if there was none
        in time.
        """
        asked, attempts = request(*arguments, **options), self._attempts()
        while True:
            response, answered = self._attempt(asked)
            if response is not None and response.is_success:
                return Answer.read(str(asked), response.status_code, response.content, response.headers)
            sleep(attempts.pause_seconds(time.monotonic(), random.random(), answered))  # noqa: S311 (a pause)

    def events(self, *segments: object) -> Iterator[Event]:
        """Iterate over a stream of events until one is ``complete``. A stream that ends before is opened again.

        Raises `ApiError` if the stream is refused, and `Unavailable` if no stream begins within the time of retries.
        """
        reader, attempts = EventReader(str(request("GET", *segments))), self._attempts()
        while True:
            reader.begin()
            asked = request("GET", *segments, headers={"Last-Event-ID": reader.last_id or None})
            answered, is_alive = Answered(0, f"{self._named(asked)}: the stream ended", AGAIN), False
            try:
                with self._opened(asked) as response:
                    if not response.is_success:
                        response.read()
                        answered = _answered(response, asked)
                    else:
                        for line in lines_of(response):
                            is_alive |= line.startswith("id:")
                            if (event := reader.line(line)) is not None:
                                is_alive = True
                                yield event
                                if event["event"] == "complete":
                                    return
            except NO_ANSWER as error:
                answered = Answered(0, f"{self._named(asked)}: {error!r}", AGAIN)
            if is_alive:
                attempts = self._attempts()
                sleep(AGAIN_SECONDS)
            else:
                sleep(attempts.pause_seconds(time.monotonic(), random.random(), answered))  # noqa: S311 (a pause)

    def lines(self, asked: Callable[[], Request]) -> Iterator[Answer]:
        """Iterate over the lines of a download. If it breaks, the request that `asked` returns then continues it.

        Raises `ApiError` if it is refused, and `Unavailable` if no line arrives within the time of retries.
        """
        attempts = self._attempts()
        while True:
            request_, is_alive = asked(), False
            try:
                with self._opened(request_) as response:
                    if response.is_success:
                        for line in lines_of(response):
                            is_alive = True
                            yield Answer.read(str(request_), response.status_code, line.encode(), response.headers)
                        return
                    response.read()
                    answered = _answered(response, request_)
            except NO_ANSWER as error:
                answered = Answered(0, f"{self._named(request_)}: {error!r}", AGAIN)
            if is_alive:
                attempts = self._attempts()
            sleep(attempts.pause_seconds(time.monotonic(), random.random(), answered))  # noqa: S311 (a pause)

    @contextmanager
    def _opened(self, asked: Request) -> Iterator[httpx.Response]:
        headers = self._headers(asked)
        with self._http.stream(asked.method, self.base_url + asked.path, headers=headers) as response:
            yield response

    def _attempts(self) -> Attempts:
        return Attempts(time.monotonic() + self._retry_seconds)

    def _attempt(self, asked: Request) -> tuple[httpx.Response | None, Answered]:
        headers = self._headers(asked)
        try:
            response = self._http.request(
                asked.method,
                self.base_url + asked.path,
                content=asked.content,
                headers=headers,
                timeout=_timeout(self._attempt_seconds),
            )
        except NO_ANSWER as error:
            return None, Answered(0, f"{self._named(asked)}: {error!r}")
        return response, _answered(response, asked)

    def _named(self, asked: Request) -> str:
        return f"{asked.method} {self.base_url}{asked.path}"

    def _headers(self, asked: Request) -> dict[str, str]:
        if self._tokens is None:
            return dict(asked.headers)
        token = in_thread(self._tokens.token, self.base_url + asked.function)
        return {**asked.headers, "Authorization": f"Bearer {token}"} if token else dict(asked.headers)


def _timeout(attempt_seconds: float) -> httpx.Timeout:
    return httpx.Timeout(attempt_seconds, connect=min(CONNECT_SECONDS, attempt_seconds))


def lines_of(response: httpx.Response) -> Iterator[str]:
    """Iterate over an answer's lines. httpx also ends a line at U+2028, which a text in JSON may contain."""
    rest = ""
    for part in response.iter_text():
        *lines, rest = (rest + part).split("\n")
        for line in lines:
            yield line.removesuffix("\r")
    if rest:
        yield rest


def _answered(response: httpx.Response, asked: Request) -> Answered:
    text = "" if response.is_success else response.text
    return Answered(response.status_code, text, response.headers, asked.function)
