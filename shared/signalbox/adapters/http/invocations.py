"""Calls of one function by another, over HTTPS, as the caller's own account.

    answer = invoke("social_sandbox", "/runs", {"runs": […]}, timeout_seconds=60)

The caller waits for the answer, so this is for functions that compute something and keep nothing, such as an `isolated`
function that runs untrusted code. Work that must happen belongs in a task, which is retried.
"""

import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.http.json_bodies import parse, render
from signalbox.adapters.logs import current_trace
from signalbox.adapters.settings import settings
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import Problem, Unavailable

TRY_AGAIN = (429, 502, 503, 504)
"""Statuses of a function that is starting, busy, or waiting for another service."""

CLIENT_ERROR, SERVER_ERROR = 400, 500
REDIRECTS = range(300, 400)

ANSWER_BYTES_MAX = 32 * 1024 * 1024
"""Cloud Run's limit of a body that is not streamed. A function that streams one could fill its caller's memory."""

READ_BYTES = 65_536
REASON_LENGTH_MAX = 500
"""Characters of an answer's title and detail that are quoted: they are the called function's choice."""


class InvocationRefused(Problem):
    status = 502
    title = "A called function refused the request"


class InvocationFailed(Exception):
    """A called function failed or did not answer in time. The call may have taken effect."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call of `function` at a path below its address, with a JSON body."""

    function: str
    method: str
    path: str
    body: bytes
    timeout_seconds: float

    @property
    def headers(self) -> dict[str, str]:
        trace = current_trace()
        return {"Content-Type": "application/json"} | ({"traceparent": trace} if trace else {})


Send = Callable[[Invocation], tuple[int, bytes]]
"""Make a call; return the status and the body of the answer. Raises `Unavailable`, `InvocationFailed`."""


def invoke(
    function: str, path: str = "/", body: object = None, *, method: str = "POST", timeout_seconds: float = 60
) -> Any:
    """Call a route of another function of the deployment, and return the parsed body of its answer, or None.

    The catalogue must list the called function in the `invokes` of the caller; `signalbox catalogue` derives this
    from a call whose first argument is a constant. `body` is sent as JSON; None sends no body.

    Raises `Unavailable` if the function is not reached or answers 429, 502, 503 or 504, so that a task is delivered
    again; `InvocationRefused`, a `Problem`, with the detail of any other problem between 400 and 499; and
    `InvocationFailed` otherwise, also after `timeout_seconds`, and for an answer that is a redirect, is not JSON or has
    more than 32 MiB. In the last case the function may have run. Raises `ValueError` for a path that does not begin
    with a slash: it could name another host.
    """
    runtime.check_permitted()
    if not path.startswith("/"):
        raise ValueError(f"The path of a call of {function} must begin with a slash; {path!r:.80} does not.")
    sent = b"" if body is None else render(body)
    status, answer = (_bound or send)(Invocation(function, method, path, sent, timeout_seconds))
    if status in TRY_AGAIN:
        raise Unavailable(f"{function} answered {status}: {_reason(answer)}", retry_after_seconds=1)
    if status in REDIRECTS:
        raise InvocationFailed(f"{function} answered {status}, a redirect: a call reaches no other address.")
    if status >= SERVER_ERROR:
        raise InvocationFailed(f"{function} answered {status}: {_reason(answer)}")
    if status >= CLIENT_ERROR:
        if not _problem(answer):  # Cloud Run itself: a right that was just granted may not be in effect
            raise InvocationFailed(f"{function} answered {status}: is it in `invokes` of this function's entry?")
        raise InvocationRefused(f"{function} answered {status}: {_reason(answer)}")
    return _parsed(function, status, answer) if answer.strip() else None


def _parsed(function: str, status: int, answer: bytes) -> Any:
    try:
        return parse(answer)
    except Problem as problem:  # of the answer, not of the request that the caller handles
        raise InvocationFailed(
            f"{function} answered {status} with a body that is not JSON: {problem.detail}"
        ) from problem


def bind(send: Send | None) -> Send | None:
    """Make calls by `send` from now on (None: over HTTPS). Return the one before. For tests and the local stack."""
    global _bound
    before, _bound = _bound, send
    return before


_bound: Send | None = None


def _problem(answer: bytes) -> dict[str, Any]:
    """Return the members of a problem document; empty if the answer is not one."""
    try:
        found = parse(answer)
    except Problem:
        return {}
    return found if isinstance(found, dict) and "title" in found else {}


def _reason(answer: bytes) -> str:
    problem = _problem(answer)
    reason = ": ".join(str(problem[name]) for name in ("title", "detail") if name in problem)
    return reason[:REASON_LENGTH_MAX] or "no reason given"


def send(invocation: Invocation) -> tuple[int, bytes]:
    """Call over HTTPS with an identity token of this function's account.

    Its audience is the called function's own address, also if the call goes through a domain. The called function may
    have less rights than this one, so its answer leads to no other address, and has limits of size and of time.
    """
    from google.auth.exceptions import GoogleAuthError
    from requests import RequestException, Timeout
    from urllib3.exceptions import HTTPError
    from urllib3.exceptions import TimeoutError as ReadingTimeout

    audience, deadline = (
        settings().people_address_of(invocation.function),
        time.monotonic() + invocation.timeout_seconds,
    )
    try:
        with _session(audience).request(
            invocation.method,
            settings().invocation_address_of(invocation.function) + invocation.path,
            data=invocation.body,
            headers=invocation.headers | {"Accept-Encoding": "identity"},
            timeout=invocation.timeout_seconds,
            allow_redirects=False,
            stream=True,
        ) as answer:
            return answer.status_code, _received(invocation, answer.raw, deadline)
    except (Timeout, ReadingTimeout) as error:
        raise _too_slow(invocation) from error
    except (RequestException, HTTPError, GoogleAuthError) as error:
        raise Unavailable(f"{invocation.function} was not reached: {error}", retry_after_seconds=1) from error


def _received(invocation: Invocation, body: Any, deadline: float) -> bytes:
    """Return the body of an answer as it was sent: one that is compressed is not JSON.

    Raises `InvocationFailed` if it is too large, or is sent so slowly that it ends after the deadline.
    """
    received = bytearray()
    while part := body.read1(READ_BYTES, decode_content=False):
        received += part
        if len(received) > ANSWER_BYTES_MAX:
            raise InvocationFailed(f"{invocation.function} answered with more than {ANSWER_BYTES_MAX:,} bytes")
        if time.monotonic() > deadline:
            raise _too_slow(invocation)
    return bytes(received)


def _too_slow(invocation: Invocation) -> InvocationFailed:
    return InvocationFailed(f"{invocation.function} took over {invocation.timeout_seconds} s")


@lru_cache(maxsize=64)
def _session(audience: str) -> Any:
    """Return the connections to a function; `google.auth` gets and renews their tokens."""
    from google.auth.transport.requests import AuthorizedSession, Request
    from google.oauth2.id_token import fetch_id_token_credentials
    from requests import Session

    if audience.startswith("http://"):  # a server on this machine, which checks no token
        session = Session()
        session.trust_env = False  # the environment's proxy would receive the call
        return session
    return AuthorizedSession(fetch_id_token_credentials(audience, Request()))
