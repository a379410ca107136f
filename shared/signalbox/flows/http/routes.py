"""The routes of flows: start a run or fork one, show it and its log, watch it, send events, end it."""

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, cast

from signalbox.adapters.deployed_catalogue import is_called_by_queues
from signalbox.adapters.http import event_streams
from signalbox.adapters.http.json_bodies import parse
from signalbox.adapters.http.open_function_access import Access, AccessRules, check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import (
    FLAG,
    IDEMPOTENCY_KEY,
    PAGE_TOKEN,
    PREFIX,
    Answer,
    Parameter,
)
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.codec.annotations import codec_of
from signalbox.core.codec.json_forms import WrongValue, decode
from signalbox.core.effects import Json, name_of
from signalbox.core.kit_names import BATCH_EXPAND
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Ports
from signalbox.core.problems import (
    BadQuery,
    NotFound,
    OtherBody,
    Problem,
    Unavailable,
)
from signalbox.core.surface.field_rules import Described
from signalbox.core.surface.paging import check_prefix, wants_count
from signalbox.core.surface.request_fields import wants
from signalbox.flows import sweep
from signalbox.flows.http.open_answers import entry_for_anyone, header_for_anyone, outcome_for_anyone
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.stuck import Stuck
from signalbox.flows.machine.timeline import timeline
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import STATES, FlowHeader
from signalbox.flows.model.labels import LABEL, LABEL_NAME
from signalbox.flows.model.messages import MESSAGE_IDS, Message
from signalbox.flows.problems import (
    CannotFork,
    CannotQuery,
    CannotRetry,
    FlowEnded,
    FlowRunning,
    NoFlow,
    NoQuery,
    NotAnswered,
    NotArchived,
    NoUpdate,
    RunExists,
    TooManyEvents,
    TooManyRuns,
    TooManyUpdates,
)
from signalbox.flows.requests import (
    REPLACE,
    REPLACE_ENDED,
    EventName,
    FlowEventRequest,
    FlowName,
    FlowRetryRequest,
    FlowsActionRequest,
    FlowStartRequest,
    FlowUpdateRequest,
    ForkRequest,
    QueryName,
    ReasonRequest,
    RunId,
    UpdateId,
)
from signalbox.flows.service import lists, messages, queries, reads, retries, sends, starts, suspensions
from signalbox.flows.shown import (
    FlowAddressShown,
    FlowAnswerShown,
    FlowCountShown,
    FlowCountsShown,
    FlowEntryShown,
    FlowLogShown,
    FlowLogWithSpansShown,
    FlowPayloadShown,
    FlowQueriesShown,
    FlowRetryShown,
    FlowsBatchShown,
    FlowSpanShown,
    FlowsShown,
    FlowStatusShown,
    FlowUpdateAnsweredShown,
    FlowUpdateWaitsShown,
    FlowWatchEventShown,
    SentFlowEventShown,
    State,
)
from signalbox.flows.tasks import bulk
from signalbox.mailboxes.http import WAIT_SECONDS, WAIT_SECONDS_OF_CALL, wait_seconds
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.mailboxes.shown import outcome_members
from signalbox.payloads.http import value_response
from signalbox.payloads.model import shown
from signalbox.payloads.problems import NoPayload
from signalbox.payloads.service import opening_those_of
from signalbox.payloads.shown import PayloadShown, Sha256

RUN = "/flows/{flow}/{id}"

TIMES = ("started_after", "started_before")

LIST = (
    Parameter("state", State, refuses_empty=True),
    Parameter(
        "label",
        Annotated[str, Described({"pattern": LABEL.pattern})],
        "A label, as NAME:VALUE. It may be repeated: then runs have all of the labels, and the rarest should be first.",
        refuses_empty=True,
    ),
    Parameter(
        "started_after",
        datetime,
        "Only runs that were started at this time or later. The list is then sorted by the starts, the newest first.",
        refuses_empty=True,
    ),
    Parameter(
        "started_before",
        datetime,
        "Only runs that were started before this time, which is not before `started_after`. The list is then sorted by "
        "the starts, the newest first.",
        refuses_empty=True,
    ),
    Parameter("newest_first", FLAG, "Sort by the starts, the newest first. Such a list has no `prefix`."),
    Parameter("count", FLAG, "Return the number of the runs instead."),
    Parameter(
        "count_by",
        Annotated[str, Described({"pattern": f"^{LABEL_NAME.pattern}$"})],
        "The name of a label: return the number of the runs with each of its values instead.",
        refuses_empty=True,
    ),
    PREFIX,
    PAGE_TOKEN,
)
"""The query parameters of a list of runs."""

NOT_EMPTY = frozenset(parameter.name for parameter in LIST if parameter.refuses_empty)
"""The parameters that choose runs. An empty one is refused: as absent, it would select the runs of all tenants."""

SPANS = Parameter(
    "spans",
    FLAG,
    "Also the timeline of the commands, which a replay of the code finds out. It reads no further records.",
)

LAST_EVENT = "[0-9A-Za-z_-]{1,64}([.][0-9]{1,3})?[.][0-9]{1,10}"

LAST_EVENT_ID = Parameter(
    "last_event_id",
    Annotated[str, Described({"pattern": f"^{LAST_EVENT}$"})],
    "The same, for an `EventSource` that is created again. The header takes precedence.",
)

LAST_EVENT_ID_HEADER = Parameter(
    "Last-Event-ID",
    Annotated[str, Described({"pattern": f"^{LAST_EVENT}$"})],
    "The `id:` of the last event received. A browser sends it when it connects again.",
)

START = {"arguments": {"order": "7", "item": "tea", "count": 1, "amount": 30}}

ACCEPTED: Mapping[int, Any] = {202: FlowAddressShown}
UPDATE: Mapping[int, Any] = {200: FlowUpdateAnsweredShown, 202: FlowUpdateWaitsShown}
STARTED: Mapping[int, Any] = {200: FlowAddressShown, 201: FlowAddressShown}

NO_BATCHES = (
    "An action on all runs that match is a batch, and batches are not deployed: add `api: [batches]` to the catalogue, "
    "or act on each run."
)

declared = Routes("")
"""The routes of `FlowRoutes`. Each method declares its own."""


def add_routes(routes: Routes, local: Callable[[], Flows], rules: AccessRules) -> None:
    """Add the routes of the flows in `local`. In an open function `rules` decide each request."""
    routes.add_methods(declared, FlowRoutes(local, rules))


class FlowRoutes:
    """The handlers of one function's flows."""

    def __init__(self, local: Callable[[], Flows], rules: AccessRules) -> None:
        self._local = local
        self._rules = rules

    @property
    def definitions(self) -> Mapping[str, FlowDefinition]:
        """The flows, by name."""
        return self._local().definitions

    @declared.on(
        "GET",
        "/flows/{flow}",
        query=LIST,
        answers={200: Answer(FlowsShown | FlowCountShown | FlowCountsShown, "One page, or the number of the runs.")},
        refuses=(NotFound, TooManyRuns),
    )
    def list_flows(self, ports: Ports, request: Request, flow: FlowName) -> Response:
        """List the runs of a flow by their ids or by their starts, a hundred at a time, or count them; optionally only
        those in one state or with some labels.
        """
        self._check(Access(request, "list", flow))
        _check_not_empty(request)
        state = request.query.get("state")
        if state is not None and state not in STATES:
            raise BadQuery(f"`state` must be one of {', '.join(STATES)}.", field="state")
        after, before = (_time(request, name) for name in TIMES)
        newest_first = wants("newest_first", request.query.get("newest_first", ""))
        label, *others = [*map(_label, request.query.getlist("label"))] or [None]
        labels = tuple(each for each in others if each)
        runs = lists.Runs(flow, state, label, check_prefix(request.query), after, before, newest_first, labels)
        by_label, is_count = request.query.get("count_by"), wants_count(request.query.get("count", ""))
        if by_label is not None and not LABEL_NAME.fullmatch(by_label):
            raise BadQuery("`count_by` must be the name of a label, for instance tenant.", field="count_by")
        if (by_label or is_count) and "page_token" in request.query:
            raise BadQuery("A count has no pages: leave out `page_token`.", field="page_token")
        if by_label:
            return Response(200, FlowCountsShown(lists.count_by_label(ports, runs, by_label)))
        if is_count:
            return Response(200, FlowCountShown(lists.count_flows(ports, runs)))
        return Response(200, lists.list_flows(ports, runs, request.query.get("page_token", "")))

    @declared.on(
        "POST",
        "/flows/{flow}",
        headers=(IDEMPOTENCY_KEY,),
        body=FlowStartRequest,
        answers=STARTED,
        refuses=(NotFound, OtherBody),
        example=START,
    )
    def start_new_flow(self, ports: Ports, request: Request, flow: FlowName) -> Response:
        """Start a run of a flow under an id that is drawn. A repeated request with the same key changes nothing."""
        self._check(Access(request, "start", flow))
        key = request.caller_key
        id_ = RUN_IDS.derived(name_of("run", flow, key)) if key else ports.store.new_id()
        return self._start(ports, request, FlowAddress.checked(flow, id_))

    @declared.on(
        "POST",
        "/flows/{flow}/:act",
        headers=(IDEMPOTENCY_KEY,),
        body=FlowsActionRequest,
        answers={200: Answer(FlowCountShown, "The number of the runs, with `dry_run`."), 202: FlowsBatchShown},
        refuses=(NotFound, TooManyRuns, OtherBody),
        example={"action": "cancel", "label": "tenant:a", "reason": "the tenant has left"},
    )
    def act_on_flows(self, ports: Ports, request: Request, flow: FlowName) -> Response:
        """Cancel, resume, retry, terminate or delete all runs of a flow that match now, as a batch with its progress.

        The batch has a unit for each run, whose result is `done`, or `skipped` if the run no longer matches. If a run
        refuses the action, its unit fails. Runs that begin to match later are not included. A repeat under an
        `Idempotency-Key` returns the same batch, for as long as the batch is kept. A deployment without batches
        answers 404.
        """
        self._check(Access(request, "act_on_all", flow))
        body = FlowsActionRequest.from_request(_body(request))
        prefix = check_prefix({"prefix": body.prefix} if body.prefix else {})
        runs = lists.Runs(flow, body.state, _label(body.label), prefix)
        wanted = bulk.ActionOnRuns(body.action, runs, body.reason)
        if body.dry_run:
            return Response(200, FlowCountShown(lists.count_flows(ports, runs)))
        if not is_called_by_queues(BATCH_EXPAND):
            raise NotFound(NO_BATCHES)
        key = request.caller_key or ports.store.new_id()
        begun = bulk.act_on_all(ports, self._local().function, wanted, key)
        return Response(202, FlowsBatchShown(begun.batch, begun.count))

    @declared.on("POST", RUN, body=FlowStartRequest, answers=STARTED, refuses=(NotFound, OtherBody), example=START)
    def start_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Start a run of a flow under an id. A repeated request changes nothing."""
        self._check(Access(request, "start", flow, id))
        return self._start(ports, request, FlowAddress.chosen(flow, id))

    def _start(self, ports: Ports, request: Request, address: FlowAddress) -> Response:
        body = FlowStartRequest.from_request(_body(request))
        check_calls(request, on_complete=body.on_complete)
        local = self._local()
        options = body.on_complete, body.labels or {}, body.timeout_seconds
        started = starts.start(ports, local, local.function, address, body.arguments or {}, *options)
        return Response(201 if started.created else 200, FlowAddressShown.of_address(address))

    @declared.on("GET", RUN, query=(WAIT_SECONDS,), answers={200: FlowStatusShown}, refuses=(NoFlow,))
    def get_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Return the status of a run, or wait for its end."""
        address, seconds = self._address(Access(request, "get", flow, id)), wait_seconds(request, default=0)
        header = reads.wait(ports, address, seconds)
        stuck = reads.stuck_below(ports.store, header)
        if request.is_open:
            below = {path: header_for_anyone(each) for path, each in stuck.items()}
            return Response(200, FlowStatusShown.of(header_for_anyone(header), below))
        return Response(200, FlowStatusShown.of(header, stuck, reads.retried_steps(ports.store, header)))

    @declared.on("DELETE", RUN, answers={204: Answer(None, "It is gone.")}, refuses=(NoFlow, FlowRunning, NotArchived))
    def delete_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Remove a run that has ended, so that its id is free. A run with an archive is refused until that is written.

        A run that is stuck can also be removed.
        """
        sweep.delete(ports, self._address(Access(request, "delete", flow, id)))
        return Response(204)

    @declared.on(
        "GET",
        f"{RUN}/log",
        query=(PAGE_TOKEN, SPANS),
        answers={200: Answer(FlowLogShown | FlowLogWithSpansShown, "One page; without `next_page_token` the last.")},
        refuses=(NoFlow,),
    )
    def get_flow_log(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Return the log of a run, in order, and its pending commands."""
        address, token = self._address(Access(request, "log", flow, id)), request.query.get("page_token", "")
        wanted = wants("spans", request.query.get("spans", ""))
        header, entries = reads.get_log(ports.store, address)
        page, next_page_token = log_page(entries, token)
        if request.is_open:
            page = [*map(entry_for_anyone, page)]
        if not wanted:
            return Response(200, FlowLogShown.of(header, entries, page, next_page_token))
        with opening_those_of(ports):
            spans = self._spans(header, entries, token, details=not request.is_open)
        return Response(200, FlowLogWithSpansShown.of(header, entries, page, next_page_token, spans=spans))

    def _spans(
        self, header: FlowHeader, entries: Sequence[Message], token: str, *, details: bool
    ) -> tuple[FlowSpanShown, ...] | None:
        """Return the spans that end on a page of the log; the last page also has the open ones.

        Return None if replay fails.
        """
        local, first = self._local(), int(token or 0)
        try:
            local.check_revision(header.written_by)
            spans = timeline(local.of(header.address.name), header, entries)
        except (Stuck, Unavailable):
            return None
        last = first + LIMITS.flow_log_page
        is_last = last >= len(entries)
        return tuple(
            FlowSpanShown.of(span, details=details)
            for span in spans
            if (is_last if span.entry is None else first <= span.entry < last or (is_last and span.entry >= last))
        )

    @declared.on("GET", f"{RUN}/payloads/{{sha256}}", answers={200: FlowPayloadShown}, refuses=(NoFlow, NoPayload))
    def get_flow_payload(self, ports: Ports, request: Request, flow: FlowName, id: RunId, sha256: Sha256) -> Response:
        """Return a large value of a run, which its status or its log shows by size and hash."""
        address = self._address(Access(request, "log", flow, id))
        return value_response(reads.get_payload(ports, address, sha256), sha256, flow=flow, id=id)

    @declared.on("GET", f"{RUN}/queries", answers={200: FlowQueriesShown}, refuses=(NoFlow, CannotQuery))
    def list_flow_queries(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """List the queries that the code of a run answers now. A replay of its log finds them, and changes nothing."""
        address = self._address(Access(request, "query", flow, id))
        return Response(200, FlowQueriesShown(tuple(queries.query_names(ports, self._local(), address))))

    @declared.on(
        "GET",
        f"{RUN}/queries/{{name}}",
        query=(Parameter("arguments", str, "The arguments of the query, by name, as a JSON object.", "{}"),),
        answers={200: FlowAnswerShown},
        refuses=(NoFlow, NoQuery, CannotQuery),
    )
    def query_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId, name: QueryName) -> Response:
        """Query the code of a run. A replay of its log computes the answer, and changes nothing."""
        address = self._address(Access(request, "query", flow, id, name))
        arguments = _arguments(request.query.get("arguments", "{}"))
        answer = queries.query(ports, self._local(), address, name, arguments)
        return Response(200, FlowAnswerShown(flow, id, name, answer.result, answer.entries))

    @declared.on(
        "GET",
        f"{RUN}/events",
        query=(LAST_EVENT_ID,),
        headers=(LAST_EVENT_ID_HEADER,),
        answers={200: Answer(FlowWatchEventShown, "The events.", media_type="text/event-stream")},
        refuses=(NoFlow,),
    )
    def watch_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Watch a run as a stream of server-sent events, as a browser's `EventSource` reads them.

        `entry` is an entry of the log as `GET …/log` shows it, `progress` is the answer of `GET
        /{function}/flows/{flow}/{id}`, and `complete` is the same at the run's end, after which the stream ends: close
        the `EventSource` then. A stream ends after 240 s at the latest, and a browser connects again by itself. It
        sends the `id:` of the last event as `Last-Event-ID`, and the stream continues after it: no entry is missed, and
        none is sent twice. After `flow.continue_as_new`, the entries are those of the new log. An instance serves 8
        streams; beyond that it answers 503.
        """
        address = self._address(Access(request, "log", flow, id))
        last = _last_seen(request.header("Last-Event-ID") or request.query.get("last_event_id"))
        reads.get(ports, address)
        STREAMS.take(LIMITS.flow_watch_streams_max)
        return event_streams.response(_events(ports, address, last, is_open=request.is_open), STREAMS.leave)

    @declared.on(
        "POST",
        f"{RUN}/events/{{name}}",
        headers=(IDEMPOTENCY_KEY,),
        body=FlowEventRequest,
        answers={202: SentFlowEventShown},
        refuses=(NoFlow, FlowEnded, TooManyEvents, OtherBody, RunExists, NotArchived),
        example={"value": {"by": "ann", "approved": True}},
    )
    def send_flow_event(self, ports: Ports, request: Request, flow: FlowName, id: RunId, name: EventName) -> Response:
        """Send an event to a run. It is kept until the flow waits for it.

        With `start`, the event starts the run if there is none, in one commit.
        """
        address = self._address(Access(request, "event", flow, id, name))
        body, key = FlowEventRequest.from_request(_body(request)), MESSAGE_IDS.check_chosen(request.caller_key)
        new, event = self._starting(request, address, body), key or ports.store.new_id()
        sent = sends.send_event(ports, address, name, body.value, event, new)
        return Response(202, SentFlowEventShown(flow, id, event, sent.started, _warning(request, sent)))

    @declared.on(
        "POST",
        f"{RUN}/updates/{{name}}",
        query=(WAIT_SECONDS_OF_CALL,),
        headers=(IDEMPOTENCY_KEY,),
        body=FlowUpdateRequest,
        answers=UPDATE,
        refuses=(NoFlow, FlowEnded, TooManyUpdates, TooManyEvents, NotAnswered, OtherBody, RunExists, NotArchived),
        example={"value": {"item": "tea", "count": 2}},
    )
    def update_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId, name: EventName) -> Response:
        """Send an update to a run, and wait for the answer of its code.

        If the code refuses the update with a problem, that is the response, with its own status. A repeat under the
        same key receives the first answer. With `start`, the update starts the run if there is none, in one commit.
        """
        address, seconds = self._address(Access(request, "update", flow, id, name)), wait_seconds(request)
        body = FlowUpdateRequest.from_request(_body(request))
        key = MESSAGE_IDS.check_chosen(request.caller_key) or ports.store.new_id()
        sent = sends.send_update(ports, address, name, body.value, key, self._starting(request, address, body))
        answer = _answer(request, sends.answer_of(ports, address, key, seconds)) if seconds else None
        if answer and (problem := answer.problem()):
            raise problem
        return _update_shown(address, replace(sent, warning=_warning(request, sent)), answer)

    @declared.on(
        "GET",
        f"{RUN}/answers/{{update}}",
        query=(WAIT_SECONDS,),
        answers=UPDATE,
        refuses=(NoFlow, NoUpdate, NotAnswered),
    )
    def get_flow_update(self, ports: Ports, request: Request, flow: FlowName, id: RunId, update: UpdateId) -> Response:
        """Return the answer to an update, or wait for it. `update` is the id in the answer to its request."""
        address, seconds = self._address(Access(request, "get_update", flow, id, update)), wait_seconds(request, 0)
        answer = _answer(request, sends.answer_of(ports, address, messages.check_update_id(update), seconds))
        return _update_shown(address, sends.Sent(update), answer)

    @declared.on(
        "GET",
        f"{RUN}/answers/{{update}}/payloads/{{sha256}}",
        answers={200: PayloadShown},
        refuses=(NoFlow, NoUpdate, NotAnswered, NoPayload),
    )
    def get_flow_update_payload(
        self, ports: Ports, request: Request, flow: FlowName, id: RunId, update: UpdateId, sha256: Sha256
    ) -> Response:
        """Return the large answer to an update, which its answer shows by size and hash."""
        address, id_ = self._address(Access(request, "get_update", flow, id, update)), messages.check_update_id(update)
        return value_response(sends.answer_by_hash(ports, address, id_, sha256), sha256)

    def _starting(self, request: Request, address: FlowAddress, body: FlowEventRequest) -> sends.Starting | None:
        """Return the run that a message starts if there is none, for which the caller needs the right to start one."""
        start = body.start
        if start is None:
            return None
        removes = body.if_exists in (REPLACE, REPLACE_ENDED)
        actions = ["start", *(["delete"] if removes else []), *(["terminate"] if body.if_exists == REPLACE else [])]
        for action in actions:
            self._check(Access(request, action, address.name, address.key))
        check_calls(request, on_complete=start.on_complete)
        local, options = self._local(), (start.on_complete, start.labels or {}, start.timeout_seconds, body.if_exists)
        return sends.Starting(address.name, local, local.function, start.arguments or {}, *options)

    @declared.on(
        "POST",
        f"{RUN}/cancel",
        headers=(IDEMPOTENCY_KEY,),
        body=ReasonRequest,
        answers=ACCEPTED,
        refuses=(NoFlow,),
    )
    def cancel_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Cancel a run. `Cancelled` is raised where its code waits, so that it can clean up."""
        address, key = self._address(Access(request, "cancel", flow, id)), request.caller_key
        messages.cancel(ports, address, _reason(request), key or None)
        return Response(202, FlowAddressShown(flow, id))

    @declared.on("POST", f"{RUN}/terminate", body=ReasonRequest, answers={200: FlowAddressShown}, refuses=(NoFlow,))
    def terminate_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """End a run as cancelled without running its code, for code that ignores a cancel."""
        sweep.terminate(ports, self._address(Access(request, "terminate", flow, id)), _reason(request))
        return Response(200, FlowAddressShown(flow, id))

    @declared.on(
        "POST",
        f"{RUN}/fork",
        body=ForkRequest,
        answers=STARTED,
        refuses=(NoFlow, CannotFork, OtherBody),
        example={"id": "order-7b", "from_entry": 2},
    )
    def fork_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Start another run from the first entries of a run's log. A repeated request changes nothing.

        What the code has done up to there counts as done, and what it waits for there is scheduled for the new run. The
        run itself may have ended, and does not change. 409 if the code has ended at the last of these entries, holds a
        lock there, or does not fit them.
        """
        address = self._address(Access(request, "fork", flow, id))
        body = ForkRequest.from_request(_body(request))
        self._check(Access(request, "start", flow, body.id))
        check_calls(request, on_complete=body.on_complete)
        new = FlowAddress.chosen(flow, body.id).key
        options = body.arguments, body.on_complete, body.labels, body.timeout_seconds
        started = starts.fork(ports, self._local(), address, starts.Fork(new, body.from_entry, *options))
        return Response(201 if started.created else 200, FlowAddressShown.of_address(started.address))

    @declared.on(
        "POST",
        f"{RUN}/retry",
        headers=(IDEMPOTENCY_KEY,),
        body=FlowRetryRequest,
        answers={200: Answer(FlowRetryShown, "Of a dry run, or a repeat."), 202: FlowRetryShown},
        refuses=(NoFlow, CannotRetry, OtherBody),
        example={"from_entry": 2, "reason": "the price of cake was missing"},
    )
    def retry_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Let a run that has failed, or is stuck, continue under its id, with the code that is deployed now.

        The failed commands of its last `await` run again; or the run continues after `from_entry` entries of its log.
        Its parent still waits for it. Effects of the dropped entries are not undone: `dry_run` lists them. A stuck run
        needs no retry, since fixed code continues it; a retry of it needs `from_entry`. A repeat under the same key
        changes nothing. 409 has a `reason`, one word.
        """
        address = self._address(Access(request, "retry", flow, id))
        body = FlowRetryRequest.from_request(_body(request))
        key = retries.RETRY_KEYS.check_chosen(request.caller_key) or ports.store.new_id()
        options = retries.RetryOptions(body.from_entry, body.family, body.timeout_seconds, body.reason)
        done = retries.retry(
            ports,
            self._local(),
            address,
            key,
            options,
            dry_run=body.dry_run,
            check_ancestor=lambda run: self._rules.check(Access(request, "retry", run.name, run.key)),
        )
        return Response(200 if body.dry_run or done.repeated else 202, FlowRetryShown.of(done))

    @declared.on(
        "POST", f"{RUN}/suspend", body=ReasonRequest, answers={200: FlowAddressShown}, refuses=(NoFlow, FlowEnded)
    )
    def suspend_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Let a run take no further step until it is resumed. Events and outcomes are kept."""
        suspensions.suspend(ports, self._address(Access(request, "suspend", flow, id)), _reason(request))
        return Response(200, FlowAddressShown(flow, id))

    @declared.on("POST", f"{RUN}/resume", answers=ACCEPTED, refuses=(NoFlow,))
    def resume_flow(self, ports: Ports, request: Request, flow: FlowName, id: RunId) -> Response:
        """Let a suspended run continue, or replay a stuck one now instead of in a few minutes."""
        suspensions.resume(ports, self._address(Access(request, "resume", flow, id)))
        return Response(202, FlowAddressShown(flow, id))

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

SEEN = re.compile(r"([0-9A-Za-z_-]{1,64}(?:\.[0-9]{1,3})?)\.([0-9]{1,10})")
"""The id of an event: the id of the run's execution, and the number of its log entries that were sent."""


def _last_seen(id: str | None) -> tuple[str, int]:
    """Return the execution and the number of entries in an event's id. Raises `BadQuery`."""
    found = SEEN.fullmatch(id or "none.0")
    if found is None:
        raise BadQuery("`last_event_id` must be the `id:` of an event of this run.", field="last_event_id")
    return found[1], int(found[2])


def _events(ports: Ports, address: FlowAddress, last: tuple[str, int], *, is_open: bool) -> Iterator[str]:
    """Yield the text of the events, until the run or the stream ends. While there are no events, yield an id alone.

    Each watcher reads the run's header once a second, and older parts of its log only to catch up.
    """
    yield event_streams.RETRY
    (execution, sent), shown, quiet_until = last, None, 0.0
    ends_at = time.monotonic() + LIMITS.flow_watch_seconds
    while time.monotonic() < ends_at:
        try:
            header = reads.get(ports, address)
            sent = min(sent, header.log_length) if header.execution_id == execution else 0
            entries = reads.entries_after(ports.store, header, sent)
        except Unavailable as error:
            ports.log.info("unavailable", reason=str(error))
            return
        except Problem:  # it was deleted
            return
        execution = header.execution_id
        for entry in entries:
            sent += 1
            shown_entry = entry_for_anyone(entry) if is_open else entry
            yield event_streams.event("entry", FlowEntryShown.of(shown_entry), f"{execution}.{sent}")
        status = FlowStatusShown.of(header_for_anyone(header) if is_open else header)
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


def _warning(request: Request, sent: sends.Sent) -> str:
    """Return the warning of a message. It names what the code waits for, so an open function shows none."""
    return "" if request.is_open else sent.warning


def _answer(request: Request, answer: CallOutcome | None) -> CallOutcome | None:
    """Return the answer to an update as the caller may see it."""
    return outcome_for_anyone(answer) if answer and request.is_open else answer


def _update_shown(address: FlowAddress, sent: sends.Sent, answer: CallOutcome | None) -> Response:
    run = address.name, address.key, sent.id
    if answer is None:
        return Response(202, FlowUpdateWaitsShown(*run, ready=False, started=sent.started, warning=sent.warning))
    return Response(
        200, FlowUpdateAnsweredShown(*run, ready=True, **outcome_members(replace(answer, result=shown(answer.result))))
    )


def _body(request: Request) -> dict[str, Json]:
    return request.json_object_of_values()


def _check_not_empty(request: Request) -> None:
    """Raise `BadQuery` if a parameter that chooses runs is empty."""
    for name, value in request.query_pairs:
        if not value and name in NOT_EMPTY:
            raise BadQuery(f"`{name}` is empty: give it a value, or leave it out.", field=name)


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
    return ReasonRequest.from_request(_body(request)).reason


def log_page(entries: Sequence[Message], token: str) -> tuple[Sequence[Message], str]:
    """Return the entries of one page, after the entries that `token` counts, and the next token. Raises `BadQuery`."""
    if token and not token.isdecimal():
        raise BadQuery("`page_token` must be the `next_page_token` of the page before.", field="page_token")
    first = int(token or 0)
    page = entries[first : first + LIMITS.flow_log_page]
    last = first + len(page)
    return page, str(last) if last < len(entries) else ""
