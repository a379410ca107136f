"""Google Cloud around functions, simulated in this process; it acts only when a test asks for it.

The store is the in-memory one. Its events and the queue's tasks wait in two lists until they are delivered to the
functions' real entry points. The clock moves only when a test moves it, or to the time of the next task.

Functions are served as functions-framework serves them: those of the catalogue, of a folder, or of a test.
"""

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, replace
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import flask
import functions_framework
from functions_framework import _function_registry
from werkzeug.test import TestResponse

from signalbox import Function
from signalbox.adapters import runtime, settings, wall_clock
from signalbox.adapters.cloud_tasks import task_request
from signalbox.adapters.cost_meter import Cost, metered
from signalbox.adapters.http import invocations
from signalbox.adapters.settings import Settings, from_environment
from signalbox.batches.api import forget_liveness
from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.cron import times
from signalbox.catalogue.derived_keys import usage_of
from signalbox.catalogue.parts import absent
from signalbox.catalogue.project import Project, python_files
from signalbox.catalogue.reading import Catalogue, Rate, Schedule, Semaphore
from signalbox.core.document_patterns import WRITTEN, matches
from signalbox.core.effects import Effect
from signalbox.core.kit_names import DOCUMENT_EVENTS_PATH
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.ports import Delete, DocumentEvent, Ports, Put, Query, Snapshot
from signalbox.core.problems import Problem
from signalbox.core.records.composite_indexes import Index
from signalbox.flows.storage.listings import INDEXES
from signalbox.rates import service as rates
from signalbox.semaphores.service.settings import put as put_semaphore
from signalbox.testing.clock_warnings import warn_of_clocks
from signalbox.testing.deliveries import FAILED, UNAVAILABLE, Delivery, Faults, body_of, event_of, headers_of, succeeded
from signalbox.testing.held_task_queue import HeldTaskQueue
from signalbox.testing.indexed_store import IndexedStore
from signalbox.testing.manual_clock import ManualClock
from signalbox.testing.memory_payloads import MemoryPayloads
from signalbox.testing.memory_store import MemoryStore
from signalbox.testing.recorded_log import RecordedLog

# --- functions ---


FRAMEWORK_VARIABLES = ("FUNCTION_TARGET", "FUNCTION_SIGNATURE_TYPE", "FUNCTION_SOURCE")
"""Variables that the framework leaves in the environment."""


FUNCTIONS = "signalbox_functions"
"""The extension of an application that has its functions."""

CALLBACK_KEY = "a key of callbacks that is for tests only"


class UnknownFunction(LookupError):
    """No function of this name is in the catalogue or was added to the harness."""


@dataclass(frozen=True, slots=True)
class Trigger:
    """Events of the type that ends in `kind`, of records under the pattern `document`, invoke `function` at `path`."""

    function: str
    document: str
    kind: str = WRITTEN
    path: str = ""

    def fits(self, event: DocumentEvent) -> bool:
        """Return whether the event invokes the function."""
        return matches(self.document, event.path) and self.kind in (WRITTEN, event.kind)


class _KnownTasks(dict[str, frozenset[str]]):
    """The tasks of each function.

    A test may add a function later, so a call of an unknown function raises only when it arrives.
    """

    def __contains__(self, name: object) -> bool:
        return True


class FunctionTable:
    """Functions by name. A function of the catalogue is loaded when it is first called, once in each process."""

    def __init__(self, catalogue: Path | None = None, database: str = "") -> None:
        self._catalogue = _catalogue(catalogue or Project.find().catalogue, database)
        self._variables = {**_placeholders(self._catalogue), **self._catalogue.variables}
        self._apps: dict[str, flask.Flask] = {}
        self._added: set[str] = set()
        self._classes: dict[str, str] = {}
        self._flows: dict[str, str] = {}
        self._auth: dict[str, str] = {}
        self._open: dict[str, frozenset[str]] = {}
        self._parameters: dict[str, dict[str, list[str]]] = {}
        self.triggers = [
            Trigger(trigger.function, trigger.document, trigger.event.rpartition(".")[2], trigger.path)
            for trigger in self._catalogue.triggers.values()
        ]

    def app(self, name: str) -> flask.Flask:
        """Return a function's application. Raises `UnknownFunction`."""
        if name not in self._apps:
            self._apps[name] = self._load(name)
        return self._apps[name]

    def settings(self) -> Settings:
        """Return the settings of these functions: the environment's, with what follows from the catalogue."""
        auth = {**self._catalogue.auth, **self._auth}
        origins, opened = self._catalogue.origins, {**self._catalogue.open_functions, **self._open}
        history = json.dumps([rule.to_json() for rule in self._catalogue.history_rules])
        chosen = replace(settings.settings(), origins=origins, history=history, tokens_unsigned=True)
        chosen = replace(chosen, calling_queues=self._calling_queues())
        timeouts = {name: each.timeout_seconds for name, each in self._catalogue.functions.items()}
        chosen = replace(chosen, timeouts={**timeouts, **chosen.timeouts})
        chosen = replace(chosen, document_writers=self._catalogue.document_writers)
        chosen = replace(chosen, elsewhere=self._catalogue.elsewhere)
        chosen = replace(chosen, parts=frozenset(self._catalogue.parts))
        chosen = replace(chosen, payloads="memory" if self._catalogue.payloads else "")
        classes = {**self._catalogue.object_classes, **self._classes}
        flows = {**self._catalogue.flow_functions, **self._flows}
        tasks = _KnownTasks({**self._catalogue.task_functions, **{name: frozenset[str]() for name in self._apps}})
        chosen = replace(chosen, object_classes=classes, flow_functions=flows, task_functions=tasks)
        parameters = json.dumps({**self._catalogue.task_parameters, **self._parameters})
        chosen = replace(chosen, callback_keys=chosen.callback_keys or CALLBACK_KEY)
        return replace(chosen, auth=auth, open_functions=opened, task_parameters=parameters)

    def add(self, function: Function, auth: str = "", exposes: Collection[str] | None = None) -> None:
        """Add a function made in a test. It replaces a function of the same name.

        `auth` and `exposes` are as in the catalogue. If `exposes` is None, the function is private.
        """
        self._apps[function.name] = application(function)
        self._added.add(function.name)
        self.triggers = [each for each in self.triggers if each.function != function.name]
        self._note_code(function.name, function.class_names, function.flow_names)
        self._auth[function.name] = auth
        self._parameters[function.name] = function.task_parameters
        self._open.pop(function.name, None)
        if exposes is not None:
            self._open[function.name] = frozenset(exposes)
        if function.document_pattern is not None:
            self.triggers.append(Trigger(function.name, function.document_pattern))
        for name, handler in function.handlers.items():
            self._listen(function.name, name, handler.pattern.text, handler.on)

    def load(self, folder: Path, name: str, signature_type: str) -> None:
        """Add the function of ``main.py`` in `folder`."""
        with self.variables_set():
            self._apps[name] = load(name, folder.resolve(), signature_type)
        self._added.add(name)
        usage = usage_of(python_files(folder))
        self._parameters[name] = {task: list(each) for task, each in usage.parameters.items()}
        self._note_code(name, usage.objects, usage.flows)
        for handler, (_, trigger) in usage.handlers.items():
            self._listen(name, handler, trigger["document"], trigger["event"].rpartition(".")[2])

    def _listen(self, function: str, handler: str, document: str, kind: str) -> None:
        """Add the trigger of a handler, if the trigger is not there yet."""
        path = f"{DOCUMENT_EVENTS_PATH}/{handler}"
        if all((each.function, each.path) != (function, path) for each in self.triggers):
            self.triggers.append(Trigger(function, document, kind, path))

    def _note_code(self, function: str, classes: Iterable[str], flows: Iterable[str]) -> None:
        """Note the function that has the code of these classes and flows."""
        self._classes.update(dict.fromkeys(classes, function))
        self._flows.update(dict.fromkeys(flows, function))

    @property
    def indexes(self) -> list[Index]:
        """The composite indexes of the catalogue."""
        return [index.parsed for index in self._catalogue.indexes.values()]

    @contextmanager
    def variables_set(self) -> Iterator[None]:
        """Set the variables of the catalogue's functions that the environment lacks. A secret has a placeholder."""
        lacking = {name: value for name, value in self._variables.items() if name not in os.environ}
        os.environ.update(lacking)
        try:
            yield
        finally:
            for name in lacking:
                os.environ.pop(name, None)

    def task(self, function: str, name: str) -> Callable[..., Any] | None:
        """Return the code of a user's task, or None for an internal task."""
        served: Iterable[Function] = self.app(function).extensions.get(FUNCTIONS, ())
        return next((each.tasks[name] for each in served if name in each.tasks), None)

    def scheduled(self, schedule: str) -> Schedule:
        """Return a schedule of the catalogue. Raises `LookupError`."""
        if schedule not in self._catalogue.schedules:
            known = ", ".join(sorted(self._catalogue.schedules)) or "none"
            raise LookupError(f"no schedule {schedule!r}; there are: {known}")
        return self._catalogue.schedules[schedule]

    def semaphores(self) -> list[Semaphore]:
        """Return the semaphores of the catalogue."""
        return list(self._catalogue.semaphores.values())

    def rates(self) -> list[Rate]:
        """Return the rates of the catalogue."""
        return list(self._catalogue.rates.values())

    def schedule_times(self, after: datetime, until: datetime) -> list[tuple[datetime, str]]:
        """Return the times of the schedules that name a task, with the schedules' names, in order."""
        schedules = [schedule for schedule in self._catalogue.schedules.values() if schedule.task]
        return sorted(
            (time, each.name) for each in schedules for time in times(each.cron, after, until, each.time_zone)
        )

    def _load(self, name: str) -> flask.Flask:
        entries = self._catalogue.functions
        if name not in entries:
            there = f"no function {name!r}; there are: {', '.join(sorted({*entries, *self._apps}))}"
            if name in self._catalogue.elsewhere:
                there = f"{name} has another database: add a stand-in for it, harness.add(Function({name!r}))"
            raise UnknownFunction(f"{there}. {absent(name)}".removesuffix(". "))
        with self.variables_set():
            return load(name, entries[name].folder, entries[name].signature_type)

    def _calling_queues(self) -> dict[str, frozenset[str]]:
        """Return the queues that call each function. A function that a test has added may name any queue."""
        return {name: queues for name, queues in self._catalogue.calling_queues.items() if name not in self._added}


def _placeholders(catalogue: Catalogue) -> dict[str, str]:
    """Return a value for each secret of the catalogue, which has the secret's name and is no secret."""
    return {
        variable: f"placeholder-of-{secret}"
        for secrets in catalogue.secrets.values()
        for variable, secret in secrets.items()
    }


@cache
def _catalogue(path: Path, database: str) -> Catalogue:
    return catalogues.load(path, database=database)


def application(function: Function) -> flask.Flask:
    """Serve a function that was made in this process."""
    app = flask.Flask(function.name)
    app.extensions[FUNCTIONS] = [function]
    with app.app_context():
        entry: Any = function.entry_point()
    configure: Any = functions_framework._configure_app
    configure(app, entry, "http" if function.document_pattern is None else "cloudevent")
    return app


@cache
def load(name: str, folder: Path, signature_type: str = "http") -> flask.Flask:
    """Serve the function of a folder. Its module keeps its state in this process, as in an instance."""
    modules, path = dict(sys.modules), list(sys.path)
    create_app: Any = functions_framework.create_app
    try:
        app: flask.Flask = create_app(name, str(folder / "main.py"), signature_type)
        app.extensions[FUNCTIONS] = _defined(modules)
    finally:
        _forget(modules, folder)
        sys.path[:] = path
    _function_registry.REGISTRY_MAP.pop(name, None)
    return app


def _defined(modules: Mapping[str, Any]) -> list[Function]:
    """Return the functions of Signalbox in the modules that were loaded since."""
    newer = [module for name, module in sys.modules.items() if modules.get(name) is not module]
    return [value for module in newer for value in vars(module).values() if isinstance(value, Function)]


def _forget(modules: Mapping[str, Any], folder: Path) -> None:
    """Remove the framework's traces: its variables, and the folder's modules under top-level names."""
    for variable in FRAMEWORK_VARIABLES:
        os.environ.pop(variable, None)
    for name, module in list(sys.modules.items()):
        if modules.get(name) is not module and str(getattr(module, "__file__", "")).startswith(f"{folder}/"):
            del sys.modules[name]


# --- the platform ---


RECORDS_MAX = 1_000_000
DELIVERIES_MAX = 10_000
"""Deliveries of a run after which it is assumed never to end."""


class Platform:
    """Store, queue, events, clock and log, and deliveries to the functions of a catalogue: by default the project's.

    `tasks` and `events` wait for their delivery, oldest first; a test may inspect, remove or reorder them. `abandoned`
    are the deliveries that ended with a `Problem`, which are not retried.
    """

    def __init__(self, catalogue: Path | None = None, *, database: str = "") -> None:
        """Use the functions of the catalogue with this `database` in their entries; if it is empty, without one."""
        self.clock = ManualClock()
        self.queue = HeldTaskQueue(self.clock)
        self.log = RecordedLog()
        self.store = MemoryStore(lambda: self.clock.now, self._observe)
        self.functions = FunctionTable(catalogue, database)
        indexed = IndexedStore(self.store, (*self.functions.indexes, *INDEXES))
        self.payloads = MemoryPayloads(lambda: self.clock.now)
        self.ports = metered(Ports(indexed, self.queue, self.clock, self.log, self.payloads))
        self.events: list[DocumentEvent] = []
        self.abandoned: list[Delivery] = []
        self._events_seen = 0
        self._has_travelled = False
        for each in self.functions.semaphores():
            put_semaphore(self.ports, each.name, each.settings)
        for rate in self.functions.rates():
            rates.put(self.ports, rate.name, rate.settings)

    @property
    def tasks(self) -> list[Effect]:
        return self.queue.tasks

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Use this store, queue and clock in all functions of this process while the context is entered."""
        before = runtime.bind(self.ports)
        clock_before = wall_clock.bind(lambda: self.clock.now)
        settings_before = settings.bind(self.functions.settings())
        sending_before = invocations.bind(self._invoke)
        if before is None or before.store is not self.ports.store:
            forget_liveness()
        try:
            with self.functions.variables_set():
                yield
        finally:
            invocations.bind(sending_before)
            settings.bind(settings_before)
            wall_clock.bind(clock_before)
            runtime.bind(before)

    def advance(self, seconds: float) -> None:
        """Advance the clock. This delivers nothing."""
        self.clock.advance(seconds)
        forget_liveness()

    def record(self, path: str) -> Any:
        """Return the data of the record at a path, or None if it does not exist."""
        return self.store.read(path)[0].data

    def ids(self, collection: str) -> list[str]:
        """Return the ids of all records of a collection, in order."""
        return [snapshot.id for snapshot in self.store.query(Query(collection, limit=RECORDS_MAX))]

    def write_record(self, path: str, data: Mapping[str, Any] | None) -> None:
        """Write the record at a path as a client of Firestore does, or delete it (None): its events wait in `events`.

        For records of your own collections, such as ``orders/7``; documents have `signalbox.documents`.
        """
        self.store.commit([Delete(path) if data is None else Put(path, data)])

    # --- one delivery ---

    def deliver_task(self, task: Effect, *, executions: int | None = None, retries: int | None = None) -> Delivery:
        """Deliver a task once, due or not, and return the outcome. An error is neither raised nor retried.

        The headers count earlier deliveries as the queue does, unless counts are passed.
        """
        if task in self.tasks:
            self.tasks.remove(task)
        if self._has_travelled and (code := self.functions.task(task.function, task.task)):
            warn_of_clocks(code)
        attempts = self.queue.attempts(task)
        counts = {
            "X-CloudTasks-QueueName": task.queue,
            "X-CloudTasks-TaskName": task.name,
            "X-CloudTasks-TaskExecutionCount": str(attempts.executions if executions is None else executions),
            "X-CloudTasks-TaskRetryCount": str(attempts.retries if retries is None else retries),
        }
        call = task_request(from_environment({}), task, task.trace)["task"]["http_request"]
        headers = {**call["headers"], **counts}
        return self._deliver(f"{task.function}/{task.task}", task.function, task.path, call["body"], headers)

    def deliver_event(self, event: DocumentEvent) -> list[Delivery]:
        """Deliver an event once to each function with a matching trigger, as `deliver_task` does."""
        if event in self.events:
            self.events.remove(event)
        triggers = [trigger for trigger in self.functions.triggers if trigger.fits(event)]
        what, sent = f"event of {event.path}", (body_of(event), headers_of(event))
        return [self._deliver(what, trigger.function, trigger.path or "/", *sent) for trigger in triggers]

    def run_schedule(self, schedule: str) -> Delivery:
        """Make the call of a schedule of the catalogue now. Raises `TaskFailed`, and `LookupError` if there is none."""
        headers = {"X-CloudScheduler-JobName": schedule, "X-CloudScheduler-ScheduleTime": self.clock.now.isoformat()}
        entry = self.functions.scheduled(schedule)
        headers |= {"Content-Type": "application/json"} if entry.body else {}
        return succeeded(self._deliver(schedule, entry.called, "/", entry.body, headers))

    def take(self, task: str) -> Effect:
        """Remove the only waiting task of that name from the queue and return it, for the test to deliver it.

        Raises `LookupError` if no task of that name waits, or several do.
        """
        taken = [waiting for waiting in self.tasks if waiting.task == task]
        if len(taken) != 1:
            known = ", ".join(sorted(waiting.task for waiting in self.tasks)) or "none"
            raise LookupError(f"{len(taken)} tasks {task!r} wait, not one; there are: {known}")
        self.tasks.remove(taken[0])
        return taken[0]

    # --- all deliveries ---

    def run(self, faults: Faults | None = None, *, raise_errors: bool = True, due_only: bool = False) -> None:
        """Deliver all events and tasks, and those that follow from them, until nothing waits.

        The clock moves to each task's time; with `due_only` it does not move, and later tasks keep waiting. Raises
        `TaskFailed`, with the traceback, if the function's code raises, or with the place if a run gets stuck.
        Without `raise_errors`, a task that raises is retried until it is given up.
        """
        _Run(self, faults or Faults(), raise_errors).all(self.clock.now if due_only else None)

    def travel(self, seconds: float, faults: Faults | None = None, *, raise_errors: bool = True) -> None:
        """Advance the clock by `seconds`, and deliver each task that becomes due at its time. Raises as `run` does.

        A month of a flow passes in milliseconds: ``harness.travel(30 * 86_400)``. The schedules of the catalogue that
        name a task are run at their times, in UTC; the kit's schedules are run only by `run_schedule`.
        """
        self._has_travelled = True
        end = self.clock.now + timedelta(seconds=seconds)
        run = _Run(self, faults or Faults(), raise_errors)
        for time, schedule in self.functions.schedule_times(self.clock.now, end):
            run.all(time)
            self.advance((time - self.clock.now).total_seconds())
            self.run_schedule(schedule)
        run.all(end)
        self.advance(max(0.0, (end - self.clock.now).total_seconds()))

    # --- what both need ---

    def call(self, function: str, path: str, **request: Any) -> TestResponse:
        """Send an HTTP request to a function's entry point, with the arguments of werkzeug's test client."""
        app = self.functions.app(function)
        with self.bound():
            return app.test_client().open(path, **request)

    def _invoke(self, call: invocations.Invocation) -> tuple[int, bytes]:
        answer = self.call(call.function, call.path, method=call.method, data=call.body, headers=call.headers)
        return answer.status_code, answer.data

    def _deliver(self, what: str, function: str, path: str, body: bytes, headers: Mapping[str, str]) -> Delivery:
        lines = len(self.log.infos), len(self.log.errors)
        status = self.call(function, path, method="POST", data=body, headers=headers).status_code
        exceptions = [values.get("exception") for _, values in self.log.errors[lines[1] :]]
        raised = next((exception for exception in reversed(exceptions) if isinstance(exception, Exception)), None)
        stuck = [values for message, values in self.log.errors[lines[1] :] if message == "flow stuck"]
        reason = "; ".join(f"the flow {values['flow']}/{values['id']} is stuck: {values['detail']}" for values in stuck)
        delivery = Delivery(what, status, self._cost(lines[0]), raised, reason)
        if isinstance(raised, Problem) and 200 <= status < 300:  # otherwise it is delivered again
            self.abandoned.append(delivery)
        return delivery

    def _cost(self, first: int) -> Cost:
        """Return the cost of the call, from the log line that every handled call writes."""
        always = Cost().to_json().keys()
        counted = [values for _, values in self.log.infos[first:] if values.keys() >= always]
        names = [field.name for field in fields(Cost) if counted and field.name in counted[-1]]
        return Cost(**{name: int(str(counted[-1][name])) for name in names})

    def _observe(self, path: str, before: Snapshot, after: Snapshot) -> None:
        event = event_of(f"event-{self._events_seen}", path, before, after)
        if any(trigger.fits(event) for trigger in self.functions.triggers):
            self._events_seen += 1
            self.events.append(event)


@dataclass(frozen=True, slots=True)
class _Run:
    """Deliveries on a platform. A delivery that fails raises `TaskFailed`; without `raise_errors` it is retried."""

    platform: Platform
    faults: Faults
    raise_errors: bool

    def all(self, until: datetime | None = None) -> None:
        """Deliver until nothing waits or, with `until`, nothing is due by that time. Events come before tasks."""
        queue = self.platform.queue
        for _ in range(DELIVERIES_MAX):
            if self.platform.events:
                self._deliver_event()
            elif queue.tasks and (until is None or queue.due() or queue.next_at() <= until):
                queue.advance_to_next()
                self._deliver_task()
            else:
                return
        raise AssertionError(
            f"still waiting after {DELIVERIES_MAX:,} deliveries: {[task.task for task in queue.tasks]}"
        )

    def _deliver_event(self) -> None:
        events = self.platform.events
        event = events.pop(self.faults.index(len(events)))
        for _ in range(1 + self.faults.duplicates()):
            deliveries = self.platform.deliver_event(event)
        if self.faults.once("lose_answer", event.id) or any(map(self._is_to_retry, deliveries)):
            events.append(event)

    def _deliver_task(self) -> None:
        queue = self.platform.queue
        due = queue.due()
        task = due[self.faults.index(len(due))]
        queue.tasks.remove(task)
        if self.faults.once("late", task.name):
            queue.postpone(task, self.faults.late_seconds)
        elif self.faults.once("unavailable", task.name):
            queue.retry(task, executed=False)
        else:
            for _ in range(1 + self.faults.duplicates()):
                delivery = self.platform.deliver_task(task)
            if self._is_to_retry(delivery) or self.faults.once("lose_answer", task.name):
                queue.retry(task, executed=True)

    def _is_to_retry(self, delivery: Delivery) -> bool:
        if delivery.status == UNAVAILABLE or (delivery.status == FAILED and not self.raise_errors):
            return True
        succeeded(delivery if self.raise_errors else replace(delivery, stuck=""))
        return False
