"""The objects of a user's function: its classes, their routes, and the deliveries of their wake-ups."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

from signalbox.adapters.grouped_requests import Gathering
from signalbox.adapters.http.open_function_access import Access, AccessRules, check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.system_clock import time_budget
from signalbox.core.calls import Call
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.keys import check_key
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.paging import check_prefix
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound, PermissionDenied
from signalbox.core.request_fields import wants
from signalbox.mailboxes.http import delivery_of, wait_seconds
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects import service
from signalbox.objects.api import LocalClasses, call_object, local_classes
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.model import (
    CallPlace,
    CallRecord,
    Message,
    call_on_result,
    check_call_id,
    continuation_message,
    method_call,
    object_address,
)
from signalbox.objects.problems import BadObjectCall

# --- routes ---

OBJECT = "/objects/{class_name}/{key}"
WAIT = ("wait_seconds",)


def add_routes(routes: Routes, local: Callable[[], LocalClasses], rules: AccessRules) -> None:
    """Add the routes of the objects whose classes `local` has. In an open function `rules` decide each request."""
    handlers = ObjectRoutes(local, rules)
    routes.on("GET", "/objects/{class_name}", query=("prefix", "page_token"))(handlers.list)
    routes.on("GET", OBJECT, query=("state",))(handlers.get)
    routes.on("DELETE", OBJECT)(handlers.delete)
    routes.on("POST", f"{OBJECT}/{{method}}", query=WAIT)(handlers.call)
    routes.on("GET", f"{OBJECT}/calls/{{call_id}}", query=WAIT)(handlers.get_call)
    routes.on("POST", f"{OBJECT}/calls/{{call_id}}/then")(handlers.follow)
    routes.on("POST", f"{OBJECT}/calls/{{call_id}}/object/{{method}}")(handlers.call_on_result)


class ObjectRoutes:
    """The handlers of one function's objects."""

    def __init__(self, local: Callable[[], LocalClasses], rules: AccessRules) -> None:
        self._local = local
        self._rules = rules
        self._gathering = Gathering[Message, CallRecord](MAILBOXES_LIMITS.mailbox_page)

    def call(self, ports: Ports, request: Request, class_name: str, key: str, method: str) -> Response:
        """Call a method: 200 with its result, 202 if it has none in time, or the problem that it raised."""
        kind = self._class(Access(request, "call", class_name, key, method))
        address = object_address(class_name, key)
        arguments = request.json_object(CORE_LIMITS.task_bytes_max)
        code, seconds = kind.method(method), wait_seconds(request)
        code.signature.bind(arguments, None)
        message = method_call(method, arguments)
        if code.reads:
            outcome = self._local().read(address, message)
            return Response(200, _raised(outcome).to_json())
        place = CallPlace(address, _id(ports, request))
        call = self._called(ports, place, message, seconds)
        return _shown(place, replace(call, outcome=call.outcome and _raised(call.outcome)))

    def _called(self, ports: Ports, place: CallPlace, message: Message, seconds: float) -> CallRecord:
        local = self._local()
        if not seconds:
            return service.post_call(ports, local.function_of, place, message)
        budget = time_budget(LIMITS.turn_seconds)
        handle = partial(service.call_together, ports, local.code, place.address, budget=budget)
        call = self._gathering.answer((id(ports.store), place.address), place.id, message, handle)
        return service.wait_for_posted(ports, place, call, seconds)

    def get_call(self, ports: Ports, request: Request, class_name: str, key: str, call_id: str) -> Response:
        """Return a call's result or its error; 202 while it has neither."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        return _shown(place, service.wait_for_call(ports, place, wait_seconds(request, default=0)))

    def follow(self, ports: Ports, request: Request, class_name: str, key: str, call_id: str) -> Response:
        """Run a task with the outcome of a call."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        continuation = Call.from_request(request.json_object().get("continuation"), "continuation")
        check_calls(request, continuation=continuation)
        return self._after(ports, place, request, continuation_message(call_id, continuation))

    def call_on_result(
        self, ports: Ports, request: Request, class_name: str, key: str, call_id: str, method: str
    ) -> Response:
        """Call a method of the object that is a call's result. No rule decides about that object's class."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        if request.is_open:
            raise PermissionDenied(
                "An open function does not call a method of a call's result. Call the object itself."
            )
        arguments = request.json_object(CORE_LIMITS.task_bytes_max)
        return self._after(ports, place, request, call_on_result(call_id, method, arguments))

    def _after(self, ports: Ports, place: CallPlace, request: Request, message: Message) -> Response:
        """Post a message that follows a call, which must exist."""
        service.get_call(ports, place)
        own = CallPlace(place.address, _id(ports, request))
        service.post_call(ports, self._local().function_of, own, message)
        return Response(202, {"call": own.id, "ready": False})

    def get(self, ports: Ports, request: Request, class_name: str, key: str) -> Response:
        """Return whether an object exists, its revision, its number of waiting messages, and with `state` its state.

        An open function shows no state: its methods decide what callers may see.
        """
        self._class(Access(request, "get", class_name, key))
        wanted = wants("state", request.query.get("state", ""))
        if wanted and request.is_open:
            raise PermissionDenied("An open function shows an object's state only by methods of its class.")
        return Response(200, service.get_object(ports, object_address(class_name, key)).to_json(state=wanted))

    def delete(self, ports: Ports, request: Request, class_name: str, key: str) -> Response:
        """Delete an object in its turn."""
        self._class(Access(request, "delete", class_name, key))
        address = object_address(class_name, key)
        service.delete(ports, self._local().function_of, address, _id(ports, request))
        return Response(204)

    def list(self, ports: Ports, request: Request, class_name: str) -> Response:
        """List objects of a class by their keys."""
        self._class(Access(request, "list", class_name))
        token = request.query.get("page_token")
        after = token and check_key(token)
        page = service.list_objects(ports, class_name, after, check_prefix(request.query))
        more = {"next_page_token": page[-1].key} if len(page) == LIMITS.objects_listed_max else {}
        return Response(200, {"objects": [address.to_json() for address in page]} | more)

    def _class(self, access: Access) -> ObjectClass:
        self._rules.check(access)
        classes = self._local().classes
        if access.name not in classes:
            raise NotFound(f"This function has no class {access.name!r}. Its classes: {', '.join(sorted(classes))}.")
        return classes[access.name]

    def _place(self, access: Access, call_id: str) -> CallPlace:
        self._class(access)
        return CallPlace(object_address(access.name, access.id), check_call_id(call_id))


def _raised(outcome: CallOutcome) -> CallOutcome:
    """Return an outcome that is not an error. Raises one that is, as the method did."""
    if problem := outcome.problem():
        raise problem
    return outcome


def _shown(place: CallPlace, call: CallRecord) -> Response:
    if call.outcome is None:
        return Response(202, {"call": place.id, "ready": False})
    return Response(200, {"call": place.id, "ready": True} | call.outcome.to_json())


def _id(ports: Ports, request: Request) -> str:
    return check_call_id(request.header("Idempotency-Key") or ports.store.new_id())


# --- classes and wake-ups ---


class ObjectHost:
    """The classes of a user's function. A function without classes also has a host if a wake-up is delivered to it."""

    call_method = staticmethod(call_object)
    """The code of the task that calls a method."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._classes: dict[str, ObjectClass] = {}

    def add(self, code: type) -> None:
        """Add a class under its name. Raises `TypeError`, or `ValueError` for a second class of one name."""
        if code.__name__ in self._classes:
            raise ValueError(f"{self._function} has two classes of the name {code.__name__}")
        self._classes[code.__name__] = ObjectClass.from_class(code)

    @property
    def names(self) -> frozenset[str]:
        """The names of the classes."""
        return frozenset(self._classes)

    def add_routes(self, routes: Routes, rules: AccessRules) -> None:
        """Add the routes of the objects."""
        add_routes(routes, lambda: self._local, rules)

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Let the code inside the context find the classes of this function."""
        token = local_classes.set(self._local)
        try:
            yield
        finally:
            local_classes.reset(token)

    def run_turn(self, ports: Ports, delivered: Delivered[Members]) -> None:
        """Run an object's mailbox. Raises `BadObjectCall` for a class of another function, and the errors of a run."""
        delivery = delivery_of(delivered)
        class_name = ObjectAddress.of_base(delivery.wake.mailbox).name
        if class_name not in self._classes:
            raise BadObjectCall(f"{self._function} has no class {class_name!r}. Is this an older deployment?")
        service.run(ports, self._local.code, delivery, time_budget(LIMITS.turn_seconds))

    @property
    def _local(self) -> LocalClasses:
        return LocalClasses(self._function, self._classes)
