"""The REST surface of the API, version 2, as Google's discovery document has it, and the page of the emulator.

    POST   /v2/projects/P/locations/L/queues                create a queue          GET    list
    GET    /v2/projects/P/locations/L/queues/Q              a queue                 PATCH, DELETE
    POST   /v2/projects/P/locations/L/queues/Q:pause        and :resume, :purge
    POST   /v2/projects/P/locations/L/queues/Q/tasks        create a task           GET    list
    GET    /v2/projects/P/locations/L/queues/Q/tasks/T      a task                  DELETE
    POST   /v2/projects/P/locations/L/queues/Q/tasks/T:run  deliver it now

    GET    /                                                a page with the queues and their tasks
    GET    /oauth2/v3/certs                                 the keys of the tasks' tokens, as Google publishes its own
    GET    /emulator/places                                 the projects and locations that have queues
    GET    /emulator/clock                                  the time of the emulator
    POST   /emulator/clock {"advance_seconds": 3600}        move it forward: what becomes due is delivered

`/v2` may be left out, as Firebase's SDKs do. Their tasks have no address: that of the queue's target is used.
"""

import json
import logging
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from aiohttp import web
from aiohttp.typedefs import Handler
from google.protobuf import json_format

from signalbox_tools.local.cloud_tasks.api_errors import RpcError, invalid_argument, not_stored, unimplemented
from signalbox_tools.local.cloud_tasks.grpc_server import Methods
from signalbox_tools.local.cloud_tasks.movable_clock import MovableClock
from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.host_names import names_this_machine

log = logging.getLogger(__name__)

PAGE = Path(__file__).with_name("page.html")
BODY_BYTES_MAX = 10 * 1024 * 1024

PLACE = r"projects/[^/]+/locations/[^/]+"
CALL = re.compile(
    rf"(?:v2/)?(?P<name>(?P<place>{PLACE})/queues(?:/(?P<queue>[^/:]+)(?P<tasks>/tasks(?:/(?P<task>[^/:]+))?)?)?)"
    r"(?::(?P<verb>\w+))?"
)

BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")

STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.FAILED_PRECONDITION: 400,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.NOT_FOUND: 404,
    grpc.StatusCode.ALREADY_EXISTS: 409,
    grpc.StatusCode.UNIMPLEMENTED: 501,
    grpc.StatusCode.UNAVAILABLE: 503,
}
"""The HTTP status of each error, as `google.rpc.Code` maps them."""


@dataclass(frozen=True, slots=True)
class Call:
    """A method of the API with the fields of its request, in the names of JSON."""

    method: str
    fields: Mapping[str, Any]


def call_of(http_method: str, path: str, query: Mapping[str, str], body: Any) -> Call:
    """Return the method that a request calls. Raises `RpcError` if there is none."""
    found = CALL.fullmatch(path.lstrip("/"))
    if found is None:
        raise unimplemented(f"{http_method} /{path.lstrip('/')}")
    name, kind = found["name"], (bool(found["queue"]), bool(found["tasks"]), bool(found["task"]))
    match http_method, kind, found["verb"]:
        case "POST", (False, _, _), None:
            return Call("CreateQueue", {"parent": found["place"], "queue": body})
        case "GET", (False, _, _), None:
            return Call("ListQueues", {"parent": found["place"], **_page(query)})
        case "GET", (True, False, _), None:
            return Call("GetQueue", {"name": name})
        case "PATCH", (True, False, _), None:
            mask = {"updateMask": _camel_case(query["updateMask"])} if "updateMask" in query else {}
            return Call("UpdateQueue", {"queue": {**body, "name": name}, **mask})
        case "DELETE", (True, False, _), None:
            return Call("DeleteQueue", {"name": name})
        case "POST", (True, False, _), "pause" | "resume" | "purge" as verb:
            return Call(f"{verb.title()}Queue", {"name": name})
        case "POST", (True, True, False), None:
            return Call("CreateTask", {**body, "parent": name.removesuffix("/tasks")})
        case "GET", (True, True, False), None:
            return Call("ListTasks", {"parent": name.removesuffix("/tasks"), **_page(query)})
        case "GET", (True, True, True), None:
            view = {"responseView": query["responseView"]} if "responseView" in query else {}
            return Call("GetTask", {"name": name, **view})
        case "DELETE", (True, True, True), None:
            return Call("DeleteTask", {"name": name})
        case "POST", (True, True, True), "run":
            return Call("RunTask", {**body, "name": name})
    raise unimplemented(f"{http_method} /{path.lstrip('/')}")


def _camel_case(mask: str) -> str:
    """Return a mask as JSON writes it. Google also takes the names of protobuf, which its Node client sends."""
    return re.sub(r"_([a-z0-9])", lambda found: found[1].upper(), mask)


def _body_text(fields: Mapping[str, Any]) -> str:
    """Return the body of the task in a request that has been parsed; the parser leaves out what is not base64."""
    task = fields.get("task") or {}
    request = task.get("httpRequest") or task.get("http_request") or {}
    return request.get("body") or ""


def _page(query: Mapping[str, str]) -> dict[str, str]:
    return {name: query[name] for name in ("filter", "pageSize", "pageToken", "responseView") if name in query}


class RestApi:
    """Answers requests with the methods of the gRPC surface.

    `identity` signs the tokens of tasks.
    """

    def __init__(self, registry: QueueRegistry, methods: Methods, clock: MovableClock, identity: Identity) -> None:
        self._registry, self._methods, self._clock, self._identity = registry, methods, clock, identity

    def application(self) -> web.Application:
        app = web.Application(middlewares=[own_pages_only], client_max_size=BODY_BYTES_MAX)
        app.add_routes(
            [
                web.get("/", self._show_page),
                web.get("/oauth2/v3/certs", self._show_keys),
                web.get("/emulator/places", self._list_places),
                web.get("/emulator/clock", self._show_clock),
                web.post("/emulator/clock", self._advance),
                web.route("*", "/{path:.+}", self._answer),
            ]
        )
        return app

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            message = await self._called(request)
        except RpcError as error:
            return _refused(error)
        except sqlite3.Error as error:
            log.error("storage failed", exc_info=error)
            return _refused(not_stored())
        return web.json_response(json_format.MessageToDict(message))

    async def _called(self, request: web.Request) -> Message:
        call = call_of(request.method, request.match_info["path"], request.query, await _json(request))
        method, kind = self._methods[call.method]
        try:
            message = json_format.ParseDict(call.fields, kind())
        except (json_format.ParseError, TypeError, ValueError) as error:
            raise invalid_argument(f"Invalid JSON payload received. {error}") from error
        if call.method == "CreateTask":
            self._check_task(message, call.fields)
        return await method(message)

    def _check_task(self, request: Message, fields: Mapping[str, Any]) -> None:
        """Raise `RpcError` for a body that is not base64, and for a task without an address that its queue lacks."""
        if not BASE64.fullmatch(_body_text(fields)):
            raise invalid_argument("HttpRequest.body is not base64")
        has_address = request.task.http_request.url or request.parent in self._registry.context.targets
        if self._registry.has(request.parent) and not has_address:
            queue_id = request.parent.rpartition("/")[2]
            raise invalid_argument(
                "HttpRequest.url is required. For tasks without an address, as Firebase sends them, start the emulator "
                f"with --queue {queue_id}=http://127.0.0.1:5001/PROJECT/LOCATION/{queue_id}"
            )

    async def _show_page(self, _: web.Request) -> web.Response:
        headers = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'; frame-ancestors 'none'"}
        return web.Response(text=PAGE.read_text("utf-8"), content_type="text/html", headers=headers)

    async def _show_keys(self, _: web.Request) -> web.Response:
        return web.json_response(self._identity.jwks())

    async def _list_places(self, _: web.Request) -> web.Response:
        return web.json_response({"places": sorted({queue.name.partition("/queues/")[0] for queue in self._registry})})

    async def _show_clock(self, _: web.Request) -> web.Response:
        return web.json_response({"now": self._clock(), "ahead_seconds": self._clock.ahead_seconds})

    async def _advance(self, request: web.Request) -> web.Response:
        try:
            seconds = (await _json(request)).get("advance_seconds")
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < float("inf"):
                raise invalid_argument("advance_seconds must be a number of seconds, 0 or more")
            self._clock.advance(seconds)
            await self._registry.context.storage.save_clock(self._clock.ahead_seconds)
        except RpcError as error:
            return _refused(error)
        except ValueError as error:
            return _refused(invalid_argument(str(error)))
        except sqlite3.Error as error:
            log.error("storage failed", exc_info=error)
            return _refused(not_stored())
        for queue in self._registry:
            queue.pump()
        return await self._show_clock(request)


@web.middleware
async def own_pages_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse pages of other sites, whose requests a browser also sends to this machine."""
    host, origin = request.headers.get("Host", ""), request.headers.get("Origin")
    from_elsewhere = request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin")
    if not names_this_machine(host) or from_elsewhere or origin not in (None, f"http://{host}"):
        return _refused(RpcError(grpc.StatusCode.PERMISSION_DENIED, "Pages of other sites may not call this"))
    return await handler(request)


async def _json(request: web.Request) -> Any:
    """Return the object in a body, or an empty one. Raises `RpcError`."""
    try:
        body = await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise invalid_argument(f"Request payload size exceeds the limit: {BODY_BYTES_MAX} bytes.") from error
    try:
        value = json.loads(body) if body.strip() else {}
    except (ValueError, RecursionError) as error:
        raise invalid_argument(f"Invalid JSON payload received. {error}") from error
    if not isinstance(value, dict):
        raise invalid_argument("Invalid JSON payload received. The body must be an object")
    return value


def _refused(error: RpcError) -> web.Response:
    code = STATUSES.get(error.code, 500)
    body = {"error": {"code": code, "message": error.message, "status": error.code.name}}
    return web.json_response(body, status=code)
