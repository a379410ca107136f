"""The catalogue as a whole, and the rules that its entries must keep together.

Every queue that a function enqueues to must exist. Each kind of caller that a function declares must call it. A
function has at most one trigger without a handler, and a class of objects or a flow belongs to one function.
"""

import difflib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from pathlib import Path

from signalbox.catalogue.catalogue_errors import CatalogueError, refuse
from signalbox.catalogue.entries import Declared, History, Index, Queue, Rate, Schedule, Semaphore, Trigger
from signalbox.catalogue.function_entries import ENQUEUING, Function
from signalbox.core.calls import Call, check_arguments
from signalbox.core.kit_names import ANYONE, CALL_OBJECT, FLOWS_QUEUE, OBJECTS_QUEUE, TASKS_QUEUE, shard_names
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadArgument
from signalbox.history.model import HistoryRule

SEMAPHORES = "semaphores"
"""The kit's function that creates semaphores."""

RATES = "rates"
"""The kit's function that creates rates."""

ONE_EACH = (
    "Cloud Functions allows one trigger for each function: write on_document, which may have any number of patterns, "
    "or add another function for this trigger"
)


@dataclass(frozen=True)
class Catalogue:
    """All entries by name. Every reference names an existing entry that is consistent with it.

    `root` is the project's folder, and `kit` the folder that contains the kit's `functions` (None: the same folder).
    """

    root: Path
    functions: Mapping[str, Function]
    queues: Mapping[str, Queue]
    triggers: Mapping[str, Trigger]
    schedules: Mapping[str, Schedule]
    indexes: Mapping[str, Index]
    history: Mapping[str, History] = field(default_factory=dict)
    semaphores: Mapping[str, Semaphore] = field(default_factory=dict)
    rates: Mapping[str, Rate] = field(default_factory=dict)
    document_writers: str = ANYONE
    """The clients that write documents: `ANYONE`, or only the `KIT`. Then `functions` lacks the handler of their
    events.
    """
    payloads: bool = False
    """Whether large values are stored as payloads, in a bucket of the deployment."""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """The places in the code from which keys of entries follow: by entry, such as ``functions.orders``, and by key."""
    parts: Mapping[str, str] = field(default_factory=dict, compare=False)
    """The kit's parts that are in use, each with its origin in the code or the catalogue."""
    is_complete: bool = field(default=False, compare=False)
    """Whether the entries name all parts, since the catalogue has no `api`: none follows from the code."""
    kit: Path | None = None
    examples: bool = field(default=True, compare=False)
    """Whether the functions below `examples`, which the kit's repository has, are among the functions."""
    database: str = ""
    """The name of the database in its functions' entries; empty for functions without one."""
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    """The databases of the functions that are not in this catalogue, since theirs is another one."""
    invokers_elsewhere: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The URL segments of deployments without a database that invoke a function of this catalogue, by its name."""

    def __post_init__(self) -> None:
        for function in self.functions.values():
            for key, names in (("enqueues", function.enqueues), ("queues", function.queues)):
                for queue in (name for name in names if name not in self.queues):
                    unknown = f"no queue is named {queue!r}{closest(queue, self.queues)}"
                    raise CatalogueError(f"functions.{function.name}: {key}: {unknown}")
            self._invoked_can_be_called(function)
            by_queue = "queue" in function.invoked_by and not self._calling(function)
            refuse(by_queue, f"functions.{function.name}: no queue may call it: name a queue in its queues")
            loses = set(function.queues) - self._forever if function.tasks else set()
            refuse(bool(loses), f"functions.{function.name}: {sorted(loses)} drop tasks: set attempts_max: -1 there")
        self._no_queue_exceeds_its_functions()
        refuse(
            bool(self.semaphores) and SEMAPHORES not in self.functions,
            f"semaphores: the kit's function {SEMAPHORES} creates them: add it to the functions",
        )
        refuse(
            bool(self.rates) and RATES not in self.functions,
            f"rates: the kit's function {RATES} creates them: add it to the functions",
        )
        called = {name: each.function for name, each in self.triggers.items()}
        self._callers_agree("triggers", called, "event")
        self._scheduled_tasks_exist()
        called = {name: each.called for name, each in self.schedules.items()}
        self._callers_agree("schedules", called, "schedule")
        self._one_trigger_each()
        self._addresses_differ()
        self._one_function_a_class_and_a_flow()

    @property
    def task_functions(self) -> Mapping[str, frozenset[str]]:
        """The names of the tasks of each function whose tasks a call may name.

        The set is empty if the tasks of a function are not known. These functions are those with ``tasks``, and users'
        functions that queues invoke.
        """
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        users = (each for each in invoked if each.tasks or not self.is_of_the_kit(each))
        return {each.name: frozenset((*each.tasks, *([CALL_OBJECT] if each.objects else ()))) for each in users}

    @property
    def task_parameters(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """The arguments of the tasks of each function, by the names of the tasks whose arguments are known."""
        return {name: each.parameters for name, each in sorted(self.functions.items()) if each.parameters}

    @property
    def origins(self) -> Mapping[str, frozenset[str]]:
        """The origins whose pages may call a function, by function; only functions with `cors`."""
        return {each.name: frozenset(each.cors) for each in self.functions.values() if each.cors}

    @property
    def auth(self) -> Mapping[str, str]:
        """The kind of authentication of each function that authenticates its users."""
        return {each.name: each.auth for each in self.functions.values() if each.auth}

    @property
    def open_functions(self) -> Mapping[str, frozenset[str]]:
        """The flows and classes of objects that each open function exposes."""
        return {each.name: frozenset(each.exposes) for each in self.functions.values() if each.open_to_all}

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables of all functions with their values, without secrets. Locally, one process serves all functions.

        Raises `CatalogueError` if two functions give a variable different values.
        """
        found: dict[str, tuple[str, str]] = {}
        for function in self.functions.values():
            for name, value in function.env.items():
                first, other = found.setdefault(name, (value, function.name))
                refuse(
                    first != value,
                    f"functions.{function.name}: env.{name} is {value!r}, and {first!r} in {other}: give one of them "
                    "another name, since one process serves all functions locally",
                )
        return {name: value for name, (value, _) in found.items()}

    @property
    def secrets(self) -> Mapping[str, Mapping[str, str]]:
        """The secrets of each function that has any: names in Secret Manager by variable."""
        return {each.name: each.secrets for each in self.functions.values() if each.secrets}

    @cached_property
    def split_functions(self) -> frozenset[str]:
        """The functions that are deployed twice."""
        return frozenset(each.name for each in self.functions.values() if each.is_split)

    @cached_property
    def task_queues(self) -> frozenset[str]:
        """The queues that may carry users' tasks: those that retry forever and that the kit's functions do not use.

        The kit counts attempts itself, so the queue must not give up.
        """
        return (
            self._forever - {queue for each in self._kits_own for queue in each.queues} - {OBJECTS_QUEUE, FLOWS_QUEUE}
        )

    @cached_property
    def shards(self) -> Mapping[str, Queue]:
        """The queues of Cloud Tasks, by name: the queue of which each is a shard."""
        return {name: queue for queue in self.queues.values() for name in shard_names(queue.name, queue.shards)}

    def shards_of(self, queues: Collection[str]) -> list[str]:
        """Return the names of the queues of Cloud Tasks of some queues, sorted."""
        return sorted(name for name, queue in self.shards.items() if queue.name in queues)

    @cached_property
    def queue_shards(self) -> Mapping[str, int]:
        """The number of shards of each queue that has several."""
        return {name: queue.shards for name, queue in self.queues.items() if queue.shards > 1}

    @cached_property
    def calling_queues(self) -> Mapping[str, frozenset[str]]:
        """The queues that call a function, by function; only functions that queues invoke."""
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        return {each.name: self._calling(each) for each in invoked}

    def _calling(self, function: Function) -> frozenset[str]:
        tasks = frozenset(function.queues) or self.task_queues
        objects = {OBJECTS_QUEUE} if function.objects else set()
        return tasks | objects | ({FLOWS_QUEUE} if function.flows else set())

    @cached_property
    def object_classes(self) -> Mapping[str, str]:
        """The name of the function with the code of each class of objects."""
        return {name: function.name for function in self.functions.values() for name in function.objects}

    @cached_property
    def flow_functions(self) -> Mapping[str, str]:
        """The name of the function with the code of each flow."""
        return {name: function.name for function in self.functions.values() for name in function.flows}

    @property
    def history_rules(self) -> tuple[HistoryRule, ...]:
        """The declarations of histories, sorted by name; the first that matches a document applies."""
        return tuple(each.rule for _, each in sorted(self.history.items()))

    @property
    def declared(self) -> Iterable[Declared]:
        """The semaphores and rates that a deployment creates, or whose limits it sets."""
        yield from (Declared(SEMAPHORES, each.name, each.body) for each in self.semaphores.values())
        yield from (Declared(RATES, each.name, each.body) for each in self.rates.values())

    @cached_property
    def _forever(self) -> frozenset[str]:
        return frozenset(queue.name for queue in self.queues.values() if queue.attempts_max == -1)

    def is_of_the_kit(self, function: Function) -> bool:
        """Return whether a function is one of the kit's."""
        return function.folder.parent == self.kit_functions

    @cached_property
    def kit_functions(self) -> Path:
        """The folder of the kit's functions."""
        return (self.kit or self.root) / "functions"

    @property
    def _kits_own(self) -> Iterator[Function]:
        return filter(self.is_of_the_kit, self.functions.values())

    def _invoked_can_be_called(self, function: Function) -> None:
        callers = self.invokers_elsewhere.get(function.name, ())
        refuse(
            bool(callers) and "people" not in function.invoked_by,
            f"functions.{function.name}: {', '.join(sorted(callers))} of another database invokes it: it needs an "
            "@app.http route, and people in its invoked_by",
        )
        for name in function.invokes:
            if name in self.elsewhere and not self.database:
                continue
            called = self._function(f"functions.{function.name}: invokes", name)
            refuse(
                "people" not in called.invoked_by,
                f"functions.{function.name}: invokes names {name}, which is closed to requests from outside: it needs "
                "an @app.http route, and people in its invoked_by",
            )

    def _no_queue_exceeds_its_functions(self) -> None:
        """Check that a queue runs no more tasks at once than its functions handle; Cloud Run would refuse the rest."""
        handled = dict.fromkeys(self.queues, 0)
        for name, calling in self.calling_queues.items():
            for queue in calling & self.queues.keys():
                handled[queue] += self.functions[name].instances_max * self.functions[name].concurrency
        for name, at_once in handled.items():
            settings = self.queues[name]
            each = f" in each of {settings.shards} shards" if settings.shards > 1 else ""
            refuse(
                0 < at_once < settings.concurrent_max * settings.shards,
                f"queues.{name}: concurrent_max is {settings.concurrent_max}{each}, and the functions that it calls "
                f"handle {at_once} requests at once: lower it, or raise their instances_max or concurrency",
            )

    def _callers_agree(self, kind: str, callers: Mapping[str, str], invoker: str) -> None:
        """Check that `callers` and invoked_by agree.

        `callers` maps the name of a caller to the function that it calls.
        """
        for name, called in callers.items():
            function = self._function(f"{kind}.{name}", called)
            refuse(
                invoker not in function.invoked_by, f"{kind}.{name}: add {invoker!r} to invoked_by of {function.name}"
            )
        for function in self.functions.values():
            idle = invoker in function.invoked_by and function.name not in {*callers.values(), ENQUEUING}
            refuse(idle, f"functions.{function.name}: invoked_by contains {invoker!r}, but nothing in {kind} names it")

    def _function(self, where: str, name: str) -> Function:
        if name in self.elsewhere:
            place = (
                f"the database {self.elsewhere[name]}" if self.elsewhere[name] else "the environment's first database"
            )
            raise CatalogueError(
                f"{where}: {name} has {place}. Only `invokes` of a function without `database` reaches another database"
            )
        if name not in self.functions:
            raise CatalogueError(f"{where}: there is no function {name!r}{closest(name, self.functions)}")
        return self.functions[name]

    def _scheduled_tasks_exist(self) -> None:
        for name, schedule in self.schedules.items():
            if schedule.task:
                tasks = self._function(f"schedules.{name}", schedule.function).tasks
                known = ", ".join(tasks) or "none"
                unknown = f"schedules.{name}: {schedule.function} has no task {schedule.task!r}; its tasks: {known}"
                refuse(schedule.task not in tasks, unknown)
                self._arguments_fit(schedule)

    def _arguments_fit(self, schedule: Schedule) -> None:
        """Check the names of a schedule's arguments, if those of its task are known. Raises `CatalogueError`."""
        try:
            known = {schedule.function: self.functions[schedule.function].parameters}
            check_arguments(known, Call(schedule.function, schedule.task, schedule.arguments), "arguments")
        except BadArgument as wrong:
            raise CatalogueError(f"schedules.{schedule.name}.arguments: {wrong.detail}") from None

    def _one_function_a_class_and_a_flow(self) -> None:
        for function in self.functions.values():
            where = f"functions.{function.name}"
            for name in function.objects:
                other = self.object_classes[name]
                refuse(other != function.name, f"{where}: {other} already has the class {name}")
            for name in function.flows:
                other = self.flow_functions[name]
                refuse(other != function.name, f"{where}: {other} already has the flow {name}")
            for kind, queue, code in (
                ("objects", OBJECTS_QUEUE, function.objects),
                ("flows", FLOWS_QUEUE, function.flows),
            ):
                lost = bool(code) and queue not in self._forever
                refuse(lost, f"{where}: its {kind} need a queue {queue} with attempts_max: -1")
            untold = bool(function.flows) and TASKS_QUEUE not in self._calling(function)
            refuse(untold, f"{where}: flows receive results through the queue {TASKS_QUEUE}: add it to its queues")

    def _one_trigger_each(self) -> None:
        first: dict[str, str] = {}
        for name, trigger in self.triggers.items():
            function = self.functions[trigger.function]
            if trigger.handler:
                unknown = f"triggers.{name}: {function.name} has no handler {trigger.handler!r}"
                refuse(trigger.handler not in function.tasks, f"{unknown}; its tasks: {', '.join(function.tasks)}")
            else:
                earlier = first.setdefault(trigger.function, name)
                refuse(earlier != name, f"triggers.{name}: {trigger.function} already has {earlier}. {ONE_EACH}")
                mixed = len(function.invoked_by) > 1
                refuse(mixed, f"triggers.{name}: {function.name} also has other callers: name a handler (on_document)")

    def _addresses_differ(self) -> None:
        for name in self.split_functions & {taken.removesuffix("_tasks") for taken in self.functions}:
            refuse(
                f"{name}_tasks" in self.functions,
                f"functions.{name}_tasks: this is the address of the tasks of {name}: rename one of them",
            )


def closest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known name that is most similar to a wrong one.

    The text is empty if no known name is similar.
    """
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""
