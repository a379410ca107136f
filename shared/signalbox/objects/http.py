"""The objects of a user's function: its classes, their routes, and the deliveries of their wake-ups."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from signalbox.adapters.grouped_requests import Gathering
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
from signalbox.adapters.system_clock import time_budget
from signalbox.core.calls import Call, check_payload
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.keys import check_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import value_bytes_max
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound, OtherBody, PermissionDenied
from signalbox.core.surface.field_rules import KEY, MAY_BE_ABSENT, Described, key_schema
from signalbox.core.surface.paging import check_prefix
from signalbox.core.surface.request_fields import RequestFields, wants
from signalbox.mailboxes.http import WAIT_SECONDS, WAIT_SECONDS_OF_CALL, delivery_of, wait_seconds
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.outcomes import CallOutcome, without_exception_text
from signalbox.mailboxes.shown import ObjectAddressShown
from signalbox.objects import service
from signalbox.objects.api import LocalClasses, call_object, local_classes
from signalbox.objects.limits import LIMITS
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.model import (
    CALL_ID_BYTES_MAX,
    CLASS_NAME,
    CallPlace,
    CallRecord,
    Message,
    call_on_result,
    check_call_id,
    check_chosen_id,
    continuation_message,
    method_call,
    object_address,
)
from signalbox.objects.problems import BadObjectCall, CallTooLate, NoSuchMethod
from signalbox.objects.shown import CallDoneShown, CallWaitsShown, ObjectShown, ObjectsShown, ObjectWithStateShown
from signalbox.payloads.http import value_response
from signalbox.payloads.problems import NoPayload
from signalbox.payloads.shown import PayloadShown, Sha256

# --- routes ---

OBJECT = "/objects/{class_name}/{key}"

ClassName = Annotated[str, Described({"pattern": f"^{CLASS_NAME.pattern}$"})]
ObjectKey = Annotated[str, KEY]
CallId = Annotated[
    str,
    Described(
        {**key_schema(CALL_ID_BYTES_MAX), "description": "The `call` of its answer. It does not begin with `!`."}
    ),
]
MethodName = Annotated[str, Described({"pattern": "^[A-Za-z][A-Za-z0-9_]*$"})]

STATE = Parameter("state", FLAG, "Also the state as it is stored. An open function refuses it.")
ARGUMENTS = Annotated[Mapping[str, Any], MAY_BE_ABSENT]
CALL: Mapping[int, Any] = {200: CallDoneShown, 202: CallWaitsShown}

declared = Routes("")
"""The routes of `ObjectRoutes`. Each method declares its own."""


def add_routes(routes: Routes, local: Callable[[], LocalClasses], rules: AccessRules) -> None:
    """Add the routes of the objects whose classes `local` has. In an open function `rules` decide each request."""
    routes.add_methods(declared, ObjectRoutes(local, rules))


@dataclass(frozen=True, slots=True)
class FollowRequest:
    """A task that runs with the outcome of a call."""

    continuation: Call


class ObjectRoutes:
    """The handlers of one function's objects."""

    def __init__(self, local: Callable[[], LocalClasses], rules: AccessRules) -> None:
        self._local = local
        self._rules = rules
        self._gathering = Gathering[Message, CallRecord](MAILBOXES_LIMITS.mailbox_page)

    @property
    def classes(self) -> Mapping[str, ObjectClass]:
        """The classes, by name."""
        return self._local().classes

    @declared.on(
        "GET", "/objects/{class_name}", query=(PREFIX, PAGE_TOKEN), answers={200: ObjectsShown}, refuses=(NotFound,)
    )
    def list_objects(self, ports: Ports, request: Request, class_name: ClassName) -> Response:
        """List the objects of a class by their keys, a hundred at a time."""
        self._class(Access(request, "list", class_name))
        token = request.query.get("page_token")
        after = token and check_key(token)
        page = service.list_objects(ports, class_name, after, check_prefix(request.query))
        next_page_token = page[-1].key if len(page) == LIMITS.objects_listed_max else ""
        return Response(200, ObjectsShown(tuple(map(ObjectAddressShown.of, page)), next_page_token))

    @declared.on(
        "GET",
        OBJECT,
        query=(STATE,),
        answers={200: Answer(ObjectShown | ObjectWithStateShown, "Its status, with its state if it was requested.")},
        refuses=(NotFound,),
    )
    def get_object(self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey) -> Response:
        """Return whether an object exists, its revision, and how many messages wait for it.

        An object that was never called does not exist and has the revision 0.
        """
        wanted = wants("state", request.query.get("state", ""))
        self._check_state(Access(request, "get", class_name, key), wanted=wanted)
        status = service.get_object(ports, object_address(class_name, key))
        return Response(200, (ObjectWithStateShown if wanted else ObjectShown).of_status(status))

    @declared.on("GET", f"{OBJECT}/payloads/{{sha256}}", answers={200: PayloadShown}, refuses=(NotFound, NoPayload))
    def get_object_payload(
        self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey, sha256: Sha256
    ) -> Response:
        """Return the large state of an object, which its status shows by size and hash.

        An open function refuses it.
        """
        self._check_state(Access(request, "get", class_name, key), wanted=True)
        return value_response(service.state_by_hash(ports, object_address(class_name, key), sha256), sha256)

    def _check_state(self, access: Access, *, wanted: bool) -> None:
        """Check that a caller may read an object, also its state if it is `wanted`."""
        self._class(access)
        if wanted and access.request.is_open:
            raise PermissionDenied("An open function shows an object's state only by methods of its class.")

    @declared.on(
        "DELETE",
        OBJECT,
        headers=(IDEMPOTENCY_KEY,),
        answers={204: Answer(None, "It will be gone.")},
        refuses=(NotFound, OtherBody),
    )
    def delete_object(self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey) -> Response:
        """Delete an object after the calls that already wait."""
        self._class(Access(request, "delete", class_name, key))
        address = object_address(class_name, key)
        service.delete(ports, self._local().function_of, address, _id(ports, request))
        return Response(204)

    @declared.on(
        "POST",
        f"{OBJECT}/{{method}}",
        query=(WAIT_SECONDS_OF_CALL,),
        headers=(IDEMPOTENCY_KEY,),
        body=ARGUMENTS,
        answers=CALL,
        refuses=(NotFound, NoSuchMethod, CallTooLate, OtherBody),
        example={"amount": 5},
    )
    def call_object(
        self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey, method: MethodName
    ) -> Response:
        """Call a method of an object. The body has its arguments.

        The call is applied at once if no message waits, otherwise in order. If the method raises a problem, that is the
        response, with its own status. A read-only method is answered from the last state, without `call`.
        """
        kind = self._class(Access(request, "call", class_name, key, method))
        address = object_address(class_name, key)
        arguments = _arguments(request)
        code, seconds = kind.method(method), wait_seconds(request)
        code.signature.bind(arguments, None)
        message = method_call(method, arguments)
        if code.reads:
            outcome = self._local().read(address, message)
            return Response(200, CallDoneShown.of(_raised(outcome, request)))
        place = CallPlace(address, _id(ports, request))
        call = self._called(ports, place, message, seconds)
        return _shown(place, replace(call, outcome=call.outcome and _raised(call.outcome, request)), request)

    def _called(self, ports: Ports, place: CallPlace, message: Message, seconds: float) -> CallRecord:
        local = self._local()
        if not seconds:
            return service.post_call(ports, local.function_of, place, message)
        budget = time_budget(LIMITS.turn_seconds)
        handle = partial(service.call_together, ports, local.code, place.address, budget=budget)
        call = self._gathering.answer((id(ports.store), place.address), place.id, message, handle)
        return service.wait_for_posted(ports, place, call, seconds)

    @declared.on("GET", f"{OBJECT}/calls/{{call_id}}", query=(WAIT_SECONDS,), answers=CALL, refuses=(NotFound,))
    def get_object_call(
        self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey, call_id: CallId
    ) -> Response:
        """Return the result or the error of a call, or wait for it."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        return _shown(place, service.wait_for_call(ports, place, wait_seconds(request, default=0)), request)

    @declared.on(
        "GET",
        f"{OBJECT}/calls/{{call_id}}/payloads/{{sha256}}",
        answers={200: PayloadShown},
        refuses=(NotFound, NoPayload),
    )
    def get_object_call_payload(
        self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey, call_id: CallId, sha256: Sha256
    ) -> Response:
        """Return the large result of a call, which the answer of the call shows by size and hash."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        return value_response(service.result_by_hash(ports, place, sha256), sha256)

    @declared.on(
        "POST",
        f"{OBJECT}/calls/{{call_id}}/then",
        headers=(IDEMPOTENCY_KEY,),
        body=FollowRequest,
        answers={202: CallWaitsShown},
        refuses=(NotFound, OtherBody),
    )
    def follow_object_call(
        self, ports: Ports, request: Request, class_name: ClassName, key: ObjectKey, call_id: CallId
    ) -> Response:
        """Run a task with the outcome of a call, now or when the call has ended."""
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        body = RequestFields(request.json_object(), BadObjectCall).only("continuation").body
        continuation = Call.from_request(body.get("continuation"), "continuation")
        check_calls(request, continuation=continuation)
        return self._after(ports, place, request, continuation_message(call_id, continuation))

    @declared.on(
        "POST",
        f"{OBJECT}/calls/{{call_id}}/object/{{method}}",
        headers=(IDEMPOTENCY_KEY,),
        body=ARGUMENTS,
        answers={202: CallWaitsShown},
        refuses=(NotFound, OtherBody),
    )
    def call_result_of_object_call(
        self,
        ports: Ports,
        request: Request,
        class_name: ClassName,
        key: ObjectKey,
        call_id: CallId,
        method: MethodName,
    ) -> Response:
        """Call a method of the object that is the result of a call, when the call has ended.

        No rule decides about that object's class, so an open function refuses it.
        """
        place = self._place(Access(request, "get_call", class_name, key), call_id)
        if request.is_open:
            raise PermissionDenied(
                "An open function does not call a method of a call's result. Call the object itself."
            )
        arguments = _arguments(request)
        return self._after(ports, place, request, call_on_result(call_id, method, arguments))

    def _after(self, ports: Ports, place: CallPlace, request: Request, message: Message) -> Response:
        """Post a message that follows a call, which must exist."""
        service.get_call(ports, place)
        own = CallPlace(place.address, _id(ports, request))
        service.post_call(ports, self._local().function_of, own, message)
        return Response(202, CallWaitsShown(own.id, ready=False))

    def _class(self, access: Access) -> ObjectClass:
        self._rules.check(access)
        classes = self._local().classes
        if access.name not in classes:
            raise NotFound(f"This function has no class {access.name!r}. Its classes: {', '.join(sorted(classes))}.")
        return classes[access.name]

    def _place(self, access: Access, call_id: str) -> CallPlace:
        self._class(replace(access, member=call_id))
        return CallPlace(object_address(access.name, access.id), check_call_id(call_id))


def _raised(outcome: CallOutcome, request: Request) -> CallOutcome:
    """Return the outcome. If it is an error, raise the error as the method did, as far as the caller may see it."""
    if problem := _for_caller(outcome, request).problem():
        raise problem
    return outcome


def _for_caller(outcome: CallOutcome, request: Request) -> CallOutcome:
    """Return the outcome as the caller may see it: an open function shows no text of an exception."""
    return without_exception_text(outcome) if request.is_open else outcome


def _shown(place: CallPlace, call: CallRecord, request: Request) -> Response:
    if call.outcome is None:
        return Response(202, CallWaitsShown(place.id, ready=False))
    return Response(200, CallDoneShown.of(_for_caller(call.outcome, request), place.id))


def _arguments(request: Request) -> dict[str, Any]:
    arguments = request.json_object_of_values()
    check_payload(arguments, "arguments", value_bytes_max(CORE_LIMITS.task_bytes_max))
    return arguments


def _id(ports: Ports, request: Request) -> str:
    return check_chosen_id(request.caller_key or ports.store.new_id())


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
