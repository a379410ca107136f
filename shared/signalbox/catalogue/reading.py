"""Read the catalogue: the one list of functions, queues, triggers, schedules and indexes.

Terraform, the packager and the local stack use the same file, so its errors are reported here, before anything is
built or started. Every error names the entry and what to change. Folders are relative to the project
(`signalbox.catalogue.project`). A user's own project has `signalbox.yaml`, to which the kit's entries are added.

    catalogue = load()
    catalogue.functions["link_fan_out"].segment      # "link-fan-out"

Keys that a function's entry omits are derived from its code (`signalbox.catalogue.code`), without running it, so an
entry may be ``orders: {}``.

The entries are also checked against each other: every queue that a function enqueues to exists, something calls a
function in each way that it declares, a function has at most one trigger without a handler, and a class of objects or a
flow has one function.
"""

import dataclasses
import difflib
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

import yaml

from signalbox.catalogue.code import FROM_CODE, Usage, check_writer, completed, trigger_name, usage_of
from signalbox.catalogue.entries import (
    ENQUEUING,
    EVENTS,
    CatalogueError,
    Declared,
    Function,
    History,
    Index,
    Queue,
    Rate,
    Schedule,
    Semaphore,
    Trigger,
    refuse,
    url_segment,
)
from signalbox.catalogue.project import KIT as INSTALLED_KIT
from signalbox.catalogue.project import Project, python_files
from signalbox.catalogue.version import VERSION
from signalbox.core.calls import Call, check_arguments
from signalbox.core.names import ANYONE, CALL_OBJECT, KIT, LINK_FAN_OUT, TASKS_QUEUE, WRITERS
from signalbox.core.problems import BadArgument
from signalbox.history.model import HistoryRule

__all__ = [
    "CATALOGUE",
    "Catalogue",
    "CatalogueError",
    "Function",
    "History",
    "Index",
    "Queue",
    "Rate",
    "Schedule",
    "Semaphore",
    "Trigger",
    "load",
    "parse",
    "url_segment",
]


# --- the catalogue as a whole ---


OBJECTS_QUEUE = "objects"
"""Carries only the wake-ups of objects."""

FLOWS_QUEUE = "flows"
"""Carries only the wake-ups of flows and the kit's own tasks for them."""

SEMAPHORES = "semaphores"
"""The kit's function that creates semaphores."""

RATES = "rates"
"""The kit's function that creates rates."""

ONE_EACH = (
    "Cloud Functions allows one trigger for each function: write on_document, which may have any number of patterns, "
    "or add another function for this trigger"
)


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All entries by name. Every reference names an existing entry that is consistent with it.

    `root` is the project's folder, and `kit` the folder that contains the kit's `functions`; None: the same folder.
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
    """`ANYONE`, or `KIT` if only the kit writes documents; then `functions` lacks the handler of their events."""
    places: Mapping[str, Mapping[str, str]] = field(default_factory=dict, compare=False)
    """The places in the code that keys of entries follow from, by ``functions.orders`` and key."""
    kit: Path | None = None

    def __post_init__(self) -> None:
        for function in self.functions.values():
            for queue in function.enqueues:
                unknown = f"no queue is named {queue!r}{_closest(queue, self.queues)}"
                refuse(queue not in self.queues, f"functions.{function.name}: enqueues: {unknown}")
            for queue in function.queues:
                unknown = f"no queue is named {queue!r}{_closest(queue, self.queues)}"
                refuse(queue not in self.queues, f"functions.{function.name}: queues: {unknown}")
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
        """The names of the tasks of each function whose tasks a call may name; an empty set if they are not known.

        These functions are those with ``tasks``, and users' functions that queues invoke.
        """
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        users = (each for each in invoked if each.tasks or not self.is_of_the_kit(each))
        return {each.name: frozenset((*each.tasks, *([CALL_OBJECT] if each.objects else ()))) for each in users}

    @property
    def task_parameters(self) -> Mapping[str, Mapping[str, Sequence[str]]]:
        """Return the arguments of the tasks of each function, by the names of the tasks whose arguments are known."""
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

    @property
    def split_functions(self) -> frozenset[str]:
        """The functions that are deployed twice."""
        return frozenset(each.name for each in self.functions.values() if each.is_split)

    @property
    def task_queues(self) -> frozenset[str]:
        """The queues that may carry users' tasks: those that retry forever and that the kit's functions do not use.

        The kit counts attempts itself, so the queue must not give up.
        """
        return (
            self._forever - {queue for each in self._kits_own for queue in each.queues} - {OBJECTS_QUEUE, FLOWS_QUEUE}
        )

    @property
    def calling_queues(self) -> Mapping[str, frozenset[str]]:
        """The queues that call a function, by function; only functions that queues invoke."""
        invoked = (each for each in self.functions.values() if "queue" in each.invoked_by)
        return {each.name: self._calling(each) for each in invoked}

    def _calling(self, function: Function) -> frozenset[str]:
        tasks = frozenset(function.queues) or self.task_queues
        objects = {OBJECTS_QUEUE} if function.objects else set()
        return tasks | objects | ({FLOWS_QUEUE} if function.flows else set())

    @property
    def object_classes(self) -> Mapping[str, str]:
        """The name of the function with the code of each class of objects."""
        return {name: function.name for function in self.functions.values() for name in function.objects}

    @property
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

    @property
    def _forever(self) -> frozenset[str]:
        return frozenset(queue.name for queue in self.queues.values() if queue.attempts_max == -1)

    def is_of_the_kit(self, function: Function) -> bool:
        """Return whether a function is one of the kit's."""
        return self.kit_functions in function.folder.parents

    @property
    def kit_functions(self) -> Path:
        """The folder of the kit's functions."""
        return (self.kit or self.root) / "functions"

    @property
    def _kits_own(self) -> Iterator[Function]:
        return filter(self.is_of_the_kit, self.functions.values())

    def _invoked_can_be_called(self, function: Function) -> None:
        for name in function.invokes:
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
            refuse(
                0 < at_once < self.queues[name].concurrent_max,
                f"queues.{name}: concurrent_max is {self.queues[name].concurrent_max}, and the functions that it calls "
                f"handle {at_once} requests at once: lower it, or raise their instances_max or concurrency",
            )

    def _callers_agree(self, kind: str, callers: Mapping[str, str], invoker: str) -> None:
        """Check that `callers` and invoked_by agree. `callers` has the called function by the name of its caller."""
        for name, called in callers.items():
            function = self._function(f"{kind}.{name}", called)
            refuse(
                invoker not in function.invoked_by, f"{kind}.{name}: add {invoker!r} to invoked_by of {function.name}"
            )
        for function in self.functions.values():
            idle = invoker in function.invoked_by and function.name not in {*callers.values(), ENQUEUING}
            refuse(idle, f"functions.{function.name}: invoked_by contains {invoker!r}, but nothing in {kind} names it")

    def _function(self, where: str, name: str) -> Function:
        if name not in self.functions:
            raise CatalogueError(f"{where}: there is no function {name!r}{_closest(name, self.functions)}")
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
                refuse(mixed, f"triggers.{name}: {function.name} has other callers, too: name a handler (on_document)")

    def _addresses_differ(self) -> None:
        for name in self.split_functions & {taken.removesuffix("_tasks") for taken in self.functions}:
            refuse(
                f"{name}_tasks" in self.functions,
                f"functions.{name}_tasks: this is the address of the tasks of {name}: rename one of them",
            )


# --- reading ---


CATALOGUE = INSTALLED_KIT.catalogue

VERSION_MIN = "version_min"
OF_A_VERSION = re.compile(r"\d+\.\d+\.\d+")
SECTIONS = ("functions", "queues", "triggers", "schedules", "indexes", "history", "semaphores", "rates")


def load(path: Path | None = None) -> Catalogue:
    """Return the catalogue in a file (None: that of the project in which the program runs), checked.

    Raises `CatalogueError` with what to change, `NotAProject`, or `OSError`.
    """
    project = Project.find() if path is None else Project.of(path)
    path = path or project.catalogue
    try:
        content = _content(path)
        if project.own:
            return parse(_with_the_kits(content, project), project.root, INSTALLED_KIT.root)
        return parse(content, project.root)
    except (CatalogueError, yaml.YAMLError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def _content(path: Path) -> object:
    return yaml.load(path.read_text("utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)


def _with_the_kits(content: object, project: Project) -> Mapping[str, Any]:
    """Return the content of a project's catalogue merged with the kit's entries, whose settings it may override.

    Raises `CatalogueError` if a function of the project has the name of one of the kit's.
    """
    own = dict(_mapping("the catalogue", content or {}))
    _made_by_this_kit(own.pop(VERSION_MIN, VERSION))
    kits = _kits_content()
    for name, entry in _entries(own, "functions"):
        taken = name in kits["functions"] and ("folder" in entry or (project.root / "functions" / name).exists())
        refuse(taken, f"functions.{name}: the kit has a function of this name: rename yours and its folder")
    folder = INSTALLED_KIT.functions
    functions = {name: {"folder": str(folder / name), **entry} for name, entry in kits["functions"].items()}
    added = {**kits, "functions": functions}
    return own | {kind: _joined(dict(_entries(added, kind)), dict(_entries(own, kind))) for kind in SECTIONS}


def _joined(kits: dict[str, dict[str, Any]], own: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {**kits.get(name, {}), **own.get(name, {})} for name in {**kits, **own}}


def _kits_content() -> dict[str, dict[str, Any]]:
    """Return the kit's entries: its functions, their triggers and schedules, and all queues, without the examples."""
    content = dict(_mapping("the kit's catalogue", _content(INSTALLED_KIT.catalogue)))
    functions = {name: entry for name, entry in _entries(content, "functions") if "folder" not in entry}
    callers = {
        kind: {name: entry for name, entry in _entries(content, kind) if entry["function"] in functions}
        for kind in ("triggers", "schedules")
    }
    return {"functions": functions, "queues": dict(_entries(content, "queues")), **callers}


def _made_by_this_kit(version_min: object) -> None:
    if not isinstance(version_min, str) or not OF_A_VERSION.fullmatch(version_min):
        raise CatalogueError(f'{VERSION_MIN} is a version in quotes such as "{VERSION}", not {version_min!r}')
    refuse(
        _numbers(version_min) > _numbers(VERSION),
        f"this project needs signalbox {version_min} or newer, and {VERSION} is installed: run `uv sync`, or install "
        "the version that pyproject.toml names",
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def parse(content: object, root: Path, kit: Path | None = None) -> Catalogue:
    """Return the catalogue with this content, checked. `root` and `kit` as in `Catalogue`. Raises `CatalogueError`."""
    sections = _mapping("the catalogue", content)
    known = {*SECTIONS, "documents"}
    refuse(bool(sections.keys() - known), f"unknown sections {sorted(sections.keys() - known)}; known: {sorted(known)}")
    writers = _document_writers(sections)
    if writers == KIT:
        sections = _without_events_of_documents(sections)
    sections, places = _with_code(sections, root)
    functions = {
        name: _build(Function, f"functions.{name}", {"name": name, **entry, "folder": _folder(root, name, entry)})
        for name, entry in _entries(sections, "functions")
    }
    return Catalogue(
        root=root,
        functions=MappingProxyType(functions),
        queues=_section(sections, "queues", Queue),
        triggers=_section(sections, "triggers", Trigger),
        schedules=_section(sections, "schedules", Schedule),
        indexes=_section(sections, "indexes", Index),
        history=_section(sections, "history", History),
        semaphores=_section(sections, "semaphores", Semaphore),
        rates=_section(sections, "rates", Rate),
        document_writers=writers,
        places=places,
        kit=kit,
    )


def _document_writers(sections: Mapping[str, Any]) -> str:
    """Return the value of `written_by` in the section `documents`. Raises `CatalogueError`."""
    declared = _mapping("documents", sections.get("documents") or {})
    refuse(
        bool(declared.keys() - {"written_by"}), f"documents: unknown keys {sorted(declared.keys() - {'written_by'})}"
    )
    writers = declared.get("written_by", ANYONE)
    refuse(writers not in WRITERS, f"documents: written_by is {writers!r}; choose from {', '.join(WRITERS)}")
    return str(writers)


def _without_events_of_documents(sections: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sections without the function that handles documents' events, and without its trigger."""
    functions, triggers = (_mapping(kind, sections.get(kind) or {}) for kind in ("functions", "triggers"))
    called = {name: each.get("function") for name, each in triggers.items() if isinstance(each, dict)}
    return {
        **sections,
        "functions": {name: each for name, each in functions.items() if name != LINK_FAN_OUT},
        "triggers": {name: each for name, each in triggers.items() if called.get(name) != LINK_FAN_OUT},
    }


def _with_code(sections: Mapping[str, Any], root: Path) -> tuple[dict[str, Any], dict[str, Mapping[str, str]]]:
    """Return the sections with the keys that follow from the functions' code, and the places of these keys.

    Raises `CatalogueError` if parsing cannot follow the code of a function whose entry omits these keys.
    """
    functions = dict(_entries(sections, "functions"))
    schedules, triggers = (dict(_entries(sections, kind)) for kind in ("schedules", "triggers"))
    read = {name: usage for name, entry in functions.items() if (usage := _usage(root, name, entry))}
    places: dict[str, Mapping[str, str]] = {}
    triggered = {each.get("function") for each in triggers.values()}
    for name, usage in read.items():
        for key, (place, entry) in usage.schedules.items():
            schedule = f"{url_segment(name)}-{key}"
            if schedule not in schedules:
                schedules[schedule], places[f"schedules.{schedule}"] = {"function": name, **entry}, {"cron": place}
        places_of_events = ", ".join(usage.events.values())
        refuse(len(usage.events) > 1, f"functions.{name}: {places_of_events} handle events of two patterns. {ONE_EACH}")
        both = ", ".join((*usage.events.values(), *(place for place, _ in usage.handlers.values())))
        mixed = f"functions.{name}: {both} have document_written and on_document: write on_document in all places"
        refuse(bool(usage.events and usage.handlers), mixed)
        for handler, (place, trigger) in usage.handlers.items():
            named = trigger_name(name, handler)
            if named not in triggers:
                triggers[named] = {"function": name, **trigger, "handler": handler}
                places[f"triggers.{named}"] = {"document": place}
        for pattern, place in usage.events.items() if name not in triggered else ():
            triggers[url_segment(name)] = {"function": name, "event": EVENTS[0], "document": pattern}
            places[f"triggers.{url_segment(name)}"] = {"document": place}
    called = {each.get("function") for each in schedules.values() if not each.get("task")}
    for name, usage in read.items():
        where = f"functions.{name}"
        try:
            functions[name], places[where] = completed(functions[name], usage, scheduled=name in called)
        except CatalogueError as error:
            raise CatalogueError(f"{where}: {error}") from None
        if _document_writers(sections) == KIT:
            check_writer(name, functions[name], usage)
    return {**sections, "functions": functions, "schedules": schedules, "triggers": triggers}, places


def _usage(root: Path, name: str, entry: Mapping[str, Any]) -> Usage | None:
    """Return the declarations in a function's code; None if it cannot be parsed and its entry has all keys."""
    folder = _folder(root, name, entry)
    if not (folder / "main.py").is_file():
        return None  # the entry is refused later
    try:
        return usage_of(python_files(folder))
    except CatalogueError as error:
        if entry.keys() >= set(FROM_CODE):
            return None
        raise CatalogueError(f"functions.{name}: {error}") from None


def _folder(root: Path, name: str, entry: Mapping[str, Any]) -> Path:
    return root / str(entry.get("folder", f"functions/{name}"))


Entry = TypeVar("Entry", Function, Queue, Trigger, Schedule, Index, History, Semaphore, Rate)


def _section(sections: Mapping[str, Any], kind: str, entry_type: type[Entry]) -> Mapping[str, Entry]:
    entries = _entries(sections, kind)
    return MappingProxyType(
        {name: _build(entry_type, f"{kind}.{name}", {"name": name, **raw}) for name, raw in entries}
    )


def _entries(sections: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, raw in _mapping(kind, sections.get(kind) or {}).items():
        yield name, dict(_mapping(f"{kind}.{name}", raw))


def _closest(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: the known name that is most similar to a wrong one; empty if none is similar."""
    found = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {found[0]!r}?" if found else ""


def _build(entry_type: type[Entry], where: str, values: dict[str, Any]) -> Entry:
    fields = {field.name: field for field in dataclasses.fields(entry_type)}
    unknown = sorted(values.keys() - fields)
    refuse(bool(unknown), f"{where}: unknown keys {unknown}{''.join(_closest(key, fields) for key in unknown)}")
    required = {name for name, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING}
    refuse(bool(required - values.keys()), f"{where}: these keys are missing: {sorted(required - values.keys())}")
    try:
        return entry_type(**{name: _typed(name, value, fields[name].type) for name, value in values.items()})
    except CatalogueError as error:
        raise CatalogueError(f"{where}: {error}") from None


def _typed(name: str, value: Any, wanted: Any) -> Any:
    if get_origin(wanted) is tuple:
        refuse(
            not isinstance(value, list) or any(not isinstance(item, str) for item in value),
            f"{name} must be a list of names",
        )
        refuse(len(set(value)) < len(value), f"{name} contains a name twice")
        return tuple(value)
    if get_origin(wanted) is dict:
        return dict(_mapping(name, value))
    accepted = (int, float) if wanted is float else wanted
    is_flag = isinstance(value, bool) and wanted is not bool  # Python takes True for an integer
    refuse(is_flag or not isinstance(value, accepted), f"{name} must be of type {wanted.__name__}, not {value!r}")
    return value


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or any(not isinstance(key, str) for key in value):
        raise CatalogueError(f"{where} must be a mapping from names to values")
    return value


class _UniqueKeys(yaml.SafeLoader):
    """A YAML loader that refuses a duplicate key. The plain loader keeps the last value silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        refuse(bool(twice), f"line {node.start_mark.line + 1}: given twice: {', '.join(twice)}")
        return super().construct_mapping(node, deep)
