"""Serve the console on this machine for a deployment: forward its reads with the identity of gcloud's user.

Nothing is deployed, and IAM decides: a person sees and does what their account may. Only GETs of the API of the kit are
forwarded, and the calls of `ACTIONS` if the console was started to act; each of these needs a reason, and is a line of
the log. The token is never in a response.

Other callers of the port get the page's files, but no data. Requests must name this server as their host, which defeats
DNS rebinding; they may not come from another site's page; and they must have the header `KEY_HEADER` with a key, since
other users of the machine can also reach its loopback interface. The key is in the fragment of the address that `make
console` prints, which a browser does not send: the page reads it there. A cookie would be sent to every port of this
machine.
"""

import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httpx
from werkzeug.wrappers import Request, Response

from signalbox.catalogue.parts import absent
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.console.actions import (
    ACTIONS,
    BODY_BYTES_MAX,
    OF_QUEUES,
    OF_SCHEDULES,
    REASON_HEADER,
    action_of,
    logged_body,
)
from signalbox_tools.console.identity_tokens import Tokens
from signalbox_tools.console.routes import Console, is_file, own_answer, problem
from signalbox_tools.console.security_headers import BARE_HEADERS
from signalbox_tools.deploy.programs import CommandFailed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

READ = (
    "documents",
    "transforms",
    "verifications",
    "semaphores",
    "rates",
    "critical_section",
    "batches",
    "failures",
    "standings",
    "yokes",
)
"""The functions of the kit whose GETs are passed on. Users' functions are not among them, since the effects of their
GETs are unknown.
"""

OF_ANY_FUNCTION = ("objects", "flows")
ONE_TAG = re.compile(r'"[^",]+"')
"""One strong entity tag: with a list, an action would apply to versions that nobody has seen."""

REQUEST_HEADERS = ("Accept", "Last-Event-ID", "Idempotency-Key", "If-Match")
RESPONSE_HEADERS = ("ETag", "Retry-After")
CONTENT_TYPES = ("application/json", "application/problem+json", "application/x-ndjson", "text/event-stream")
ACTING = ("POST", "PUT", "DELETE")
OWN_SITE = ("", "same-origin", "none")
KEY_HEADER = "X-Signalbox-Console"
TARGET = re.compile(r"/[!-\"$-~]*")
"""A path and a query as a browser sends them: printable ASCII. The part after a ``#`` would not be sent on."""

SHOWN = 300  # characters of an answer that is not the API's
JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Relay:
    """A WSGI application that serves the console and passes other requests on to the functions at `base_url`.

    `hosts` are the accepted values of `Host`, each with its port. `base_url` ends in ``/`` or ``/PREFIX-``.
    """

    console: Console
    base_url: str
    hosts: frozenset[str]
    tokens: Tokens
    client: httpx.Client
    account: str
    log: Callable[[Mapping[str, Any]], None]
    key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return self._answer(Request(environ))(environ, start_response)

    def _answer(self, request: Request) -> Response:
        if refusal := self._refusal(request):
            return refusal
        path = _raw_path(request)
        if not TARGET.fullmatch(path):
            return problem(400, "Not a path", "An address begins with a slash, and is encoded.")
        if request.method != "GET":
            return self._acted(path, request)
        return own_answer(lambda: self.console.answer(request)) or self._passed_on(path, request)

    def _acted(self, path: str, request: Request) -> Response:
        """Pass an action on, and log its user and its reason."""
        name = action_of(request.method, _segments(path))
        if name is None:
            return problem(405, "Not an action", "The console passes on GETs and its own actions only.")
        if name not in (*OF_QUEUES, *OF_SCHEDULES) and not self.passes(path):
            return _not_passed_on(path, self.console.catalogue.database)
        reason = unquote(request.headers.get(REASON_HEADER, "")).strip()
        if not reason:
            return problem(400, "Reason missing", "Say why: the log of the console has the reason of each action.")
        if ACTIONS[name].is_of_seen and not ONE_TAG.fullmatch(request.headers.get("If-Match", "")):
            return problem(428, "If-Match missing", "This call needs the entity tag of the version shown.")
        length = request.content_length  # also None for a chunked body, which states no length
        if "Transfer-Encoding" in request.headers or (length and (length > BODY_BYTES_MAX or request.mimetype != JSON)):
            detail = f"An action's body is JSON of at most {BODY_BYTES_MAX:,} bytes, with a Content-Length."
            return problem(413, "Not passed on", detail)
        answer = own_answer(lambda: self.console.act(_segments(path))) or self._passed_on(path, request)
        done = {"message": "console action", "action": name, "account": self.account, "reason": reason}
        call = {"call": f"{request.method} {path}", **logged_body(name, request.get_data)}
        self.log({**done, **call, "status": answer.status_code})
        return answer

    def _refusal(self, request: Request) -> Response | None:
        """Return the problem of a request that is refused, or None."""
        if request.environ.get("HTTP_HOST") not in self.hosts:
            return problem(403, "Unknown host", f"This server is {' or '.join(sorted(self.hosts))}.")
        if request.method != "GET" and not (self.console.acts and request.method in ACTING):
            return problem(
                405, "Read-only", "The console passes on GETs only, unless started with --act.", {"Allow": "GET"}
            )
        if request.method != "GET" and request.headers.get("Origin") not in {f"http://{host}" for host in self.hosts}:
            return problem(403, "Another site's page", "Only the console's own page may act.")
        if request.headers.get("Sec-Fetch-Site", "") not in OWN_SITE and request.path != "/console":
            return problem(403, "Another site's page", "Only the console's own page is answered.")
        given = request.headers.get(KEY_HEADER, "")
        if not is_file(request) and not secrets.compare_digest(given.encode(), self.key.encode()):
            return problem(403, "Key missing", "Open the address that signalbox console has printed.")
        return None

    def passes(self, path: str) -> bool:
        """Return whether a path belongs to the API of the kit."""
        segments = _segments(path)
        if not segments or any(each in ("", ".", "..") or set(each) & {"/", "\\"} for each in segments):
            return False
        if segments[0] in segments_of(self.console.catalogue):
            return True
        of_any = len(segments) > 2 and segments[1] in OF_ANY_FUNCTION
        return of_any and segments[0] in _with_objects_or_flows(self.console.catalogue)

    def _passed_on(self, path: str, request: Request) -> Response:
        if not self.passes(path):
            return _not_passed_on(path, self.console.catalogue.database)
        try:
            answer = self._sent(path, request)
        except (httpx.HTTPError, httpx.InvalidURL, CommandFailed) as error:
            return problem(502, "The deployment cannot be reached", str(error))
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in CONTENT_TYPES:
            return _not_the_api(answer)
        kept = {name: answer.headers[name] for name in RESPONSE_HEADERS if name in answer.headers}
        headers = {**BARE_HEADERS, **kept, "Content-Type": answer.headers["Content-Type"]}
        response = Response(_body(answer), answer.status_code, headers)
        response.call_on_close(answer.close)
        return response

    def _sent(self, path: str, request: Request) -> httpx.Response:
        """Send a request with a token. If the token is refused, send the request once more with a new one."""
        function = self.base_url + path[1:].partition("?")[0].partition("/")[0]
        answer = self._sent_with(self.tokens.token(function), path, request)
        if answer.status_code != 401:
            return answer
        answer.close()
        return self._sent_with(self.tokens.renewed(function), path, request)

    def _sent_with(self, token: str, path: str, request: Request) -> httpx.Response:
        headers = {name: request.headers[name] for name in REQUEST_HEADERS if name in request.headers}
        headers |= {"Accept-Encoding": "identity"}  # a stream is not to be buffered
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        content = None
        if request.method != "GET" and (content := request.get_data()):
            headers["Content-Type"] = JSON
        asked = self.client.build_request(request.method, self.base_url + path[1:], headers=headers, content=content)
        return self.client.send(asked, stream=True)


def segments_of(catalogue: Catalogue) -> frozenset[str]:
    """Return the first segments of the addresses of the kit's own functions."""
    functions = catalogue.functions
    return frozenset(
        functions[name].segment for name in READ if name in functions and "people" in functions[name].invoked_by
    )


def _with_objects_or_flows(catalogue: Catalogue) -> frozenset[str]:
    functions = catalogue.functions.values()
    return frozenset(each.segment for each in functions if (each.objects or each.flows) and "people" in each.invoked_by)


def _not_passed_on(path: str, database: str) -> Response:
    missing = absent(_segments(path)[0], database)
    return problem(404, "Not passed on", missing or "The console reads only the API of the kit.")


def _not_the_api(answer: httpx.Response) -> Response:
    """Return a problem to replace a response that is not from the API, such as Google's page for a refused caller."""
    try:
        text = answer.read().decode("utf-8", "replace")[:SHOWN]
    finally:
        answer.close()
    status = answer.status_code if answer.status_code >= 400 else 502
    return problem(status, f"The deployment answered {answer.status_code}, and not as the API does", text)


def _body(answer: httpx.Response) -> Iterator[bytes]:
    """Iterate over a body as it arrives.

    If the connection breaks, the body ends, and an `EventSource` connects again.
    """
    try:
        yield from answer.iter_bytes()
    except httpx.HTTPError:
        return


def _segments(path: str) -> list[str]:
    return [unquote(each) for each in path.partition("?")[0].split("/")[1:]]


def _raw_path(request: Request) -> str:
    """Return the path and the query as they were sent, still encoded."""
    return str(request.environ.get("RAW_URI") or request.environ["REQUEST_URI"])
