"""A function of a user's own: handlers and tasks by decorator, and the one entry point that the framework calls."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

import flask

from shared.adapters import runtime
from shared.adapters.http.paths import match, segments_of_pattern
from shared.adapters.http.request_log import entry_point
from shared.adapters.http.responses import EntryPoint, Response
from shared.adapters.http.routes import Routes
from shared.adapters.http.tasks import TaskDelivery, task_entry
from shared.core.operations.ports import Clock, DocumentEvent, Ports, Store, TaskQueue
from shared.core.rules.calls import Call
from shared.core.rules.effects import Json
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import UnknownTask
from shared.core.rules.task_context import TaskContext
from shared.kit.batch_liveness_cache import is_live
from shared.kit.idempotency import acting_for
from shared.tasks.operations import task_runner as running
from shared.tasks.operations.task_runner import Attempt, RetryLimits
from shared.tasks.rules.signatures import Signature

P = ParamSpec("P")
R = TypeVar("R")
Handler = TypeVar("Handler", bound=Callable[..., Any])

TASKS = "/tasks/"


class Task(Generic[P, R]):
    """A user's task. Calling it runs it here and now, as a test does; `call` says that a queue should."""

    def __init__(self, function: str, code: Callable[P, R], retry_limits: RetryLimits) -> None:
        self.name = code.__name__
        self.retry_limits = retry_limits
        self._function = function
        self._code = code
        self._signature = Signature.of(code)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._code(*args, **kwargs)

    def call(self, **arguments: Json) -> Call:
        """Ask for this task with these arguments, which travel as JSON. Raises `BadArgument` naming one that is not."""
        self._signature.check(arguments)
        return Call(self._function, self.name, arguments).checked(self.name)

    def run(self, payload: Mapping[str, Any], context: TaskContext | None) -> Any:
        """Run it with arguments that have arrived. Raises `BadArgument`, and what the code raises."""
        code: Callable[..., R] = self._code
        return code(**self._signature.filled(payload, context))


class Function:
    """A function of the catalogue, under the name that its entry has there."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._routes = Routes(name)
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._events: Callable[..., Any] | None = None

    def http(
        self, method: str, pattern: str = "/", *, query: Iterable[str] | None = None
    ) -> Callable[[Handler], Handler]:
        """Response people at ``{base}NAME`` + `pattern`; each ``{part}`` of it is a text argument, after the request.

        What the handler returns goes back as JSON with 200; None: 204; an `Response` as it is. ``query`` names the
        allowed query parameters, any other is answered with 400; None: the handler gets them all.

        Raises `ValueError` for a pattern that does not begin with a slash, or that tasks have.
        """
        if f"{pattern}/".startswith(TASKS):
            raise ValueError(f"{TASKS} is where the tasks are: choose another pattern than {pattern}")

        route = self._routes.on(method, pattern, query=query)

        def register(handler: Handler) -> Handler:
            route(lambda request, **parts: _answer(handler(request, **parts)))
            return handler

        return register

    @overload
    def task(self, code: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(self, *, attempts_max: int = ..., retries_max: int = ...) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self,
        code: Callable[P, R] | None = None,
        *,
        attempts_max: int = LIMITS.executions_max,
        retries_max: int = LIMITS.retries_max,
    ) -> Any:
        """Make a function a task of that name. A task that dies `attempts_max` times is given up."""

        def register(code: Callable[P, R]) -> Task[P, R]:
            task = Task(self.name, code, RetryLimits(attempts_max, retries_max))
            if self._tasks.setdefault(task.name, task) is not task:
                raise ValueError(f"{self.name} has two tasks of the name {task.name}")
            return task

        return register if code is None else register(code)

    def document_written(self, pattern: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
        """Handle each write of a record under `pattern` (``documents/{key}``), as a trigger of the catalogue names it.

        The handler gets the `DocumentEvent` and each ``{part}``. A function that events invoke does nothing else.
        """
        from shared.adapters.http import events  # its protobuf is for functions that have events

        segments = segments_of_pattern(f"/{pattern}")

        def register(handler: Callable[..., None]) -> Callable[..., None]:
            def handle(event: DocumentEvent) -> None:
                parts = match(segments, tuple(event.path.split("/")))
                if parts is not None:
                    handler(event, **parts)

            self._events = events.document_written(self.name)(handle)
            return handler

        return register

    def entry_point(self) -> Callable[..., Any]:
        """Give the plain function that the framework calls, with a request or with an event."""
        if self._events is not None:
            return self._events
        return entry_point(self.name, _forked(self._routes.entry_point(), task_entry(self.name)(self._handle)))

    def bind(self, store: Store, queue: TaskQueue, clock: Clock) -> None:
        """Use this store, queue and clock from now on, in this process: for tests."""
        runtime.bind(Ports(store, queue, clock, runtime.log()))

    def _handle(self, delivered: TaskDelivery) -> None:
        task = self._tasks.get(delivered.name)
        retry_limits = task.retry_limits if task else RetryLimits(LIMITS.executions_max, LIMITS.retries_max)
        delivery = Attempt(delivered.context, delivered.executions, delivered.retries)

        def code(context: TaskContext | None) -> Any:
            if task is None:
                raise UnknownTask(f"{self.name} has no task {delivered.name!r}; it has: {', '.join(self._tasks)}.")
            return task.run(delivered.payload, context)

        with acting_for(delivered.operation):
            running.run(runtime.ports(), delivery, retry_limits, is_live, code)


def _forked(people: EntryPoint, tasks: EntryPoint) -> EntryPoint:
    def entry(request: flask.Request) -> flask.Response:
        return tasks(request) if request.path.startswith(TASKS) else people(request)

    return entry


def _answer(given: Any) -> Response:
    if isinstance(given, Response):
        return given
    return Response(204) if given is None else Response(200, given)
