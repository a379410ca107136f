"""A user's function: HTTP handlers, tasks and event handlers by decorator, and one entry point for all of them.

This module connects the adapters with the subjects whose tasks a function may have. Objects, flows and events are
imported only by functions that use them.
"""

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from functools import partial, wraps
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, get_args, overload

from signalbox.adapters import runtime
from signalbox.adapters.coroutines import result_of
from signalbox.adapters.http.open_function_access import Access, AccessRules
from signalbox.adapters.http.paths import match, segments_of_pattern
from signalbox.adapters.http.request_log import entry_point
from signalbox.adapters.http.routes import Routes
from signalbox.adapters.http.task_deliveries import forwarding_entry, task_entry
from signalbox.adapters.logs import current_trace
from signalbox.adapters.settings import settings
from signalbox.batches.api import is_live
from signalbox.batches.model.units import Unit
from signalbox.batches.storage import forget_completion
from signalbox.core import user_code
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.document_patterns import (
    CREATED,
    EACH,
    KINDS,
    WRITTEN,
    DocumentFilter,
    DocumentPattern,
    InOrder,
    Kind,
)
from signalbox.core.flow_hooks import check_plain, check_ran
from signalbox.core.idempotency_keys import hold, idempotent_calls
from signalbox.core.kit_names import (
    ACT_ON_RUN,
    CALL_OBJECT,
    FAILURE_NOTICE_TASK,
    FLOW_COMMAND_TASK,
    FLOW_RESULT_TASK,
    TASKS_QUEUE,
    Overlap,
)
from signalbox.core.lazy_dataclasses import replace
from signalbox.core.ports import Clock, DocumentEvent, Ports, Store, TaskQueue
from signalbox.core.problems import Problem, Unavailable, UnknownTask
from signalbox.documents import problems as documents_problems
from signalbox.flows import problems as flows_problems
from signalbox.function.deliveries import (
    enqueued_again,
    group_time,
    is_coming,
    is_known,
    opened_subject,
    refused_turn_notice,
    task_context,
    to_be_retried,
)
from signalbox.function.dispatch import (
    BODY,
    EVENTS,
    RESERVED,
    TASKS,
    TURNS,
    body_codec,
    body_of,
    dispatch,
    nothing_here,
    response_of,
    within,
)
from signalbox.function.document_handlers import DocumentHandler, receive, task_code
from signalbox.history import problems as history_problems
from signalbox.objects import problems as objects_problems
from signalbox.payloads.model import opened_members
from signalbox.payloads.service import opening_those_of
from signalbox.rates import problems as rates_problems
from signalbox.resources import problems as resources_problems
from signalbox.standings import problems as standings_problems
from signalbox.tasks.api import Task
from signalbox.tasks.limits import LIMITS as TASKS_LIMITS
from signalbox.tasks.machine.attempts import RetryLimits, delivered_event
from signalbox.tasks.model.attempts import FIRST, Start, TaskContext
from signalbox.tasks.model.contexts import (
    Context,
    OfGroup,
    OfStep,
    OfUnit,
    Plain,
    TaskSubject,
    is_named,
    is_of_completion,
    parsed,
    stable_names,
)
from signalbox.tasks.service import failures, group_runs, runs, starts
from signalbox.transforms import problems as transforms_problems

if TYPE_CHECKING:
    from signalbox.batches.model.units import Completion
    from signalbox.critical_sections.model import SectionRun
    from signalbox.flows.api.host import FlowHost
    from signalbox.flows.api.runs import Flow, FlowCode
    from signalbox.mailboxes.model.outcomes import Outcome
    from signalbox.objects.http import ObjectHost
    from signalbox.semaphores.model.leases import Lease

    Scheduled = TypeVar("Scheduled", bound="Task[..., Any] | Flow[..., Any]")
    Filled = TypeVar("Filled", Lease, SectionRun, Unit, list[Unit], Completion, Outcome, TaskContext)

PROBLEMS = (
    documents_problems,
    flows_problems,
    history_problems,
    objects_problems,
    rates_problems,
    resources_problems,
    standings_problems,
    transforms_problems,
)
"""Problems of subjects that a function may not use itself. They are loaded because an outcome's error can come from
another function, and is raised again as its own class (`CallOutcome.problem`)."""

P = ParamSpec("P")
R = TypeVar("R")
Class = TypeVar("Class", bound=type)
Handler = TypeVar("Handler", bound=Callable[..., Any])


class RegisterTask(Protocol):
    """Register a task with the options of `Function.task`."""

    @overload
    def __call__(self, code: Callable[Concatenate["Filled", TaskContext, P], Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def __call__(self, code: Callable[Concatenate["Filled", P], Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def __call__(self, code: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def __call__(self, code: Callable[Concatenate["Filled", TaskContext, P], R]) -> Task[P, R]: ...

    @overload
    def __call__(self, code: Callable[Concatenate["Filled", P], R]) -> Task[P, R]: ...

    @overload
    def __call__(self, code: Callable[P, R]) -> Task[P, R]: ...


class RegisterFlow(Protocol):
    """Register a flow with the options of `Function.flow`."""

    def __call__(self, code: "FlowCode[P, R]", /) -> "Flow[P, R]": ...


FLOW_TASKS = (FLOW_COMMAND_TASK, FLOW_RESULT_TASK)
"""Internal tasks of a function with flows."""


class Function:
    """A function of the catalogue. `name` is the name of its entry.

    `document_pattern` is the pattern of `document_written`, or None. `handlers` are those of `on_document`, by name.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.document_pattern: str | None = None
        self._routes = Routes(name)
        self._access = AccessRules(name)
        self._tasks: dict[str, Task[Any, Any]] = {}
        self._events: Callable[..., Any] | None = None
        self._handlers: dict[str, DocumentHandler] = {}
        self._objects: ObjectHost | None = None
        self._flows: FlowHost | None = None
        self._scheduled_flows: set[str] = set()
        self._overlaps: dict[str, Overlap] = {}
        self._has_flow_routes = False

    @property
    def tasks(self) -> Mapping[str, Task[..., Any]]:
        """The tasks, by name."""
        return self._tasks

    @property
    def task_parameters(self) -> dict[str, list[str]]:
        """The arguments of each task, by the task's name. Optional arguments have a question mark."""
        return {name: task.parameters for name, task in self._tasks.items()}

    def http(
        self, method: str, pattern: str = "/", *, query: Iterable[str] | None = None
    ) -> Callable[[Handler], Handler]:
        """Handle requests to ``{base}NAME`` + `pattern`; its ``{part}``s are `str` arguments, after the request.

        A handler's parameter `body` receives the JSON body, as a value of the parameter's type: a dataclass, or any
        other type of a task's argument. A body that does not have the type is answered with 400.

        The handler may be an ``async def``: it runs in the thread of its request, and is cancelled at the end of the
        request's time.

        The handler's return value is sent as JSON with 200, None as 204, a `Response` unchanged. `query` names the
        allowed query parameters, any other is refused with 400; None allows all.

        Raises `ValueError` for a pattern without a leading slash, or under a path that the kit itself serves, and
        `TypeError` for a parameter `body` without a type, or with a type that is not JSON.
        """
        if f"{pattern}/".startswith(RESERVED):
            raise ValueError(f"{', '.join(RESERVED)} are the kit's own: choose another pattern than {pattern!r}")

        route = self._routes.on(method, pattern, query=query, of_user=True)

        def register(handler: Handler) -> Handler:
            check_plain(handler, "handler", may_yield=True, may_await=True)

            codec = body_codec(handler, method, pattern)
            name = getattr(handler, "__name__", repr(handler))

            @wraps(handler)  # the page of the API shows its name, its docstring and its types
            def handle(request: Any, **parts: str) -> Any:
                sent = {} if codec is None else {BODY: body_of(request, codec)}
                seconds_left = partial(settings().timeout_of, self.name)

                def response() -> Any:
                    returned = handler(request, **parts, **sent)
                    is_async = iscoroutine(returned)
                    return response_of(result_of(returned, "handler", name, seconds_left) if is_async else returned)

                return user_code.run(response)

            route(handle)
            return handler

        return register

    @overload
    def task(self, code: Callable[Concatenate["Filled", TaskContext, P], Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def task(self, code: Callable[Concatenate["Filled", P], Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def task(self, code: Callable[P, Coroutine[Any, Any, R]]) -> Task[P, R]: ...

    @overload
    def task(self, code: Callable[Concatenate["Filled", TaskContext, P], R]) -> Task[P, R]: ...

    @overload
    def task(self, code: Callable[Concatenate["Filled", P], R]) -> Task[P, R]: ...

    @overload
    def task(self, code: Callable[P, R]) -> Task[P, R]: ...

    @overload
    def task(self, *, attempts_max: int = ..., queue: str = ...) -> "RegisterTask": ...

    def task(
        self,
        code: Callable[..., Any] | None = None,
        *,
        attempts_max: int = TASKS_LIMITS.attempts_max,
        queue: str = TASKS_QUEUE,
    ) -> Any:
        """Register a task under the name of its code. After `attempts_max` starts of the code, the task is given up.

        A delivery that ended before the code was started does not count. Calls of the task use `queue`, whose backoff
        is the pause between two attempts (`backoff_min_seconds` and the following fields in the catalogue). Raises
        `ValueError` for a second task of one name or a limit below 1, `TypeError` for a parameter whose type is not
        JSON.

        The code may be an ``async def``, which runs in the thread of its delivery and is cancelled at the end of the
        delivery's time.

        A call does not pass the parameters that the kit fills: `Lease`, `SectionRun`, `Unit`, ``list[Unit]``,
        `Completion`, `Outcome`, `TaskContext`. A type checker recognises them if they are the first parameters, with
        `TaskContext` last.
        """
        if attempts_max < 1:
            raise ValueError(f"attempts_max must be at least 1, not {attempts_max}")

        def register(code: Callable[..., Any]) -> Task[..., Any]:
            task: Task[..., Any] = Task(self.name, code, RetryLimits(attempts_max), queue)
            if task.name in (ACT_ON_RUN, CALL_OBJECT, FAILURE_NOTICE_TASK, *FLOW_TASKS):
                raise ValueError(f"the task {task.name} is the kit's own: choose another name")
            if self._tasks.setdefault(task.name, task) is not task:
                raise ValueError(f"{self.name} has two tasks of the name {task.name}")
            return task

        return register if code is None else register(code)

    def schedule(
        self,
        cron: str,  # noqa: ARG002  the catalogue reads the arguments
        *,
        time_zone: str = "Etc/UTC",  # noqa: ARG002  as is this one
        arguments: Mapping[str, Any] | None = None,  # noqa: ARG002  as is this one
        local_every_seconds: float | None = None,  # noqa: ARG002  as is this one
        name: str = "",  # noqa: ARG002  as is this one
        overlap: Overlap = "allow",
    ) -> "Callable[[Scheduled], Scheduled]":
        """Enqueue a task, or start a flow, at the times of a cron expression. Write it above the other decorator.

        For a flow, each time enqueues a task of the flow's name, which starts one run. The run's id is the operation of
        that task, so a time that comes twice starts one run.

        The task reads its planned time as `TaskContext.scheduled_at`. The catalogue reads the decorator from the code,
        so its arguments are constants: `arguments` of the task, `local_every_seconds`, the interval on a laptop instead
        of the times of `cron`, and `name`, for a second schedule of one task.

        With ``overlap="queue"`` a task waits while the task of another time runs; when one ends, the oldest one that
        waits begins. With ``"skip"`` it is left out instead, unless it is one of a backfill. A task that is between
        two attempts does not run. For the runs of a flow, use `flow.lock`.

        Raises `TypeError` if it decorates neither a task nor a flow, and `ValueError` if the function has a task of the
        flow's name, or for an impossible `overlap`.
        """

        if overlap not in get_args(Overlap):
            raise ValueError(f"overlap is {overlap!r}; write one of {', '.join(get_args(Overlap))}")

        def register(scheduled: "Scheduled") -> "Scheduled":
            if isinstance(scheduled, Task):
                if self._overlaps.setdefault(scheduled.name, overlap) != overlap:
                    raise ValueError(f"the schedules of {scheduled.name} differ in overlap: write the same for all")
                return scheduled
            if overlap != "allow":
                raise ValueError("overlap is for the schedule of a task: use flow.lock in the code of the flow")
            name = getattr(scheduled, "name", None)
            if self._flows is None or name not in self._flows.local.names:
                raise TypeError("write @app.schedule above @app.task or @app.flow: it schedules the task or the flow")
            if name not in self._scheduled_flows:
                if name in self._tasks:
                    raise ValueError(f"{self.name} has a task and a scheduled flow of the name {name}: rename one")
                self._scheduled_flows.add(name)
                self.task(self._flows.start_of(scheduled))
            return scheduled

        return register

    def object(self, code: Class) -> Class:
        """Register a class of durable objects under its name: see `signalbox.objects.api`.

        Raises `TypeError` for a field without a default or of a type that is not JSON, `ValueError` for a second class
        of one name.
        """
        self._objects = self._objects or self._new_host()
        self._objects.add(code)
        return code

    @overload
    def flow(self, code: "FlowCode[P, R]") -> "Flow[P, R]": ...

    @overload
    def flow(self, *, retention_days: int | None = ..., archive: str = ...) -> "RegisterFlow": ...

    def flow(self, code: Any = None, *, retention_days: int | None = None, archive: str = "") -> Any:
        """Register a flow, an ``async def``, under its name: see `signalbox.flows.api.runs`.

        A run that has ended is kept for `retention_days`, 32 to 3,650 (None: 32). With `archive`,
        ``gs://BUCKET/PREFIX`` or a folder, the run and its log are written there when it has ended, and it is not
        removed before. The options are those of the code that runs the last turn: a deployment changes nothing for runs
        that have ended.

        Raises `TypeError` for code that is not an ``async def``, or has a parameter whose type is not JSON, and
        `ValueError` for a second flow of one name or an invalid option.
        """
        host = self._flows = self._flows or self._new_flow_host()

        def register(code: Any) -> Any:
            return host.add(code, retention_days, archive)

        return register if code is None else register(code)

    def callbacks(self) -> None:
        """Serve the addresses that `flow.callback(…, through=NAME)` returns, below ``/callbacks/``.

        Each admits one event of one run, once. The function's entry needs `public: true`, so that the network reaches
        these addresses, and the secret `SIGNALBOX_CALLBACK_KEYS`.
        """
        from signalbox.flows.http.callback_pages import add_callback_routes  # only for functions with callbacks

        add_callback_routes(self._routes, self.name)

    def access(self, *names: str) -> Callable[[Callable[[Access], bool]], Callable[[Access], bool]]:
        """Register the rule that permits requests to the routes of these flows and classes, if the function is open.

        The code returns True to permit a request, anything else to refuse it with 403, or raises a `Problem`. Without
        a rule, or if `exposes` of the catalogue does not name them, these routes do not exist in an open function. In a
        private function the rule is not called. Raises `ValueError` for a second rule of one name.
        """

        def register(rule: Callable[[Access], bool]) -> Callable[[Access], bool]:
            check_plain(rule, "rule")
            for name in names:
                self._access.add(name, rule)
            return rule

        return register

    def document_written(self, pattern: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Handle each write of a record whose path matches `pattern` (``documents/{key}``), which is its trigger.

        `on_document` makes the handler a task, which is the better choice unless it costs more than it saves. Here the
        handler's arguments are the `DocumentEvent` and each ``{part}``. Calls that it makes are idempotent, as in a
        task. An event whose handler raises a `Problem` is kept as a failure and acknowledged. A function with an event
        handler has no routes and no tasks.
        """
        from signalbox.adapters.http import event_deliveries

        without_internal = event_deliveries.without_internal
        segments = segments_of_pattern(f"/{pattern}")
        self.document_pattern = pattern

        def register(handler: Callable[..., Any]) -> Callable[..., Any]:
            check_plain(handler, "handler", has_name=True)

            def handle(event: DocumentEvent) -> None:
                parts = match(segments, tuple(event.path.split("/")))
                if parts is None:
                    return
                delivered = delivered_event(self.name, event.id, event.path, current_trace())
                try:
                    with idempotent_calls(delivered.operation):
                        returned = user_code.run(partial(handler, without_internal(event), **parts))
                        check_ran(returned, "handler", handler.__name__)
                except Problem as problem:
                    failures.keep(runtime.ports(), delivered, FIRST, problem)
                    raise

            self._events = event_deliveries.document_written(self.name)(handle)
            return handler

        return register

    def on_document(
        self,
        pattern: str,
        *,
        on: Kind = WRITTEN,
        in_order: InOrder = False,
        prefix: str | None = None,
        type: str | None = None,  # noqa: A002  as the field is named
        changed: str | Sequence[str] | None = None,
        attempts_max: int = TASKS_LIMITS.attempts_max,
        queue: str = TASKS_QUEUE,
    ) -> Callable[[Handler], Handler]:
        """Run the handler as a task for each event of a document whose path matches `pattern` (``orders/{id}``).

        The handler's arguments are the `DocumentEvent`, then each ``{part}`` by its name, and a `TaskContext` if it has
        such a parameter. The event is acknowledged once the task is enqueued, under an id that all its deliveries
        share. An event whose data would not fit into a task arrives without it (`DocumentEvent.partial`).

        - `pattern`: ``{path=**}`` at its end matches one segment or more.
        - `on`: ``created``, ``updated`` or ``deleted``; ``written`` is all of them.
        - `in_order`: the handler runs for one event of a document at a time, in the order of the document's versions.
          An event that arrives after the handler has begun a later event of the same document is left out. With
          ``"each"`` none is left out: an event waits up to a minute for the one before it, and one that arrives later
          than that is handled late.
        - `prefix`, `type`, `changed`: only events of documents whose key begins with `prefix`, whose field ``type`` is
          `type`, and that change one of these fields (``"address.city"``). Other events cost no task. An event that
          arrives without its data passes `type` and `changed`.
        - `attempts_max`, `queue`: the options of `task`.

        Raises `ValueError` for a pattern that no trigger has, an unknown kind, a filter that is empty or is not a text,
        or a second task of one name, and `TypeError` for a handler with other parameters.
        """
        parsed = DocumentPattern.parse(pattern)
        if on not in KINDS:
            raise ValueError(f"on is {on!r}; write one of {', '.join(KINDS)}")
        if in_order not in (True, False, EACH):
            raise ValueError(f"in_order is {in_order!r}; write True, False or {EACH!r}")
        chosen = DocumentFilter.of(prefix, type, changed)
        register_task: Any = self.task(attempts_max=attempts_max, queue=queue)

        def register(handler: Handler) -> Handler:
            check_plain(handler, "handler", has_name=True, may_await=True)
            task = register_task(task_code(handler, parsed))
            self._handlers[task.name] = DocumentHandler(parsed, on, task, in_order, chosen)
            return handler

        return register

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            """Raise `AttributeError`, which for `on_stuck` names the decorator to use."""
            if name != "on_stuck":
                return object.__getattribute__(self, name)
            advice = "use `@app.on_failure`, which is also called for stuck runs"
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}: {advice}")

    def on_failure(self, code: Handler) -> Handler:
        """Run the code as a task for each failure that waits for a person: it has one argument, the `notice`.

        A notice is delivered at least once; ``context.operation`` of a parameter `TaskContext` is the same in every
        delivery. It tells of a flow of this function that is stuck, has failed or has timed out, a task that is given
        up, a call of an object that is given up or an object whose messages cannot be applied, and a batch that has
        ended without success. What a caller awaits and receives as an error, such as the failure of a step, a sub-flow
        or a flow's batch, has no notice. Neither has the failure of this code.

        Raises `TypeError` if the code has other arguments than ``notice: FailureNotice``, and `ValueError` for a second
        one.
        """
        task: Task[..., Any] = Task(
            self.name, code, RetryLimits(TASKS_LIMITS.attempts_max), TASKS_QUEUE, FAILURE_NOTICE_TASK
        )
        if task.parameters != ["notice"]:
            raise TypeError(f"{code.__name__} handles failures: write def {code.__name__}(notice: FailureNotice)")
        if self._tasks.setdefault(FAILURE_NOTICE_TASK, task) is not task:
            raise ValueError(f"{self.name} has two functions for on_failure: handle the notices in one")
        return code

    @property
    def handlers(self) -> "Mapping[str, DocumentHandler]":
        """The handlers of `on_document`, by name."""
        return self._handlers

    @property
    def class_names(self) -> frozenset[str]:
        """The names of the function's classes of objects."""
        return self._objects.names if self._objects else frozenset()

    @property
    def flow_names(self) -> frozenset[str]:
        """The names of the function's flows."""
        return self._flows.local.names if self._flows else frozenset()

    def entry_point(self) -> Callable[..., Any]:
        """Return the function that functions-framework calls, with a request or with an event."""
        if self._events is not None and self._handlers:
            raise ValueError(f"{self.name} has document_written and on_document: write on_document in all places")
        if self._events is not None:
            return self._events
        tasks = task_entry(self.name)(self._run)
        turns = task_entry(self.name)(self._run_turn)
        host = self._objects
        if host and CALL_OBJECT not in self._tasks:
            self._add_objects(host)
        if self._flows and self._flows.local.names and ACT_ON_RUN not in self._tasks:
            self._tasks[ACT_ON_RUN] = self._flows.act_on_run
        if self._flows and not self._has_flow_routes:
            self._flows.add_routes(self._routes, self._access)
            self._has_flow_routes = True
        if self._flows:
            self._flows.serve()
        forwarding = forwarding_entry(self.name)
        own = {TASKS: tasks, TURNS: turns}
        if self._handlers:
            from signalbox.adapters.http.event_deliveries import receiving_entry  # as in `on_document`

            own[EVENTS] = receiving_entry(self.name, partial(receive, self.name, self._handlers))
        entry = dispatch(
            self._routes.entry_point(), own, forwarding, nothing_here(self.name), self._is_open_without_tasks
        )
        return entry_point(self.name, within(host.serving, entry) if host else entry)

    def _is_open_without_tasks(self) -> bool:
        """Return whether any client may call the function, and no queue does.

        An open function that queues call is deployed twice, so it is always served as one of its two parts.
        """
        return self.name in settings().open_functions and not (self._tasks or self._flows or self._objects)

    def _add_objects(self, host: "ObjectHost") -> None:
        """Add the routes of objects, and the task that calls a method."""
        host.add_routes(self._routes, self._access)
        self._tasks[CALL_OBJECT] = Task(
            self.name, host.call_method, RetryLimits(TASKS_LIMITS.attempts_max), TASKS_QUEUE
        )

    def _new_host(self) -> "ObjectHost":
        from signalbox.objects.http import ObjectHost  # only for functions that have objects

        return ObjectHost(self.name)

    def _new_flow_host(self) -> "FlowHost":
        from signalbox.flows.api.host import FlowHost  # only for functions with flows or steps of flows

        return FlowHost(self.name)

    def bind(self, store: Store, queue: TaskQueue, clock: Clock) -> None:
        """Use this store, queue and clock in this process from now on. For tests; see `signalbox.testing.Harness`."""
        runtime.bind(Ports(store, queue, clock, runtime.log()))

    def _run(self, ports: Ports, delivered: Delivered[Members]) -> None:
        is_completion = is_of_completion(delivered.context)
        try:
            self._run_named(ports, delivered)
        except Problem:
            if is_completion:
                forget_completion(ports, delivered.operation)
            raise
        if is_completion:
            forget_completion(ports, delivered.operation)

    def _run_named(self, ports: Ports, delivered: Delivered[Members]) -> None:
        if delivered.task in FLOW_TASKS:
            if self._flows is None:
                raise Unavailable(f"{self.name} has no flows; a newer deployment may have them")
            to_be_retried(ports, lambda: self._flow_host.run_own_task(ports, parsed(delivered)))
        else:
            self._run_task(ports, parsed(delivered))

    def _run_task(self, ports: Ports, delivered: Delivered[Context]) -> None:
        task = self._tasks.get(delivered.task)
        limits = task.retry_limits if task else RetryLimits(TASKS_LIMITS.attempts_max)
        received_at = time.monotonic()
        has_keys = task is None or not task.takes_units

        def code(own: Delivered[Context], subject: TaskSubject | list[Unit] | None, begun: Start) -> Any:
            hold(stable_names(subject))
            if task is None:
                known = ", ".join(self._tasks) or "none"
                raise UnknownTask(f"The function {self.name} has no task {delivered.task!r}. Its tasks: {known}.")
            payload = opened_members(own.payload) if is_named(own.context) else own.payload
            returned = task.run(payload, opened_subject(subject), task_context(own, begun, limits, received_at))
            starts.report_fewer_calls(ports, own)
            if not isinstance(own.context, OfUnit):
                task.check_is_no_batch(returned)
            if task.takes_units:
                return (
                    task.results(returned, len(subject)) if isinstance(subject, list) else task.results(returned, 1)[0]
                )
            return task.encoded(returned) if isinstance(own.context, OfStep | OfUnit) else returned

        def code_of_units(own: Delivered[OfUnit], subject: TaskSubject | list[Unit] | None, begun: Start) -> Any:
            with idempotent_calls(own.operation, is_repeated=own.is_repeated, has_keys=has_keys):
                return code(
                    own if has_keys else replace(own, operation=of_group.context.group.operation), subject, begun
                )

        if settings().in_cloud and not is_known(task, delivered):
            starts.wait_for_newer_code(ports, delivered, lambda: is_coming(task, delivered))
        if isinstance(delivered.context, OfGroup):
            of_group = delivered.within(delivered.context)
            join = task.joined if task is not None and task.takes_units else None
            time_of_group = group_time(self.name)
            with opening_those_of(ports):
                group_runs.run_group(ports, of_group, limits, is_live, code_of_units, time_of_group, join=join)
            return
        keyed = idempotent_calls(delivered.operation, is_repeated=delivered.is_repeated, has_keys=has_keys)
        with opening_those_of(ports), keyed:
            if isinstance(delivered.context, OfStep):
                of_step = delivered.within(delivered.context)
                self._flow_host.run_step(ports, of_step, limits, partial(code, delivered))
            else:
                run = partial(runs.run, ports, delivered, limits, is_live, partial(code, delivered))
                self._in_order(ports, delivered, run)

    def _in_order(self, ports: Ports, delivered: Delivered[Context], run: Callable[[], None]) -> None:
        """Run a task. The task of an event whose handler keeps the order waits for its turn, or is left out.

        So does the task of a schedule whose times must not overlap.
        """
        handler, context = self._handlers.get(delivered.task), delivered.context
        if isinstance(context, Plain) and context.scheduled_at:
            overlap = self._overlaps.get(delivered.task, "allow")
            if overlap != "allow" or self._others_wait(ports, delivered):
                skips = overlap == "skip" and not context.is_backfill
                return self._alone(ports, delivered, context.scheduled_at, skips, run)
        if handler is None or not handler.in_order:
            return run()
        from signalbox.document_events import model, service  # only for functions with such a handler

        event, path = str(delivered.payload.get("event", "")), str(delivered.payload.get("path", ""))
        record = model.path_of(self.name, delivered.task, path)
        place, after = delivered.payload.get("place"), delivered.payload.get("after")
        creates = handler.waits and delivered.payload.get("kind") == CREATED
        ordered = model.OrderedEvent(record, path, event, place, handler.in_order == EACH, after, creates=creates)
        return service.run(ports, ordered, settings().timeout_of(self.name), run)

    def _others_wait(self, ports: Ports, delivered: Delivered[Context]) -> bool:
        """Return whether times may wait for this one, although this code has no rule for them, or no such task.

        Then this time has waited, too, or it was delivered before, to code with the rule, and its process has died.
        """
        if delivered.turns or not delivered.is_repeated:
            return bool(delivered.turns)
        from signalbox.document_events import model, service  # a repeated delivery may cost a read more

        return service.do_wait(ports, model.path_of(self.name, delivered.task, model.SCHEDULES))

    def _alone(
        self, ports: Ports, delivered: Delivered[Context], at: datetime, skips: bool, run: Callable[[], None]
    ) -> None:
        """Run the task of a planned time while no task of another one runs. Otherwise it waits, or is left out."""
        from signalbox.document_events import machine, model, service  # only for functions with such a schedule

        name = f"{self.name}/{delivered.task}"
        record, place = model.path_of(self.name, delivered.task, model.SCHEDULES), machine.place_of(at, None)
        task, turn = enqueued_again(delivered), delivered.turns + 1
        planned = model.OrderedEvent(
            record, name, delivered.operation, place, each=True, skips=skips, task=task, turn=turn
        )
        return service.run(ports, planned, settings().timeout_of(self.name), run)

    def _run_turn(self, ports: Ports, delivered: Delivered[Members]) -> None:
        """Run the mailbox of an object or of a flow."""
        flows = str(delivered.payload.get("mailbox", "")).startswith("flows/")
        host: FlowHost | ObjectHost = self._flow_host if flows else self._objects or self._new_host()
        to_be_retried(ports, lambda: host.run_turn(ports, delivered), partial(refused_turn_notice, delivered))

    @property
    def _flow_host(self) -> "FlowHost":
        return self._flows or self._new_flow_host()
