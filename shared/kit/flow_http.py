"""The routes of a function's flows: start a run, look at it and at its log, send events, cancel, resume, remove."""

from collections.abc import Callable

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadFlow, BadQuery, NotFound
from shared.core.rules.request_fields import RequestFields
from shared.flows.operations import flows as operations
from shared.flows.operations import posts, removal, starts
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import Flows
from shared.kit import flow_logs
from shared.kit.object_http import wait_seconds

RUN = "/flows/{flow}/{id}"
STATES = ("running", "stuck", "completed", "failed", "cancelled")


def add_routes(routes: Routes, local: Callable[[], Flows]) -> None:
    """Add the routes of the flows that `local` has."""
    handlers = FlowRoutes(local)
    routes.on("GET", "/flows/{flow}", query=("state", "page_token"))(handlers.list)
    routes.on("POST", RUN)(handlers.start)
    routes.on("GET", RUN, query=("wait_seconds",))(handlers.get)
    routes.on("DELETE", RUN)(handlers.delete)
    routes.on("GET", f"{RUN}/log", query=("page_token",))(handlers.log)
    routes.on("POST", f"{RUN}/events/{{name}}")(handlers.event)
    routes.on("POST", f"{RUN}/cancel")(handlers.cancel)
    routes.on("POST", f"{RUN}/resume")(handlers.resume)


class FlowRoutes:
    """Handlers of one function's flows."""

    def __init__(self, local: Callable[[], Flows]) -> None:
        self._local = local

    def start(self, request: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Start a run: 201; 200 if it was started so before, 409 if with other arguments."""
        address, fields = self._run(flow, id), _only(request, "arguments", "on_complete")
        arguments, follow = fields.get("arguments", {}), fields.get("on_complete")
        if not isinstance(arguments, dict):
            raise BadFlow("`arguments` is an object.", field="arguments")
        on_complete = None if follow is None else deployed(Call.from_request(follow, "on_complete"), "on_complete")
        local = self._local()
        begun = starts.start(runtime.ports(), local, local.function, address, arguments, on_complete)
        return Response(201 if begun.created else 200, {"flow": flow, "id": id})

    def get(self, request: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Look at a run, or wait for its end."""
        address, seconds = self._run(flow, id), wait_seconds(request, default=0)
        return Response(200, operations.wait(runtime.ports(), address, seconds).to_json())

    def log(self, request: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Return a page of what a run was told."""
        address, token = self._run(flow, id), request.query.get("page_token", "")
        return Response(200, flow_logs.log_page(runtime.ports().store, address, token))

    def event(self, request: Request, flow: str, id: str, name: str) -> Response:  # noqa: A002
        """Send an event."""
        address, fields = self._run(flow, id), _only(request, "value")
        key = request.header("Idempotency-Key") or runtime.ports().store.new_id()
        posts.post_event(runtime.ports(), address, name, fields.get("value"), key)
        return Response(202, {"flow": flow, "id": id, "event": key})

    def cancel(self, request: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Cancel a run."""
        address, reason = self._run(flow, id), _only(request, "reason").get("reason", "")
        if not isinstance(reason, str):
            raise BadFlow("`reason` is a text.", field="reason")
        posts.cancel(runtime.ports(), address, reason)
        return Response(202, {"flow": flow, "id": id})

    def resume(self, _: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Wake a stuck run, so that it tries again."""
        posts.resume(runtime.ports(), self._run(flow, id))
        return Response(202, {"flow": flow, "id": id})

    def delete(self, _: Request, flow: str, id: str) -> Response:  # noqa: A002
        """Remove a run that has ended."""
        removal.delete(runtime.ports(), self._run(flow, id))
        return Response(204)

    def list(self, request: Request, flow: str) -> Response:
        """List runs by their ids."""
        self._check(flow)
        state = request.query.get("state")
        if state is not None and state not in STATES:
            raise BadQuery(f"`state` is one of {', '.join(STATES)}.", field="state")
        page = operations.list_flows(runtime.ports(), flow, state, request.query.get("page_token", ""))
        return Response(200, {"flows": page.flows} | _more(page.next_page_token))

    def _run(self, flow: str, id_: str) -> FlowAddress:
        self._check(flow)
        return FlowAddress.checked(flow, id_)

    def _check(self, flow: str) -> None:
        known = self._local().definitions
        if flow not in known:
            raise NotFound(f"This function has no flow {flow!r}. Its flows: {', '.join(sorted(known))}.")


def _only(request: Request, *names: str) -> dict[str, object]:
    """Return the body's fields. Raises `BadFlow` for any other."""
    return dict(RequestFields(request.json_object(LIMITS.task_bytes_max), BadFlow).only(*names).body)


def _more(token: str | None) -> dict[str, str]:
    return {"next_page_token": token} if token else {}
