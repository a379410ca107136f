"""The route of callbacks' addresses, and its page. The token in an address is all that a caller needs.

GET shows a page whose button sends the event by POST, so a program that only follows links, such as a mail scanner,
sends nothing.
"""

import base64
import hashlib
from collections.abc import Callable
from html import escape
from typing import Annotated, Any
from urllib.parse import quote

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import Answer, Parameter
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.settings import settings
from signalbox.core.effects import Json
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, MethodNotAllowed, OtherBody, Problem, UnsupportedMediaType
from signalbox.core.surface.field_rules import Described
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, keys_of, not_valid
from signalbox.flows.problems import CallbackExpired, FlowEnded, NoCallback, TooManyEvents
from signalbox.flows.requests import EmptyForm
from signalbox.flows.service import messages
from signalbox.flows.shown import CallbackSentShown

FORM = "application/x-www-form-urlencoded"
"""The media type of the page's button. Its body is empty."""

STYLE = (
    ":root{color-scheme:light dark}"
    "body{font:18px/1.5 system-ui,sans-serif;max-width:32rem;margin:12vh auto;padding:0 1.5rem;overflow-wrap:anywhere}"
    "h1{font-size:1rem;font-weight:600;color:light-dark(#555,#aaa)}p{font-size:1.3rem;white-space:pre-line}"
    "form{display:flex;flex-wrap:wrap;gap:.75rem}"
    "button{font:inherit;padding:.6rem 1.4rem;border-radius:.5rem;cursor:pointer;color:inherit;"
    "border:1px solid light-dark(#999,#777);background:light-dark(#f4f4f4,#333)}"
    "button:first-child{background:#00695c;border-color:#00695c;color:#fff}"
    "button:focus-visible{outline:3px solid light-dark(#00695c,#80cbc4);outline-offset:2px}"
)
STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

PAGE = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
"""The headers of a page. The address is a secret: no other site receives it, and no cache keeps the page."""

HTML = Answer(str, "The page with the question, or what was answered.", media_type="text/html")

CHOICE = Parameter("choice", str, "The choice of a button of the page: the event's value. The form is empty.", "Yes")

CallbackToken = Annotated[
    str,
    Described(
        {
            "minLength": 1,
            "maxLength": LIMITS.flow_callback_token_max,
            "description": "The token that `flow.callback` has signed.",
        }
    ),
]

declared_callbacks = Routes("")
"""The routes of `CallbackRoutes`. Each method declares its own."""


class CallbackRoutes:
    """The handlers of the callbacks through one function."""

    def __init__(self, function: str) -> None:
        self._function = function

    @declared_callbacks.on("GET", "/callbacks/{token}", answers={200: HTML}, refuses=(NoCallback, CallbackExpired))
    def show_callback(self, ports: Ports, request: Request, token: CallbackToken) -> Response:
        """Show the page of a signed address, whose button sends the event. The page itself sends nothing."""
        if request.method == "HEAD":  # its answer would disclose that the address is in use
            raise MethodNotAllowed("HEAD is not allowed here; allowed: GET, POST.", headers={"Allow": "GET, POST"})
        return _page(request, lambda: _question(ports, self._function, token))

    @declared_callbacks.on(
        "POST",
        "/callbacks/{token}",
        query=(CHOICE,),
        body={"application/json": Any, FORM: EmptyForm},
        answers={200: HTML, 202: CallbackSentShown},
        refuses=(NoCallback, CallbackExpired, FlowEnded, TooManyEvents, OtherBody),
        example={"by": "ann"},
    )
    def send_callback(self, ports: Ports, request: Request, token: CallbackToken) -> Response:
        """Send the event of a signed address to its run, once. A repeat with the same value changes nothing.

        The body is the event's value. A form is empty: its value is `choice`, or null if the page has no choices.
        """
        if request.media_type == FORM:
            return _page(request, lambda: _confirmed(ports, request, self._function, token))
        callback = _callback(self._function, token)
        messages.post_callback(ports, callback, request.json_value())
        return Response(202, CallbackSentShown(callback.event), {"Cache-Control": "no-store"})


def add_callback_routes(routes: Routes, function: str) -> None:
    """Add the routes of the callbacks through `function`."""
    routes.add_methods(declared_callbacks, CallbackRoutes(function))


def _callback(function: str, token: str) -> Callback:
    if len(token) > LIMITS.flow_callback_token_max:
        raise not_valid()
    return Callback.from_token(token, keys_of(settings().callback_keys), function)


def _question(ports: Ports, function: str, token: str) -> Response:
    callback = _callback(function, token)
    sent = messages.sent_by_callback(ports, callback)
    question = f"<p>{escape(callback.question or f'{callback.event}?')}</p>"
    if sent:
        return _html(200, callback.event, f"{question}\n{_answered(callback, sent.value)}")
    buttons = [f'<button formaction="?choice={quote(each)}">{escape(each)}</button>' for each in callback.choices]
    form = "".join(buttons) or "<button>Confirm</button>"
    return _html(200, callback.event, f'{question}\n<form method="post">{form}</form>')


def _answered(callback: Callback, value: Json) -> str:
    """Return the sentence that says what was answered. A value that is not a choice is not shown."""
    if value in callback.choices:
        return f"<p>Answered: {escape(str(value))}</p>"
    return "<p>Thank you. The answer was received.</p>"


def _confirmed(ports: Ports, request: Request, function: str, token: str) -> Response:
    if request.header("Content-Length") not in (None, "0"):
        raise UnsupportedMediaType("A form has no fields here. Send the event's value as application/json.")
    callback, choice = _callback(function, token), request.query.get("choice")
    if callback.choices and choice not in callback.choices:
        raise BadQuery(f"`choice` must be one of {', '.join(callback.choices)}.", field="choice")
    try:
        messages.post_callback(ports, callback, choice if callback.choices else None)
    except OtherBody:  # another answer was sent before: the page shows it
        return replace(_question(ports, function, token), status=409)
    return _question(ports, function, token)


def _page(request: Request, answer: Callable[[], Response]) -> Response:
    """Return the answer as a page. A browser also receives a problem as a page."""
    try:
        return answer()
    except Problem as problem:
        if "text/html" not in (request.header("Accept") or ""):
            raise
        return _html(problem.status, problem.title, f"<p>{escape(problem.detail)}</p>")


def _html(status: int, title: str, content: str) -> Response:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    head += f"<style>{STYLE}</style>"
    body = f"<h1>{escape(title)}</h1>\n{content}"
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'
    return Response(status, text.encode(), PAGE)
