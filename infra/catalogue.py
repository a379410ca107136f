"""Read the catalogue: the one list of functions, queues, triggers and schedules.

Terraform, the packager and the local stack act on the same file, so what is wrong with it is said here, before anything
is built or started. Every complaint names the entry and what to change. Folders are relative to the project: the folder
above the catalogue's own.

    catalogue = load()
    catalogue.functions["link_fan_out"].segment      # "link-fan-out"
"""

import dataclasses
import re
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

import yaml

CATALOGUE = Path(__file__).with_name("catalogue.yaml")
INVOKERS = ("people", "queue", "event", "schedule")
EVENTS = tuple(f"google.cloud.firestore.document.v1.{kind}" for kind in ("written", "created", "updated", "deleted"))
DISPATCHES_PER_SECOND_MAX = 500  # Cloud Tasks' own bound on a queue, as are the next two
CONCURRENT_MAX = 5_000
DOUBLINGS_MAX = 16
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
QUEUE_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}")


class CatalogueError(ValueError):
    """The catalogue contradicts itself or the project. The message names the entry and what to change."""


def url_segment(name: str) -> str:
    """Give the URL segment, and the name in the cloud, of a function: ``link_fan_out`` is ``link-fan-out``."""
    return name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A folder with a ``main.py`` whose entry point is called `name`. `folder` is absolute."""

    name: str
    folder: Path
    invoked_by: tuple[str, ...]
    enqueues: tuple[str, ...] = ()
    public: bool = False

    def __post_init__(self) -> None:
        _refuse(not NAME.fullmatch(self.name), "the name must be lower case words joined by single underscores")
        _refuse(not self.invoked_by, f"invoked_by must name at least one of {', '.join(INVOKERS)}")
        for invoker in self.invoked_by:
            _refuse(invoker not in INVOKERS, f"invoked_by says {invoker!r}; choose from {', '.join(INVOKERS)}")
        mixed = "event" in self.invoked_by and len(self.invoked_by) > 1
        _refuse(mixed, "what events invoke gets CloudEvents only: give the other callers a function of their own")
        _refuse(self.public and "people" not in self.invoked_by, "public is for functions that people invoke")
        _refuse(not (self.folder / "main.py").is_file(), f"there is no main.py in its folder {self.folder}")

    @property
    def segment(self) -> str:
        return url_segment(self.name)

    @property
    def signature_type(self) -> str:
        """Give what functions-framework calls the way of invoking it: ``http`` or ``cloudevent``."""
        return "cloudevent" if "event" in self.invoked_by else "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A Cloud Tasks queue. ``attempts_max`` -1 retries without a limit."""

    name: str
    dispatches_per_second: float
    concurrent_max: int
    attempts_max: int
    backoff_min_seconds: float
    backoff_max_seconds: float
    doublings_max: int

    def __post_init__(self) -> None:
        _refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        _between("dispatches_per_second", self.dispatches_per_second, 0.001, DISPATCHES_PER_SECOND_MAX)
        _between("concurrent_max", self.concurrent_max, 1, CONCURRENT_MAX)
        _between("doublings_max", self.doublings_max, 0, DOUBLINGS_MAX)
        _refuse(self.attempts_max < 1 and self.attempts_max != -1, "attempts_max must be -1 (no limit) or at least 1")
        _refuse(self.backoff_min_seconds < 0, "backoff_min_seconds must not be negative")
        _refuse(self.backoff_max_seconds < self.backoff_min_seconds, "backoff_max_seconds is below backoff_min_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Firestore's `event` of documents under the pattern `document` (``documents/{key}``) invokes `function`."""

    name: str
    function: str
    event: str
    document: str

    def __post_init__(self) -> None:
        _refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        _refuse(self.event not in EVENTS, f"event says {self.event!r}; choose from {', '.join(EVENTS)}")
        segments = self.document.split("/")
        paths_a_document = len(segments) % 2 == 0 and all(segments)
        _refuse(
            not paths_a_document,
            f"document says {self.document!r}; write COLLECTION/{{ID}}, in pairs, no slash at an end",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """`function` is called by `cron` in the cloud (UTC) and every so many seconds locally."""

    name: str
    function: str
    cron: str
    local_every_seconds: float

    def __post_init__(self) -> None:
        _refuse(not QUEUE_NAME.fullmatch(self.name), "the name must be lower case letters, digits and hyphens")
        _refuse(len(self.cron.split()) != 5, f"cron says {self.cron!r}; it takes five fields")
        _refuse(self.local_every_seconds <= 0, "local_every_seconds must be more than 0")


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Everything by name. What refers to something refers to an entry that exists and agrees."""

    root: Path
    functions: Mapping[str, Function]
    queues: Mapping[str, Queue]
    triggers: Mapping[str, Trigger]
    schedules: Mapping[str, Schedule]

    def __post_init__(self) -> None:
        for function in self.functions.values():
            for queue in function.enqueues:
                _refuse(queue not in self.queues, f"functions.{function.name}: enqueues names no queue: {queue!r}")
        self._callers_agree("triggers", self.triggers, "event")
        self._callers_agree("schedules", self.schedules, "schedule")

    def _callers_agree(self, kind: str, callers: Mapping[str, Trigger] | Mapping[str, Schedule], invoker: str) -> None:
        for name, caller in callers.items():
            function = self.functions.get(caller.function)
            if function is None:
                raise CatalogueError(f"{kind}.{name}: there is no function {caller.function!r}")
            _refuse(
                invoker not in function.invoked_by, f"{kind}.{name}: add {invoker!r} to invoked_by of {function.name}"
            )
        called = {caller.function for caller in callers.values()}
        for function in self.functions.values():
            idle = invoker in function.invoked_by and function.name not in called
            _refuse(idle, f"functions.{function.name}: invoked_by says {invoker!r}, and nothing in {kind} names it")


def load(path: Path = CATALOGUE) -> Catalogue:
    """Read and check a catalogue file. Raises `CatalogueError` with what to change, or `OSError`."""
    try:
        content = yaml.load(path.read_text("utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)
        return parse(content, path.resolve().parent.parent)
    except (CatalogueError, yaml.YAMLError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def parse(content: object, root: Path) -> Catalogue:
    """Check a catalogue's content; `root` is the folder that functions' folders are relative to."""
    sections = _mapping("the catalogue", content)
    known = {"functions", "queues", "triggers", "schedules"}
    _refuse(
        bool(sections.keys() - known), f"unknown sections {sorted(sections.keys() - known)}; known: {sorted(known)}"
    )
    functions = {}
    for name, entry in _entries(sections, "functions"):
        folder = root / str(entry.pop("folder", f"functions/{name}"))
        functions[name] = _build(Function, f"functions.{name}", {"name": name, "folder": folder, **entry})
    return Catalogue(
        root=root,
        functions=MappingProxyType(functions),
        queues=_section(sections, "queues", Queue),
        triggers=_section(sections, "triggers", Trigger),
        schedules=_section(sections, "schedules", Schedule),
    )


Entry = TypeVar("Entry", Function, Queue, Trigger, Schedule)


def _section(sections: Mapping[str, Any], kind: str, entry_type: type[Entry]) -> Mapping[str, Entry]:
    entries = _entries(sections, kind)
    return MappingProxyType(
        {name: _build(entry_type, f"{kind}.{name}", {"name": name, **raw}) for name, raw in entries}
    )


def _entries(sections: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, raw in _mapping(kind, sections.get(kind) or {}).items():
        yield name, dict(_mapping(f"{kind}.{name}", raw))


def _build(entry_type: type[Entry], where: str, values: dict[str, Any]) -> Entry:
    fields = {field.name: field for field in dataclasses.fields(entry_type)}
    _refuse(bool(values.keys() - fields), f"{where}: unknown keys {sorted(values.keys() - fields)}")
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    _refuse(bool(required - values.keys()), f"{where}: these keys are missing: {sorted(required - values.keys())}")
    try:
        return entry_type(**{name: _typed(name, value, fields[name].type) for name, value in values.items()})
    except CatalogueError as error:
        raise CatalogueError(f"{where}: {error}") from None


def _typed(name: str, value: Any, wanted: Any) -> Any:
    if get_origin(wanted) is tuple:
        _refuse(
            not isinstance(value, list) or any(not isinstance(item, str) for item in value),
            f"{name} must be a list of names",
        )
        _refuse(len(set(value)) < len(value), f"{name} names something twice")
        return tuple(value)
    accepted = (int, float) if wanted is float else wanted
    is_flag = isinstance(value, bool) and wanted is not bool  # Python takes True for an integer
    _refuse(is_flag or not isinstance(value, accepted), f"{name} must be of type {wanted.__name__}, not {value!r}")
    return value


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or any(not isinstance(key, str) for key in value):
        raise CatalogueError(f"{where} must be a mapping from names to values")
    return value


def _between(name: str, value: float, least: float, most: float) -> None:
    _refuse(not least <= value <= most, f"{name} must lie between {least} and {most}, not at {value}")


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise CatalogueError(message)


class _UniqueKeys(yaml.SafeLoader):
    """YAML that refuses a key given twice, where the plain loader keeps the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        _refuse(bool(twice), f"line {node.start_mark.line + 1}: given twice: {', '.join(twice)}")
        return super().construct_mapping(node, deep)
