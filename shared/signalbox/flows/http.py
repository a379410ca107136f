"""The routes and renderings of flows: start a run or fork one, show it and its log, watch it, send events, end it.

A function with callbacks also has the route of their addresses, whose token is all that a caller needs. GET shows a
page whose button sends the event by POST, so a program that only follows links, such as a mail scanner, sends nothing.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any, cast

from signalbox.adapters.http import event_streams
from signalbox.adapters.http.json_bodies import parse
from signalbox.adapters.http.open_function_access import Access, AccessRules, check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.settings import settings
from signalbox.core.calls import Call
from signalbox.core.codec.annotations import codec_of
from signalbox.core.codec.json_forms import WrongValue, decode
from signalbox.core.effects import name_of
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import check_prefix, wants_count
from signalbox.core.ports import Ports
from signalbox.core.problems import BadQuery, MethodNotAllowed, NotFound, Problem, Unavailable, UnsupportedMediaType
from signalbox.core.request_fields import RequestFields, wants
from signalbox.core.times import rfc3339
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, keys_of, not_valid
from signalbox.flows.machine.deadlines import checked_timeout
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.timeline import timeline
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import STATES, FlowHeader, Origin
from signalbox.flows.model.labels import checked_labels
from signalbox.flows.model.log import shown_entry
from signalbox.flows.model.messages import Message
from signalbox.flows.problems import BadFlow
from signalbox.flows.service import lists, messages, queries, reads, starts, suspensions
from signalbox.flows.tasks import bulk
from signalbox.mailboxes.http import wait_seconds

RUN = "/flows/{flow}/{id}"

TIMES = ("started_after", "started_before")
LIST = ("state", "label", "prefix", *TIMES, "newest_first", "count", "page_token")
"""The query parameters of a list of runs."""


def add_routes(routes: Routes, local: Callable[[], Flows], rules: AccessRules) -> None:
    """Add the routes of the flows in `local`. In an open function `rules` decide each request."""
    handlers = FlowRoutes(local, rules)
    routes.on("GET", "/flows/{flow}", query=LIST)(handlers.list)
    routes.on("POST", "/flows/{flow}")(handlers.start_new)
    routes.on("POST", "/flows/{flow}/:act")(handlers.act_on_all)
    routes.on("POST", RUN)(handlers.start)
    routes.on("GET", RUN, query=("wait_seconds",))(handlers.get)
    routes.on("POST", f"{RUN}/fork")(handlers.fork)
    routes.on("DELETE", RUN)(handlers.delete)
    routes.on("GET", f"{RUN}/log", query=("page_token", "spans"))(handlers.log)
    routes.on("GET", f"{RUN}/queries")(handlers.queries)
    routes.on("GET", f"{RUN}/queries/{{name}}", query=("arguments",))(handlers.query)
    routes.on("GET", f"{RUN}/events", query=("last_event_id",))(handlers.watch)
    routes.on("POST", f"{RUN}/events/{{name}}")(handlers.event)
    routes.on("POST", f"{RUN}/cancel")(handlers.cancel)
    routes.on("POST", f"{RUN}/terminate")(handlers.terminate)
    routes.on("POST", f"{RUN}/suspend")(handlers.suspend)
    routes.on("POST", f"{RUN}/resume")(handlers.resume)


class FlowRoutes:
    """The handlers of one function's flows."""

    def __init__(self, local: Callable[[], Flows], rules: AccessRules) -> None:
        self._local = local
        self._rules = rules

    def start(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Start a run: 201; 200 for a repeat, 409 if the id was used with other arguments."""
        return self._start(ports, request, self._address(Access(request, "start", flow, id)))

    def start_new(self, ports: Ports, request: Request, flow: str) -> Response:
        """Start a run under a drawn id, which the Idempotency-Key determines, if there is one. Otherwise as `start`."""
        self._check(Access(request, "start", flow))
        key = request.header("Idempotency-Key")
        id_ = name_of("run", flow, key) if key else ports.store.new_id()
        return self._start(ports, request, FlowAddress.checked(flow, id_))

    def _start(self, ports: Ports, request: Request, address: FlowAddress) -> Response:
        fields = _only(request, "arguments", "on_complete", "labels", "timeout_seconds")
        arguments, follow = fields.value("arguments", {}), fields.value("on_complete", None)
        if not isinstance(arguments, dict):
            raise BadFlow("`arguments` must be an object.", field="arguments")
        on_complete = None if follow is None else Call.from_request(follow, "on_complete")
        check_calls(request, on_complete=on_complete)
        local = self._local()
        labels = checked_labels(fields.value("labels", {}))
        seconds = checked_timeout(fields.value("timeout_seconds", None))
        started = starts.start(ports, local, local.function, address, arguments, on_complete, labels, seconds)
        return Response(201 if started.created else 200, address.to_json())

    def fork(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Start a run from a prefix of another run's log: 201; 200 for a repeat, 409 if the id is in use."""
        address = self._address(Access(request, "fork", flow, id))
        fields = _only(request, "id", "from_entry", "arguments", "on_complete", "labels", "timeout_seconds")
        follow, arguments = fields.value("on_complete", None), fields.value("arguments", None)
        if not isinstance(arguments, dict | None):
            raise BadFlow("`arguments` must be an object.", field="arguments")
        on_complete = None if follow is None else Call.from_request(follow, "on_complete")
        check_calls(request, on_complete=on_complete)
        labels, seconds = fields.value("labels", None), checked_timeout(fields.value("timeout_seconds", None))
        labels = None if labels is None else checked_labels(labels)
        new = FlowAddress.checked(flow, fields.text("id")).key
        wanted = starts.Fork(new, fields.value("from_entry"), arguments, on_complete, labels, seconds)
        started = starts.fork(ports, self._local(), address, wanted)
        return Response(201 if started.created else 200, started.address.to_json())

    def get(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Return the status of a run, now or once it has ended."""
        address, seconds = self._address(Access(request, "get", flow, id)), wait_seconds(request, default=0)
        header = reads.wait(ports, address, seconds)
        stuck = reads.stuck_below(ports.store, header)
        return Response(200, shown_status(header, stuck, traces=not request.is_open))

    def log(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Return a page of the log of a run; with `spans`, also its timeline, which a replay of the code finds out."""
        address, token = self._address(Access(request, "log", flow, id)), request.query.get("page_token", "")
        wanted = wants("spans", request.query.get("spans", ""))
        header, entries = reads.get_log(ports.store, address)
        page = shown_log_page(header, entries, token)
        if not wanted:
            return Response(200, page)
        return Response(200, page | {"spans": self._spans(header, entries, token, details=not request.is_open)})

    def _spans(
        self, header: FlowHeader, entries: Sequence[Message], token: str, *, details: bool
    ) -> Sequence[Mapping[str, Any]] | None:
        """Return the spans that end on a page of the log, on the last page also the open ones; None if replay fails."""
        local, first = self._local(), int(token or 0)
        try:
            local.check_revision(header.written_by)
            spans = timeline(local.of(header.address.name), header, entries)
        except (Stuck, Unavailable):
            return None
        last = first + LIMITS.flow_log_page
        is_last = last >= len(entries)
        return [
            span.shown(details=details)
            for span in spans
            if (is_last if span.entry is None else first <= span.entry < last or (is_last and span.entry >= last))
        ]

    def queries(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Return the names of the queries that the code of a run answers."""
        address = self._address(Access(request, "query", flow, id))
        return Response(200, {"queries": queries.query_names(ports, self._local(), address)})

    def query(self, ports: Ports, request: Request, flow: str, id: str, name: str) -> Response:
        """Return what the code of a run answers, and the number of the log's entries that the answer is from."""
        address = self._address(Access(request, "query", flow, id, name))
        arguments = _arguments(request.query.get("arguments", "{}"))
        answer = queries.query(ports, self._local(), address, name, arguments)
        return Response(200, {**address.to_json(), "query": name, "result": answer.result, "entries": answer.entries})

    def watch(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Return the stream of a run's entries and status. Raises `Unavailable` if the process has too many."""
        address = self._address(Access(request, "log", flow, id))
        last = _last_seen(request.header("Last-Event-ID") or request.query.get("last_event_id"))
        reads.get(ports, address)
        STREAMS.take(LIMITS.flow_watch_streams_max)
        return event_streams.response(_events(ports, address, last, traces=not request.is_open), STREAMS.leave)

    def event(self, ports: Ports, request: Request, flow: str, id: str, name: str) -> Response:
        address, fields = self._address(Access(request, "event", flow, id, name)), _only(request, "value")
        key = request.header("Idempotency-Key") or ports.store.new_id()
        messages.post_event(ports, address, name, fields.value("value", None), key)
        return Response(202, {"flow": flow, "id": id, "event": key})

    def cancel(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        address, key = self._address(Access(request, "cancel", flow, id)), request.header("Idempotency-Key")
        messages.cancel(ports, address, _reason(request), key or None)
        return Response(202, {"flow": flow, "id": id})

    def terminate(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """End a run without running its code."""
        sweep.terminate(ports, self._address(Access(request, "terminate", flow, id)), _reason(request))
        return Response(200, {"flow": flow, "id": id})

    def suspend(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Let a run take no further step until it is resumed."""
        suspensions.suspend(ports, self._address(Access(request, "suspend", flow, id)), _reason(request))
        return Response(200, {"flow": flow, "id": id})

    def resume(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Wake a run, so that a suspended one continues and a stuck one is replayed."""
        suspensions.resume(ports, self._address(Access(request, "resume", flow, id)))
        return Response(202, {"flow": flow, "id": id})

    def delete(self, ports: Ports, request: Request, flow: str, id: str) -> Response:
        """Delete a run that has ended or is stuck."""
        sweep.delete(ports, self._address(Access(request, "delete", flow, id)))
        return Response(204)

    def list(self, ports: Ports, request: Request, flow: str) -> Response:
        """List runs by their ids or by their starts, or count them."""
        self._check(Access(request, "list", flow))
        state = request.query.get("state")
        if state is not None and state not in STATES:
            raise BadQuery(f"`state` must be one of {', '.join(STATES)}.", field="state")
        after, before = (_time(request, name) for name in TIMES)
        newest_first = wants("newest_first", request.query.get("newest_first", ""))
        label = _label(request.query.get("label"))
        runs = lists.Runs(flow, state, label, check_prefix(request.query), after, before, newest_first)
        if wants_count(request.query.get("count", "")):
            if "page_token" in request.query:
                raise BadQuery("A count has no pages: leave out `page_token`.", field="page_token")
            return Response(200, {"count": lists.count_flows(ports, runs)})
        page = lists.list_flows(ports, runs, request.query.get("page_token", ""))
        return Response(200, {"flows": page.flows} | _next_page(page.next_page_token))

    def act_on_all(self, ports: Ports, request: Request, flow: str) -> Response:
        """Act on all runs that match, as a batch: 202 with its id. With `dry_run`, return their number: 200."""
        self._check(Access(request, "act_on_all", flow))
        fields = _only(request, "action", "state", "label", "prefix", "reason", "dry_run")
        prefix = check_prefix({"prefix": fields.text("prefix")} if fields.text("prefix", "") else {})
        runs = lists.Runs(flow, fields.text("state", None), _label(fields.text("label", None)), prefix)
        wanted = bulk.ActionOnRuns(fields.text("action"), runs, fields.text("reason", ""))
        if fields.flag("dry_run"):
            return Response(200, {"count": lists.count_flows(ports, runs)})
        key = request.header("Idempotency-Key") or ports.store.new_id()
        begun = bulk.act_on_all(ports, self._local().function, wanted, key)
        return Response(202, {"batch": begun.batch, "count": begun.count})

    def _address(self, access: Access) -> FlowAddress:
        self._check(access)
        return FlowAddress.checked(access.name, access.id)

    def _check(self, access: Access) -> None:
        self._rules.check(access)
        known = self._local().definitions
        if access.name not in known:
            raise NotFound(f"This function has no flow {access.name!r}. Its flows: {', '.join(sorted(known))}.")


# --- watching ---

STREAMS = event_streams.Places()

SEEN = re.compile(r"([0-9A-Za-z_-]{1,64})\.([0-9]{1,10})")
"""The id of an event: the id of the run's execution, and the number of its log entries that were sent."""


def _last_seen(id: str | None) -> tuple[str, int]:
    """Return the execution and the number of entries in an event's id. Raises `BadQuery`."""
    found = SEEN.fullmatch(id or "none.0")
    if found is None:
        raise BadQuery("`last_event_id` must be the `id:` of an event of this run.", field="last_event_id")
    return found[1], int(found[2])


def _events(ports: Ports, address: FlowAddress, last: tuple[str, int], *, traces: bool) -> Iterator[str]:
    """Yield the text of the events, until the run or the stream ends. In quiet times, yield an id alone.

    Each watcher reads the run's header once a second, and older parts of its log only to catch up.
    """
    yield event_streams.RETRY
    (execution, sent), shown, quiet_until = last, None, 0.0
    ends_at = time.monotonic() + LIMITS.flow_watch_seconds
    while time.monotonic() < ends_at:
        try:
            header = reads.get(ports, address)
            sent = min(sent, header.log.length) if header.execution_id == execution else 0
            entries = reads.entries_after(ports.store, header, sent)
        except Unavailable as error:
            ports.log.info("unavailable", reason=str(error))
            return
        except Problem:  # it was deleted
            return
        execution = header.execution_id
        for entry in entries:
            sent += 1
            yield event_streams.event("entry", shown_entry(entry), f"{execution}.{sent}")
        status = shown_status(header, traces=traces)
        if header.end:
            yield event_streams.event("complete", status, f"{execution}.{sent}")
            return
        if status != shown:
            yield event_streams.event("progress", status, f"{execution}.{sent}")
        elif time.monotonic() >= quiet_until:
            yield event_streams.quiet(f"{execution}.{sent}")
        if status != shown or entries or time.monotonic() >= quiet_until:
            quiet_until = time.monotonic() + LIMITS.flow_watch_quiet_seconds
        shown = status
        time.sleep(LIMITS.flow_watch_pause_seconds)


# --- callbacks ---

FORM = "application/x-www-form-urlencoded"
"""The media type of the page's button. Its body is empty."""

PAGE = {
    "Content-Type": "text/html; charset=utf-8",
    "Content-Security-Policy": "default-src 'none'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
"""The headers of a page. The address is a secret: no other site receives it, and no cache keeps the page."""


def add_callback_routes(routes: Routes, function: str) -> None:
    """Add the routes of the callbacks through `function`."""

    def get(ports: Ports, request: Request, token: str) -> Response:
        """Show the question. Refuse HEAD, which would say that the address is in use."""
        if request.method == "HEAD":
            raise MethodNotAllowed("HEAD is not allowed here; allowed: GET, POST.", headers={"Allow": "GET, POST"})
        return _page(request, lambda: _question(ports, function, token))

    def post(ports: Ports, request: Request, token: str) -> Response:
        """Send the event: its value is the JSON body, or null if the page's button sends it."""
        if request.media_type == FORM:
            return _page(request, lambda: _confirmed(ports, request, function, token))
        callback = _callback(function, token)
        messages.post_callback(ports, callback, request.json(CORE_LIMITS.task_bytes_max))
        return Response(202, {"event": callback.event}, {"Cache-Control": "no-store"})

    routes.on("GET", "/callbacks/{token}")(get)
    routes.on("POST", "/callbacks/{token}")(post)


def _callback(function: str, token: str) -> Callback:
    if len(token) > LIMITS.flow_callback_token_max:
        raise not_valid()
    return Callback.from_token(token, keys_of(settings().callback_keys), function)


def _question(ports: Ports, function: str, token: str) -> Response:
    callback = _callback(function, token)
    messages.get_callback(ports, callback)
    question = callback.question or f"{callback.event}?"
    button = '<form method="post"><button type="submit">Confirm</button></form>'
    return _html(200, callback.event, f"<p>{escape(question)}</p>\n{button}")


def _confirmed(ports: Ports, request: Request, function: str, token: str) -> Response:
    if request.header("Content-Length") not in (None, "0"):
        raise UnsupportedMediaType("A form has no fields here. Send the event's value as application/json.")
    callback = _callback(function, token)
    messages.post_callback(ports, callback, None)
    return _html(200, callback.event, "<p>Thank you. Your confirmation was received.</p>")


def _page(request: Request, answer: Callable[[], Response]) -> Response:
    """Return a page. A browser receives a problem as a page, too."""
    try:
        return answer()
    except Problem as problem:
        if "text/html" not in (request.header("Accept") or ""):
            raise
        return _html(problem.status, problem.title, f"<p>{escape(problem.detail)}</p>")


def _html(status: int, title: str, content: str) -> Response:
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
    body = f"<h1>{escape(title)}</h1>\n{content}"
    text = f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'
    return Response(status, text.encode(), PAGE)


def _only(request: Request, *names: str) -> RequestFields:
    """Return the members of the body. Raises `BadFlow` for any other."""
    return RequestFields(request.json_object(CORE_LIMITS.task_bytes_max), BadFlow).only(*names)


def _label(text: str | None) -> tuple[str, str] | None:
    if text is None:
        return None
    name, separator, value = text.partition(":")
    if not separator:
        raise BadQuery("`label` must be NAME:VALUE, for instance tenant:a.", field="label")
    return name, value


def _time(request: Request, name: str) -> datetime | None:
    """Return a time among the query parameters, or None. Raises `BadQuery`."""
    text = request.query.get(name)
    if text is None:
        return None
    try:
        return cast("datetime", decode(codec_of(datetime, name), text, name))
    except WrongValue as error:
        raise BadQuery(f"{error}.", field=name) from error


def _arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a query. Raises `BadQuery`."""
    try:
        arguments = parse(text.encode())
    except Problem:
        arguments = None
    if not isinstance(arguments, dict):
        raise BadQuery('`arguments` must be a JSON object, for instance {"item": "tea"}.', field="arguments")
    return arguments


def _reason(request: Request) -> str:
    return str(_only(request, "reason").text("reason", ""))


def _next_page(token: str) -> dict[str, str]:
    return {"next_page_token": token} if token else {}


# --- renderings ---

NONE: Mapping[str, FlowHeader] = {}


def shown_status(header: FlowHeader, stuck: Mapping[str, FlowHeader] = NONE, *, traces: bool = True) -> dict[str, Any]:
    """Return the status of a run. `stuck` are stuck sub-flows, by the paths of the waits that they hold up.

    `traces`: with stack traces, which have lines of the code. An open function shows none.
    """
    outcome = header.end.outcome.to_json() | {"ended_at": header.end.at} if header.end else {}
    return {
        **header.address.to_json(),
        "state": header.state,
        **outcome,
        "waiting_for": shown_waits(header, stuck),
        **({"unawaited": {"events": header.kept, "names": list(header.kept_names)}} if header.kept else {}),
        "log_length": header.log.length,
        "generation": header.generation,
        "progress": header.progress,
        **({"labels": dict(header.labels)} if header.labels else {}),
        **({"deadline_at": header.deadline_at} if header.deadline_at else {}),
        **({"problem": _problem(header, traces=traces)} if header.stuck else {}),
        **({"suspended": dict(header.suspended)} if header.suspended else {}),
        **({"trace": header.trace} if header.trace and traces else {}),
        **({"forked_from": _origin(header.origins[-1])} if header.origins else {}),
    }


def _origin(origin: Origin) -> dict[str, Any]:
    return {"id": origin.id, "entries": origin.entries}


def shown_waits(header: FlowHeader, stuck: Mapping[str, FlowHeader] = NONE) -> list[dict[str, Any]]:
    """Return the pending commands of a run, by path."""
    return [
        {"path": path, "command": wait.signature, "attempt": wait.attempt, "asked_at": wait.scheduled_at or None}
        | ({"last_error": wait.last_error} if wait.last_error else {})
        | ({"stuck": {**stuck[path].address.to_json(), **_problem(stuck[path], traces=False)}} if path in stuck else {})
        for path, wait in sorted(header.pending.items())
    ]


def _problem(header: FlowHeader, *, traces: bool) -> dict[str, str]:
    """Return why a run is stuck."""
    return {name: value for name, value in (header.stuck or {}).items() if traces or name != "trace"}


def shown_log(header: FlowHeader, entries: Sequence[Message], page: Sequence[Message]) -> dict[str, Any]:
    """Return some or all entries of a log, with the values of the header that a replay needs."""
    return {
        **header.address.to_json(),
        "execution_id": header.execution_id,
        "arguments": dict(header.arguments),
        "begun_at": rfc3339(header.start_at) if header.start_at else None,
        "patches": dict(header.patches),
        **({"origins": [origin.to_json() for origin in header.origins]} if header.origins else {}),
        **({"parent": parent.to_json()} if (parent := header.context.parent) else {}),
        "state": header.state,
        "waiting_for": {path: wait.signature for path, wait in header.pending.items()},
        "log_length": len(entries),
        "entries": [shown_entry(entry) for entry in page],
    }


def shown_log_page(header: FlowHeader, entries: Sequence[Message], token: str) -> dict[str, Any]:
    """Return the page of a log after the entries that `token` counts. Raises `BadQuery`."""
    if token and not token.isdecimal():
        raise BadQuery("`page_token` must be the `next_page_token` of the page before.", field="page_token")
    first = int(token or 0)
    page = entries[first : first + LIMITS.flow_log_page]
    last = first + len(page)
    return shown_log(header, entries, page) | _next_page(str(last) if last < len(entries) else "")
