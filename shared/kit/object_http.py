"""The routes of a function's objects: call a method, look at a call, follow on it, look at objects, delete one."""

from collections.abc import Callable
from dataclasses import replace

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.core.rules.calls import Call
from shared.core.rules.keys import check_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery, NotFound
from shared.kit.object_classes import LocalClasses
from shared.objects.operations import calls, objects
from shared.objects.operations.calls import Placeholder
from shared.objects.rules.addresses import ObjectAddress, check_call_id
from shared.objects.rules.classes import ObjectClass
from shared.objects.rules.messages import CallRecord, Message, call_on_result, continuation_message, method_call
from shared.objects.rules.outcomes import CallOutcome

OBJECT = "/objects/{class_name}/{key}"
WAIT = ("wait_seconds",)


def add_routes(routes: Routes, local: Callable[[], LocalClasses]) -> None:
    """Add the routes of the objects whose classes `local` has."""
    handlers = ObjectRoutes(local)
    routes.on("GET", "/objects/{class_name}", query=("page_token",))(handlers.list)
    routes.on("GET", OBJECT)(handlers.get)
    routes.on("DELETE", OBJECT)(handlers.delete)
    routes.on("POST", f"{OBJECT}/{{method}}", query=WAIT)(handlers.call)
    routes.on("GET", f"{OBJECT}/calls/{{call_id}}", query=WAIT)(handlers.get_call)
    routes.on("POST", f"{OBJECT}/calls/{{call_id}}/then")(handlers.follow)
    routes.on("POST", f"{OBJECT}/calls/{{call_id}}/object/{{method}}")(handlers.call_on_result)


class ObjectRoutes:
    """Handlers of one function's objects."""

    def __init__(self, local: Callable[[], LocalClasses]) -> None:
        self._local = local

    def call(self, request: Request, class_name: str, key: str, method: str) -> Response:
        """Call a method: 200 with its result, 202 if it is not there in time, or the problem that it raised."""
        kind, address = self._class(class_name), ObjectAddress.checked(class_name, key)
        arguments = request.json_object(LIMITS.task_bytes_max)
        code, seconds = kind.method(method), wait_seconds(request)
        code.signature.bind(arguments, None)
        message = method_call(method, arguments)
        if code.reads:
            outcome = self._local().read(address, message)
            return Response(200, _raised(outcome).to_json())
        place = Placeholder(address, _id(request))
        call = self._called(place, message, seconds)
        return _shown(place, replace(call, outcome=call.outcome and _raised(call.outcome)))

    def _called(self, place: Placeholder, message: Message, seconds: float) -> CallRecord:
        ports, local = runtime.ports(), self._local()
        if not seconds:
            return calls.post_call(ports, local.function_of, place, message)
        call = calls.call_at_once(ports, local.code, place, message)
        return calls.wait_for_posted(ports, place, call, seconds)

    def get_call(self, request: Request, class_name: str, key: str, call_id: str) -> Response:
        """Look at a call: its result or its error; 202 while there is none."""
        place = self._place(class_name, key, call_id)
        return _shown(place, calls.wait_for_call(runtime.ports(), place, wait_seconds(request, default=0)))

    def follow(self, request: Request, class_name: str, key: str, call_id: str) -> Response:
        """Run a task with the outcome of a call."""
        place = self._place(class_name, key, call_id)
        body = request.json_object()
        continuation = deployed(Call.from_request(body.get("continuation"), "continuation"))
        return self._behind(place, request, continuation_message(call_id, continuation))

    def call_on_result(self, request: Request, class_name: str, key: str, call_id: str, method: str) -> Response:
        """Call a method of the object that a call results in."""
        place = self._place(class_name, key, call_id)
        return self._behind(place, request, call_on_result(call_id, method, request.json_object(LIMITS.task_bytes_max)))

    def _behind(self, place: Placeholder, request: Request, message: Message) -> Response:
        calls.get_call(runtime.ports(), place)
        own = Placeholder(place.address, _id(request))
        calls.post_call(runtime.ports(), self._local().function_of, own, message)
        return Response(202, {"call": own.id, "ready": False})

    def get(self, _: Request, class_name: str, key: str) -> Response:
        """Look at an object: whether it exists, its revision, and how many messages wait."""
        self._class(class_name)
        return Response(200, objects.get_object(runtime.ports(), ObjectAddress.checked(class_name, key)).to_json())

    def delete(self, request: Request, class_name: str, key: str) -> Response:
        """Delete an object in its turn."""
        self._class(class_name)
        address = ObjectAddress.checked(class_name, key)
        objects.delete(runtime.ports(), self._local().function_of, address, _id(request))
        return Response(204)

    def list(self, request: Request, class_name: str) -> Response:
        """List objects of a class by their keys."""
        self._class(class_name)
        token = request.query.get("page_token")
        page = objects.list_objects(runtime.ports(), class_name, token and check_key(token))
        more = {"next_page_token": page[-1].key} if len(page) == LIMITS.objects_listed_max else {}
        return Response(200, {"objects": [each.to_json() for each in page]} | more)

    def _class(self, class_name: str) -> ObjectClass:
        classes = self._local().classes
        if class_name not in classes:
            raise NotFound(f"This function has no class {class_name!r}. Its classes: {', '.join(sorted(classes))}.")
        return classes[class_name]

    def _place(self, class_name: str, key: str, call_id: str) -> Placeholder:
        self._class(class_name)
        return Placeholder(ObjectAddress.checked(class_name, key), check_call_id(call_id))


def _raised(outcome: CallOutcome) -> CallOutcome:
    """Return an outcome that is no error. Raises the one that is, as the method did."""
    if problem := outcome.problem():
        raise problem
    return outcome


def _shown(place: Placeholder, call: CallRecord) -> Response:
    if call.outcome is None:
        return Response(202, {"call": place.id, "ready": False})
    return Response(200, {"call": place.id, "ready": True} | call.outcome.to_json())


def _id(request: Request) -> str:
    return check_call_id(request.header("Idempotency-Key") or runtime.ports().store.new_id())


def wait_seconds(request: Request, default: float = LIMITS.call_wait_seconds_max) -> float:
    """Return the parameter `wait_seconds`. Raises `BadQuery`."""
    given = request.query.get("wait_seconds")
    try:
        seconds = default if given is None else float(given)
    except ValueError as error:
        raise BadQuery("`wait_seconds` is a number.", field="wait_seconds") from error
    if not 0 <= seconds <= LIMITS.call_wait_seconds_max:
        raise BadQuery(f"`wait_seconds` is 0 to {LIMITS.call_wait_seconds_max}.", field="wait_seconds")
    return seconds
