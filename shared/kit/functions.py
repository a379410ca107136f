"""A user's function: HTTP handlers, tasks and event handlers by decorator, and the one entry point of all of them."""

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import flask

from shared.adapters import runtime
from shared.adapters.http import service_part
from shared.adapters.http.paths import match, segments_of_pattern
from shared.adapters.http.request_log import entry_point, logged_request
from shared.adapters.http.responses import EntryPoint, Response, problem_response
from shared.adapters.http.routes import Routes
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.core.operations.ports import Clock, DocumentEvent, Ports, Store, TaskQueue
from shared.core.rules import wake_ups
from shared.core.rules.calls import CALL_OBJECT, QUEUE_DEFAULT
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NotFound, Problem, Unavailable, UnknownTask
from shared.core.rules.task_context import TaskContext, TaskSubject
from shared.kit import flow_hooks
from shared.kit.batch_liveness_cache import is_live
from shared.kit.calls import Call
from shared.kit.idempotency import hold, idempotent_calls
from shared.kit.task_contexts import task_context
from shared.tasks.operations import task_runner
from shared.tasks.rules.attempts import RetryLimits, Start
from shared.tasks.rules.signatures import Signature

if TYPE_CHECKING:
    from shared.kit.flow_host import FlowHost
    from shared.kit.flow_runs import Flow
    from shared.kit.object_host import ObjectHost

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)
Handler = TypeVar("Handler", bound=Callable[..., Any])

TASKS = "/tasks/"
TURNS = f"{wake_ups.PATH}/"
FLOW_TASKS = ("flow_act", "flow_told")
"""The kit's own tasks of a function with flows."""

RESERVED = (TASKS, "/objects/", "/flows/", TURNS)


class Task(Generic[P, R]):
    """A task of a user's function. Calling it runs its code at once; `call` describes a call for a queue."""

    def __init__(self, function: str, code: Callable[P, R], retry_limits: RetryLimits, queue: str) -> None:
        self.name = code.__name__
        self.retry_limits = retry_limits
        self.queue = queue
        self._function = function
        self._code = code
        self._signature = Signature.from_function(code)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._code(*args, **kwargs)

    def call(self, **arguments: Json) -> Call:
        """Return a call of this task, for `wait`, `populate` and other calls that take one. Arguments travel as JSON.

        Raises `WrongArguments` (a `TypeError`) if they do not fit the signature, `TooLarge` over 100 KiB.
        """
        self._signature.check(arguments)
        call = Call(self._function, self.name, arguments, self.queue).checked(self.name)
        flow_hooks.note_made(call, f"{self.name}.call()")
        return call

    def run(self, payload: Mapping[str, Any], subject: TaskSubject | None, context: TaskContext) -> Any:
        """Run the code with arguments from a request. Raises `BadArgument`, and what the code raises."""
        code: Callable[..., R] = self._code
        return code(**self._signature.bind(payload, subject, context))


class Function:
    """A function of the catalogue. `name` is its entry's name there.

    `document_pattern` is the pattern of `document_written`, or None.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.document_pattern: str | None = None
        self._routes = Routes(name)
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._events: Callable[..., Any] | None = None
        self._objects: ObjectHost | None = None
        self._flows: FlowHost | None = None
        self._has_flow_routes = False

    def http(
        self, method: str, pattern: str = "/", *, query: Iterable[str] | None = None
    ) -> Callable[[Handler], Handler]:
        """Handle requests to ``{base}NAME`` + `pattern`; each ``{part}`` of it is a `str` argument, after the request.

        The handler's return value is answered as JSON with 200, None as 204, a `Response` as it is. `query` names
        the allowed query parameters, any other is refused with 400; None allows all.

        Raises `ValueError` for a pattern without a leading slash, or under one of the kit's own paths.
        """
        if f"{pattern}/".startswith(RESERVED):
            raise ValueError(f"{', '.join(RESERVED)} are the kit's own: choose another pattern than {pattern!r}")

        route = self._routes.on(method, pattern, query=query)

        def register(handler: Handler) -> Handler:
            route(lambda request, **parts: _response(handler(request, **parts)))
            return handler

        return register

    @overload
    def task(self, code: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(self, *, attempts_max: int = ..., queue: str = ...) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        code: Callable[P, R] | None = None,
        *,
        attempts_max: int = LIMITS.attempts_max,
        queue: str = QUEUE_DEFAULT,
    ) -> Any:
        """Register a task under the name of its code. It is given up when its code was started `attempts_max` times.

        A delivery that ended before the code was started does not count. The pause between two attempts is that of
        `queue`, which the task's calls go through: `backoff_min_seconds` and what follows in the catalogue. Raises
        `ValueError` for a second task of one name or a limit below 1, `TypeError` for a parameter that no JSON value
        fits.
        """
        if attempts_max < 1:
            raise ValueError(f"attempts_max must be at least 1, not {attempts_max}")

        def register(code: Callable[P, R]) -> Task[P, R]:
            task = Task(self.name, code, RetryLimits(attempts_max), queue)
            if task.name in (CALL_OBJECT, *FLOW_TASKS):
                raise ValueError(f"the task {task.name} is the kit's own: choose another name")
            if self._tasks.setdefault(task.name, task) is not task:
                raise ValueError(f"{self.name} has two tasks of the name {task.name}")
            return task

        return register if code is None else register(code)

    def object(self, code: Class) -> Class:
        """Register a class of durable objects under its name: see `shared.kit.durable_objects`.

        Raises `TypeError` for a field without a default or of a type that is no JSON, `ValueError` for a second class
        of one name.
        """
        self._objects = self._objects or self._new_host()
        self._objects.add(code)
        return code

    def flow(self, code: Callable[P, Generator[Any, Any, R]]) -> "Flow[P, R]":
        """Register a flow under the name of its code, a generator: see `shared.kit.flow_runs`.

        Raises `TypeError` for what is no generator or has a parameter that no JSON value fits, `ValueError` for a
        second flow of one name.
        """
        self._flows = self._flows or self._new_flow_host()
        return self._flows.add(code)

    def document_written(self, pattern: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Handle each write of a record whose path fits `pattern` (``documents/{key}``); the catalogue needs a trigger.

        The handler's arguments are the `DocumentEvent` and each ``{part}``. A function with an event handler has no
        routes and no tasks.
        """
        from shared.adapters.http import events  # its protobuf is for functions that have events

        segments = segments_of_pattern(f"/{pattern}")
        self.document_pattern = pattern

        def register(handler: Callable[..., None]) -> Callable[..., None]:
            def handle(event: DocumentEvent) -> None:
                parts = match(segments, tuple(event.path.split("/")))
                if parts is not None:
                    handler(event, **parts)

            self._events = events.document_written(self.name)(handle)
            return handler

        return register

    def entry_point(self) -> Callable[..., Any]:
        """Return the function that functions-framework calls, with a request or with an event."""
        if self._events is not None:
            return self._events
        tasks = task_entry(self.name)(self._run)
        turns = task_entry(self.name)(self._run_turn)
        host = self._objects
        if host and CALL_OBJECT not in self._tasks:
            self._add_objects(host)
        if self._flows and not self._has_flow_routes:
            self._flows.add_routes(self._routes)
            self._has_flow_routes = True
        entry = _dispatch(self._routes.entry_point(), tasks, turns, _nothing_here(self.name))
        return entry_point(self.name, host.within(entry) if host else entry)

    def _add_objects(self, host: "ObjectHost") -> None:
        """Add the routes of objects, and the task that calls a method."""
        host.add_routes(self._routes)
        self._tasks[CALL_OBJECT] = Task(self.name, host.call_method, RetryLimits(LIMITS.attempts_max), QUEUE_DEFAULT)

    def _new_host(self) -> "ObjectHost":
        from shared.kit.object_host import ObjectHost  # it is for functions that have objects

        return ObjectHost(self.name)

    def _new_flow_host(self) -> "FlowHost":
        from shared.kit.flow_host import FlowHost  # it is for functions that have flows, or steps of others' flows

        return FlowHost(self.name)

    def bind(self, store: Store, queue: TaskQueue, clock: Clock) -> None:
        """Use this store, queue and clock in this process from now on. For tests; see also `shared.testing.Harness`."""
        runtime.bind(Ports(store, queue, clock, runtime.log()))

    def _run(self, request: TaskDelivery) -> None:
        if request.name in FLOW_TASKS:
            _to_be_retried(lambda: self._flow_host.run_own_task(request.attempt(self.name)))
        else:
            self._run_task(request)

    def _run_task(self, request: TaskDelivery) -> None:
        task = self._tasks.get(request.name)
        limits = task.retry_limits if task else RetryLimits(LIMITS.attempts_max)

        def code(subject: TaskSubject | None, begun: Start) -> Any:
            hold(subject)
            if task is None:
                known = ", ".join(self._tasks) or "none"
                raise UnknownTask(f"The function {self.name} has no task {request.name!r}. Its tasks: {known}.")
            return task.run(request.payload, subject, task_context(attempt, begun, limits, received_at))

        attempt, received_at = request.attempt(self.name), time.monotonic()
        with idempotent_calls(request.operation, is_repeated=attempt.is_repeated):
            if "step" in attempt.context:
                self._flow_host.run_step(attempt, limits, code)
            else:
                task_runner.run(runtime.ports(), attempt, limits, is_live, code)

    def _run_turn(self, request: TaskDelivery) -> None:
        """Run the mailbox of an object or of a flow."""
        flows = str(request.payload.get("mailbox", "")).startswith("flows/")
        host: FlowHost | ObjectHost = self._flow_host if flows else self._objects or self._new_host()
        _to_be_retried(lambda: host.run_turn(request))

    @property
    def _flow_host(self) -> "FlowHost":
        return self._flows or self._new_flow_host()


def _to_be_retried(run: Callable[[], None]) -> None:
    """Run what the kit itself sent. Nothing is a permanent error: acknowledged, the messages would sleep."""
    try:
        run()
    except Problem as problem:
        runtime.log().error("turn refused", problem=problem.slug(), detail=problem.detail, exception=problem)
        raise Unavailable(problem.detail) from problem


def _dispatch(routes: EntryPoint, tasks: EntryPoint, turns: EntryPoint, nothing: EntryPoint) -> EntryPoint:
    """Return an entry point that hands requests under the kit's own paths to `tasks` and `turns`, else to `routes`.

    Where only one part of the function is served, the other one is at no address.
    """

    def entry(request: flask.Request) -> flask.Response:
        part, path = service_part.part_served(request), f"{request.path}/"
        if path.startswith((TASKS, TURNS)) and part != service_part.PEOPLE:
            return tasks(request) if path.startswith(TASKS) else turns(request)
        return nothing(request) if part == service_part.TASKS else routes(request)

    return entry


def _nothing_here(function: str) -> EntryPoint:
    def entry(request: flask.Request) -> flask.Response:
        with logged_request(function, request.headers, method=request.method) as log_entry:
            response = problem_response(NotFound("Only tasks are called at this address."))
            log_entry.status = response.status_code
            return response

    return entry


def _response(returned: Any) -> Response:
    if isinstance(returned, Response):
        return returned
    return Response(204) if returned is None else Response(200, returned)
