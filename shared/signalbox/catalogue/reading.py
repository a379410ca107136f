"""Read the catalogue: the one list of functions, queues, triggers, schedules and indexes.

Terraform, the packager and the local stack use the same file, so its errors are reported here, before anything is
built or started. Every error names the entry and what to change. Folders are relative to the project
(`signalbox.catalogue.project`). A user's own project has `signalbox.yaml`, to which the kit's entries are added.

    catalogue = load()
    catalogue.functions["link_fan_out"].segment      # "link-fan-out"

Keys that a function's entry omits are derived from its code (`signalbox.catalogue.derived_keys`), without running it,
so an entry may be ``orders: {}``.
"""

import dataclasses
import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

import yaml

from signalbox.catalogue.catalogue_errors import CatalogueError, refuse
from signalbox.catalogue.derived_keys import (
    FROM_CODE,
    Usage,
    check_writer,
    completed,
    trigger_name,
    usage_of,
    with_callers,
)
from signalbox.catalogue.entries import EVENTS, History, Index, Queue, Rate, Schedule, Semaphore, Trigger
from signalbox.catalogue.function_entries import DATABASE, Function, missing, url_segment
from signalbox.catalogue.parts import (
    ALL,
    APIS,
    FUNCTIONS,
    HANDLERS,
    OF_EVENTS,
    OF_NAMES,
    OF_QUEUES,
    OF_SECTIONS,
    PARTS,
    SCHEDULED,
    Use,
    Used,
    absent,
)
from signalbox.catalogue.parts import used as used_parts
from signalbox.catalogue.project import KIT as INSTALLED_KIT
from signalbox.catalogue.project import Project, python_files
from signalbox.catalogue.version import VERSION
from signalbox.catalogue.whole_catalogue import ONE_EACH, Catalogue, closest
from signalbox.core.kit_names import ANYONE, BATCHES_QUEUE, CALLBACK_KEYS, KIT, LINK_FAN_OUT, WRITERS
from signalbox.core.surface.field_rules import metadata_of

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
    "database_in",
    "databases_of",
    "load",
    "load_all",
    "parse",
    "url_segment",
]


CATALOGUE = INSTALLED_KIT.catalogue

VERSION_MIN = "version_min"
OF_A_VERSION = re.compile(r"\d+\.\d+\.\d+")
SECTIONS = ("functions", "queues", "triggers", "schedules", "indexes", "history", "semaphores", "rates")


def load(path: Path | None = None, *, examples: bool = True, database: str = "") -> Catalogue:
    """Return the catalogue in a file (None: that of the project in which the program runs), checked.

    Without `examples`, it lacks the functions below the folder `examples` of the kit's repository. It has the functions
    whose entries name the `database`, with the parts of the kit that these use; if it is empty, those that name none.
    Raises `CatalogueError` with what to change, `NotAProject`, or `OSError`.
    """
    project = Project.find() if path is None else Project.of(path)
    path = path or project.catalogue
    try:
        content = _content(path)
        known = databases_of(path) if database else ()
        refuse(
            database not in known and bool(database),
            f"no function has the database {database!r}{closest(database, known)}",
        )
        if not project.own:
            content = content if examples else _without_examples(content)
            return parse(content, project.root, examples=examples, database=database)
        whole = _with_the_kits(content, project)
        catalogue = parse(whole, project.root, INSTALLED_KIT.root, database=database)
        if database:
            return catalogue
        return _checked(
            catalogue, content, lambda other: parse(whole, project.root, INSTALLED_KIT.root, database=other)
        )
    except (CatalogueError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def databases_of(path: Path) -> Sequence[str]:
    """Return the names of the databases in the entries of a catalogue's functions. Raises as `load` does."""
    try:
        sections = _mapping("the catalogue", _content(path) or {})
        return sorted({str(entry["database"]) for _, entry in _entries(sections, "functions") if "database" in entry})
    except (CatalogueError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def load_all(path: Path | None = None) -> Sequence[Catalogue]:
    """Return the catalogue of each database, the first one first. Raises as `load` does."""
    return [load(path, database=each) for each in ("", *databases_of(path or Project.find().catalogue))]


def database_in(environment: str) -> str:
    """Return the database that the name of an environment has, as ``dev.payments``, or an empty text.

    Raises `CatalogueError` if it has a dot, and no environment before it or no database's name behind it.
    """
    name, dot, database = environment.partition(".")
    refuse(
        bool(dot) and not (name and DATABASE.fullmatch(database)),
        f"{environment!r} names no environment: write dev, or dev.payments for its database payments",
    )
    return database


def _without_examples(content: object) -> Mapping[str, Any]:
    sections = _mapping("the catalogue", content)
    functions = dict(_entries(sections, "functions"))
    return {
        **sections,
        "functions": {
            name: entry for name, entry in functions.items() if not str(entry.get("folder")).startswith("examples/")
        },
    }


def _content(path: Path) -> object:
    try:
        return yaml.load(path.read_text("utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = error.problem_mark or error.context_mark
        where = f"line {place.line + 1}, column {place.column + 1}: " if place else ""
        raise CatalogueError(where + ", ".join(filter(None, (error.context, error.problem)))) from error


def _with_the_kits(content: object, project: Project) -> Mapping[str, Any]:
    """Return the content of a project's catalogue merged with the kit's entries, whose settings it may override.

    Raises `CatalogueError` if a function of the project has the name of one of the kit's.
    """
    own = dict(_mapping("the catalogue", content or {}))
    _made_by_this_kit(own.pop(VERSION_MIN, VERSION))
    own.setdefault("api", [])
    kits = _kits_content()
    for name, entry in _entries(own, "functions"):
        taken = name in kits["functions"] and ("folder" in entry or (project.root / "functions" / name).exists())
        refuse(taken, f"functions.{name}: the kit has a function of this name: rename yours and its folder")
    folder = INSTALLED_KIT.functions
    functions = {name: {"folder": str(folder / name), **entry} for name, entry in kits["functions"].items()}
    added = {**kits, "functions": functions}
    return own | {kind: _joined(dict(_entries(added, kind)), dict(_entries(own, kind))) for kind in SECTIONS}


def _checked(catalogue: Catalogue, content: object, of_database: Callable[[str], Catalogue]) -> Catalogue:
    """Return a project's catalogue if the entries of the kit that its content overrides are deployed.

    `of_database` returns the catalogue of another database, in which they may be. Raises `CatalogueError`.
    """
    own = _mapping("the catalogue", content or {})
    functions = (
        {name for name, _ in _entries(own, "functions")} - catalogue.functions.keys() - catalogue.elsewhere.keys()
    )
    queues = {name for name, _ in _entries(own, "queues")} - catalogue.queues.keys()
    if functions or queues:
        for other in map(of_database, sorted(set(catalogue.elsewhere.values()))):
            functions, queues = functions - other.functions.keys(), queues - other.queues.keys()
    for name in sorted(functions):
        unused = absent(name) or f"nothing uses {FUNCTIONS.get(name)}, the part of this function of the kit"
        raise CatalogueError(f"functions.{name}: {unused}, or remove this entry")
    for name in sorted(queues):
        raise CatalogueError(f"queues.{name}: nothing uses this queue of the kit: remove this entry")
    return catalogue


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


def parse(
    content: object, root: Path, kit: Path | None = None, *, examples: bool = True, database: str = ""
) -> Catalogue:
    """Return the catalogue with this content, checked. The other arguments are those of `Catalogue`.

    Raises `CatalogueError`.
    """
    sections = _mapping("the catalogue", content)
    known = {*SECTIONS, "documents", "api", "payloads"}
    refuse(bool(sections.keys() - known), f"unknown sections {sorted(sections.keys() - known)}; known: {sorted(known)}")
    databases = _databases(sections)
    invoking = parse(content, root, kit, examples=examples).functions.values() if database else ()
    sections = _of_database(sections, databases, database) if any(databases.values()) else sections
    writers = _document_writers(sections)
    if writers == KIT:
        sections = _without_events_of_documents(sections)
    if not _are_documents_verified(sections):
        sections = _without_nightly_verifications(sections)
    elsewhere = {name: other for name, other in databases.items() if other != database}
    sections, places, read = _with_code(sections, root, elsewhere)
    parts: Mapping[str, str] = dict.fromkeys(PARTS, "the entries of the catalogue")  # without `api`, they are complete
    if "api" in sections:
        uses = sorted(
            _uses(sections, root, places, read), key=lambda use: use.origin.startswith("functions.")
        )  # code comes first
        used = used_parts(uses, verified=_are_documents_verified(sections))
        sections, parts = _with_only(sections, used), used.parts
    if database:
        sections = _without_unused_queues(sections)
    sections = _with_actions_on_all(sections, places, parts)
    functions = {
        name: _build(Function, f"functions.{name}", {"name": name, **entry, "folder": _folder(root, name, entry)})
        for name, entry in _entries(sections, "functions")
    }
    with _naming_decorators(sections, places, functions, root):
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
            payloads=_are_payloads_stored(sections),
            places=places,
            parts=parts,
            is_complete="api" not in sections,
            kit=kit,
            examples=examples,
            database=database,
            elsewhere=elsewhere,
            invokers_elsewhere={
                name: callers
                for name in functions
                if (callers := [segment for each in invoking if name in each.invokes for segment in each.segments])
            },
        )


@contextmanager
def _naming_decorators(
    sections: Mapping[str, Any], places: Mapping[str, Mapping[str, str]], functions: Mapping[str, Function], root: Path
) -> Iterator[None]:
    """Name the file and the line of the decorator in an error of a schedule or a trigger that follows from it."""
    try:
        yield
    except CatalogueError as error:
        section, name = (*str(error).partition(":")[0].split("."), "")[:2]
        place = next(iter(places.get(f"{section}.{name}", {}).values()), "")
        if section == "functions" or not place:
            raise
        function = functions[sections[section][name]["function"]]
        raise CatalogueError(f"{_shown(function.folder, root)}/{place}: {error}") from None


def _databases(sections: Mapping[str, Any]) -> dict[str, str]:
    """Return the database of each function of the project, which is empty if its entry names none.

    Raises `CatalogueError`.
    """
    databases = {}
    for name, entry in _entries(sections, "functions"):
        database = entry.get("database", "")
        refuse(
            "database" in entry and not (isinstance(database, str) and DATABASE.fullmatch(database)),
            f"functions.{name}: database is {database!r}; write 2 to 10 lower case letters and digits",
        )
        refuse(
            database in ENVIRONMENTS,
            f"functions.{name}: database is {database!r}, which is the prefix of an environment: choose another name",
        )
        refuse(
            database in TAKEN,
            f"functions.{name}: database is {database!r}, which names of the kit or of Google contain: choose another "
            "name, or leave it out for the first database",
        )
        refuse(
            bool(database) and name in FUNCTIONS,
            f"functions.{name}: each database has the parts of the kit that it uses",
        )
        if name not in FUNCTIONS:
            databases[name] = database
    return databases


ENVIRONMENTS = ("dev", "prod", "staging")
"""Environments whose names are usual prefixes. A database's name is also a prefix."""

TAKEN = ("default", "kit", "signalbox")
"""A database `kit` with a queue `workers` would have the account of the first database's queue of workers."""

OF_ONE_DATABASE = ("indexes", "history", "semaphores", "rates")
"""The sections whose entries name their database. Triggers and schedules have that of the function that they call."""


def _of_database(sections: Mapping[str, Any], databases: Mapping[str, str], chosen: str) -> Mapping[str, Any]:
    """Return the sections with the entries of one database. Raises `CatalogueError`.

    The functions of the kit are in each of them. Callers over HTTP (`api`) use the first one, or the one that is named
    before the part, as ``payments.failures``.
    """
    _check_names(sections, set(databases.values()) - {""})
    _check_keys(sections, databases)
    refuse(
        "" not in databases.values() and not sections.get("api"),
        "functions: each names a database: leave it out in those of one database, which is then the first one",
    )
    others = {name for name, database in databases.items() if database != chosen}
    functions = {name: entry for name, entry in _entries(sections, "functions") if name not in others}
    return {
        **sections,
        "functions": functions,
        **{
            kind: {name: entry for name, entry in _entries(sections, kind) if entry.get("function") not in others}
            for kind in ("triggers", "schedules")
        },
        **{kind: dict(_entries_of(sections, kind, databases.values(), chosen)) for kind in OF_ONE_DATABASE},
        **({"api": _api_of(sections["api"], set(databases.values()), chosen)} if "api" in sections else {}),
    }


def _api_of(content: Any, databases: Collection[str], chosen: str) -> Any:
    """Return the value of `api` for one database. Raises `CatalogueError`."""
    if not isinstance(content, list):
        return [] if chosen else content
    parts = []
    for each in content:
        database, dot, part = each.partition(".") if isinstance(each, str) and "." in each else ("", "", each)
        unknown = f"api names {each!r}: no function has the database {database!r}{closest(database, databases)}"
        refuse(bool(dot) and not (database and database in databases), unknown)
        parts += [part] if database == chosen else []
    return parts


def _entries_of(
    sections: Mapping[str, Any], kind: str, databases: Collection[str], chosen: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, entry in _entries(sections, kind):
        is_named, database = "database" in entry, entry.pop("database", "")
        refuse(
            is_named and (not database or database not in databases),
            f"{kind}.{name}: no function has the database {database!r}",
        )
        if database == chosen:
            yield name, entry


def _check_names(sections: Mapping[str, Any], databases: Collection[str]) -> None:
    """Refuse a name that begins with that of a database: names of its resources also begin with it."""
    for kind in ("functions", "queues", "triggers", "schedules"):
        for name, _ in _entries(sections, kind):
            taken = joins_a_database(name, databases)
            refuse(
                bool(taken),
                f"{kind}.{name}: resources of the database {taken} have names that begin with {taken}-: rename one",
            )


def joins_a_database(name: str, databases: Collection[str]) -> str:
    """Return the database whose resources have names that begin as this one, or an empty text."""
    return next((each for each in databases if each and f"{url_segment(name)}-".startswith(f"{each}-")), "")


def _check_keys(sections: Mapping[str, Any], databases: Mapping[str, str]) -> None:
    """Refuse one key of callbacks in two databases: code of one could sign events of the runs of the other."""
    first: dict[str, str] = {}
    for name, entry in _entries(sections, "functions"):
        secrets = entry.get("secrets")
        key = str(secrets.get(CALLBACK_KEYS, "")).partition(":")[0] if isinstance(secrets, dict) else ""
        other = first.setdefault(key, name)
        refuse(
            bool(key) and databases.get(name, "") != databases.get(other, ""),
            f"functions.{name}: its key of callbacks, {key}, is that of {other}, which has another database: name a "
            f"separate secret as {CALLBACK_KEYS}",
        )


def _without_unused_queues(sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections without the project's queues that no function of this database uses."""
    used = {
        queue
        for _, entry in _entries(sections, "functions")
        for key in ("enqueues", "queues")
        for queue in entry.get(key, ())
    }
    kept = {name: entry for name, entry in _entries(sections, "queues") if name in OF_QUEUES or name in used}
    return {**sections, "queues": kept}


def _uses(
    sections: Mapping[str, Any], root: Path, places: Mapping[str, Mapping[str, str]], read: Mapping[str, Usage]
) -> Iterator[Use]:
    """Iterate over the uses of the kit's parts, first those of the code. Raises `CatalogueError`.

    `places` are those of `Catalogue`, `read` the declarations in the code of each function.
    """
    folders = {name: _folder(root, name, entry) for name, entry in _entries(sections, "functions")}

    def origin(section: str, name: str, entry: Mapping[str, Any]) -> str:
        """Return the line of a decorator, or the entry that stands in the catalogue."""
        lines = list(places.get(f"{section}.{name}", {}).values())
        return f"{_shown(folders[entry['function']], root)}/{lines[0]}" if lines else f"{section}.{name}"

    for name, entry in _entries(sections, "functions"):
        if name not in FUNCTIONS:
            yield from _uses_of_code(_shown(folders[name], root), name, entry, read.get(name, Usage()))
    for name, schedule in _entries(sections, "schedules"):
        called = SCHEDULED if schedule.get("task") else FUNCTIONS.get(schedule.get("function", ""))
        if called and not any(name in part.schedules for part in PARTS.values()):
            yield Use(called, origin("schedules", name, schedule))
    for name, trigger in _entries(sections, "triggers"):
        collection = str(trigger.get("document")).partition("/")[0]
        if trigger.get("function") not in FUNCTIONS and collection in OF_EVENTS:
            yield Use(OF_EVENTS[collection], origin("triggers", name, trigger))
        if trigger.get("handler"):
            yield Use(HANDLERS, origin("triggers", name, trigger))
    for section, part in OF_SECTIONS.items():
        for name, _ in _entries(sections, section):
            yield Use(part, f"{section}.{name}", tuple({section} & FUNCTIONS.keys()))
    for name, index in _entries(sections, "indexes"):
        if index.get("collection") == "documents":
            yield Use("documents", f"indexes.{name}")
    for name in _api(sections["api"]):
        yield Use(name, "api", PARTS[name].api)
        yield from (Use(needed, f"api: {name}") for needed in PARTS[name].api_needs)


def _uses_of_code(shown: str, name: str, entry: Mapping[str, Any], found: Usage) -> Iterator[Use]:
    """Iterate over the uses of the kit's parts by a function of the project, whose folder is `shown`."""
    where = f"functions.{name}"

    def origin(places: Mapping[str, str], key: str, entry_key: str) -> str:
        return f"{shown}/{places[key]}" if key in places else f"{where}: {entry_key}"

    for queue in {**found.queues, **dict.fromkeys(entry.get("enqueues", ()))}:
        if queue in OF_QUEUES:
            yield Use(OF_QUEUES[queue], origin(found.queues, queue, "enqueues"))
    for key, places in (("objects", found.objects), ("flows", found.flows), ("tasks", found.tasks)):
        for declared in list(entry.get(key, ()))[:1]:
            yield Use(key, origin(places, declared, key))
    for queue in entry.get("queues", ()):
        if queue in OF_QUEUES:
            yield Use(OF_QUEUES[queue], f"{where}: queues")
    if "queue" in entry.get("invoked_by", ()) and not entry.get("queues"):
        yield Use("tasks", f"{where}: invoked_by")
    for public, part in OF_NAMES.items():
        if public in found.rights:
            yield Use(part, origin(found.rights, public, ""))
    for called in entry.get("invokes", ()):
        if called in FUNCTIONS:
            yield Use(FUNCTIONS[called], origin(found.invokes, called, "invokes"), (called,))


def _shown(folder: Path, root: Path) -> str:
    return (folder.relative_to(root) if folder.is_relative_to(root) else folder).as_posix()


def _api(content: Any) -> Sequence[str]:
    """Return the parts in the value of `api`. Raises `CatalogueError`."""
    content = content or []
    if content == ALL:
        return tuple(PARTS)
    listed = isinstance(content, list) and all(isinstance(each, str) for each in content)
    refuse(not listed, f"api is {content!r}; write {ALL}, or a list of {', '.join(APIS)}")
    for name in content:
        refuse(name == ALL, f"api names {ALL} in a list; write  api: {ALL}")
        refuse(name not in APIS, f"api names {name!r}{_meant(name)}; choose from {', '.join(APIS)}")
        refuse(content.count(name) > 1, f"api names {name} twice")
    return tuple(content)


def _meant(name: str) -> str:
    """Return a hint for an unknown name: the part with a function of this name, or with a similar name."""
    part = FUNCTIONS.get(name.replace("-", "_"), "")
    return f", a function of {part}" if part in APIS else closest(name, APIS)


def _called_parts(sections: Mapping[str, Any]) -> frozenset[str]:
    """Return the parts that callers use over HTTP. Raises `CatalogueError`."""
    declared = (section for section in OF_SECTIONS if section in PARTS and sections.get(section))
    return frozenset((*_api(sections.get("api")), *declared))


def _with_only(sections: Mapping[str, Any], used: Used) -> dict[str, Any]:
    """Return the sections without the entries of the kit's parts that are not in use.

    A function that only its part's callers may call is closed to people. The queues of its tasks are those that remain.
    """
    absent = {queue for queue in OF_QUEUES if queue not in used.queues}
    functions = {
        name: _as_used(name, entry, used, absent) if name in FUNCTIONS else entry
        for name, entry in _entries(sections, "functions")
        if name not in FUNCTIONS or name in used.functions
    }
    return {
        **sections,
        "functions": functions,
        "queues": {name: entry for name, entry in _entries(sections, "queues") if name not in absent},
        **{
            kind: {name: entry for name, entry in _entries(sections, kind) if _calls_one(entry, functions)}
            for kind in ("triggers", "schedules")
        },
    }


def _as_used(name: str, entry: Mapping[str, Any], used: Used, absent: Collection[str]) -> dict[str, Any]:
    callers = [each for each in entry.get("invoked_by", ()) if each != "people" or name in used.called]
    queues = [queue for queue in entry.get("enqueues", ()) if queue not in absent]
    return {**entry, "invoked_by": callers, "enqueues": queues}


def _with_actions_on_all(
    sections: Mapping[str, Any], places: Mapping[str, Mapping[str, str]], parts: Collection[str]
) -> Mapping[str, Any]:
    """Return the sections in which functions with flows enqueue batches, if these are deployed.

    An action on all runs of a flow that match is a batch. An entry's own `enqueues` is not changed.
    """
    functions = dict(_entries(sections, "functions"))
    for name, entry in functions.items() if "batches" in parts else ():
        if entry.get("flows") and "enqueues" in places.get(f"functions.{name}", {}):
            functions[name] = {**entry, "enqueues": sorted({*entry["enqueues"], BATCHES_QUEUE})}
    return {**sections, "functions": functions}


def _calls_one(caller: Mapping[str, Any], functions: Mapping[str, Any]) -> bool:
    """Return whether a trigger or schedule calls a function that is deployed, or one that no catalogue has."""
    name = caller.get("function")
    return name in functions or name not in FUNCTIONS


def _document_writers(sections: Mapping[str, Any]) -> str:
    """Return the value of `written_by` in the section `documents`. Raises `CatalogueError`."""
    declared = _mapping("documents", sections.get("documents") or {})
    unknown = sorted(declared.keys() - {"written_by", "verified"})
    refuse(bool(unknown), f"documents: unknown keys {unknown}")
    writers = declared.get("written_by", ANYONE)
    refuse(writers not in WRITERS, f"documents: written_by is {writers!r}; choose from {', '.join(WRITERS)}")
    return str(writers)


def _are_payloads_stored(sections: Mapping[str, Any]) -> bool:
    """Return the value of `payloads`. Raises `CatalogueError`."""
    stored = sections.get("payloads", False)
    refuse(not isinstance(stored, bool), f"payloads is {stored!r}; write  payloads: true")
    return bool(stored)


VERIFYING = "verifications"
"""The function that the nightly schedule calls."""


def _are_documents_verified(sections: Mapping[str, Any]) -> bool:
    """Return the value of `verified` in the section `documents`. Raises `CatalogueError`."""
    verified = _mapping("documents", sections.get("documents") or {}).get("verified", True)
    refuse(not isinstance(verified, bool), f"documents: verified is {verified!r}; choose true or false")
    return bool(verified)


def _without_nightly_verifications(sections: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sections without the schedule of the nightly verification, which can still be started by hand."""
    schedules = _mapping("schedules", sections.get("schedules") or {})
    called = {name: each.get("function") for name, each in schedules.items() if isinstance(each, dict)}
    others = {name: each for name, each in schedules.items() if called.get(name) != VERIFYING}
    return {**sections, "schedules": others}


def _without_events_of_documents(sections: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the sections without the function that handles documents' events, and without its trigger."""
    functions, triggers = (_mapping(kind, sections.get(kind) or {}) for kind in ("functions", "triggers"))
    called = {name: each.get("function") for name, each in triggers.items() if isinstance(each, dict)}
    return {
        **sections,
        "functions": {name: each for name, each in functions.items() if name != LINK_FAN_OUT},
        "triggers": {name: each for name, each in triggers.items() if called.get(name) != LINK_FAN_OUT},
    }


def _with_code(
    sections: Mapping[str, Any], root: Path, elsewhere: Collection[str]
) -> tuple[dict[str, Any], dict[str, Mapping[str, str]], Mapping[str, Usage]]:
    """Return the sections with the keys that follow from the functions' code, the places of these keys, and the
    declarations in the code, by function.

    Raises `CatalogueError` if parsing cannot follow the code of a function whose entry omits these keys, or for code
    that names a task of a function `elsewhere`, in another database.
    """
    functions = dict(_entries(sections, "functions"))
    schedules, triggers = (dict(_entries(sections, kind)) for kind in ("schedules", "triggers"))
    read = {name: usage for name, entry in functions.items() if (usage := _usage(root, name, entry))}
    for name, usage in read.items():
        refuse(bool(usage.refused), f"functions.{name}: {'; '.join(usage.refused)}")
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
    queues = {queue for part in _called_parts(sections) for queue in PARTS[part].ended_by_tasks}
    for name, usage in read.items():
        where = f"functions.{name}"
        for other in sorted(usage.called.keys() & elsewhere):
            raise CatalogueError(
                f"{where}: {usage.called[other]} names a task of {other}, which has another database: call one of its "
                "routes with `invoke`"
            )
        try:
            found = with_callers(name, usage, read, queues)
            functions[name], places[where] = completed(functions[name], found, scheduled=name in called)
        except CatalogueError as error:
            raise CatalogueError(f"{where}: {error}") from None
        _check_callbacks(functions, read, name, usage)
        if _document_writers(sections) == KIT:
            check_writer(name, functions[name], usage)
    return {**sections, "functions": functions, "schedules": schedules, "triggers": triggers}, places, read


def _usage(root: Path, name: str, entry: Mapping[str, Any]) -> Usage | None:
    """Return the declarations in a function's code, or None if the code cannot be parsed and its entry has all keys."""
    folder = _folder(root, name, entry)
    if not (folder / "main.py").is_file():
        if "invoked_by" in entry:
            return None  # the entry is refused later
        raise CatalogueError(f"functions.{name}: {missing(folder)}")
    try:
        return usage_of(python_files(folder))
    except CatalogueError as error:
        if entry.keys() >= set(FROM_CODE):
            return None
        raise CatalogueError(f"functions.{name}: {error}") from None


def _check_callbacks(
    functions: Mapping[str, Mapping[str, Any]], read: Mapping[str, Usage], name: str, usage: Usage
) -> None:
    """Check that ``flow.callback(through=NAME)`` names an open function with the same key that serves callbacks.

    Raises `CatalogueError`: otherwise the run would send an address that answers 404.
    """
    for through, place in usage.through.items():
        said = f'functions.{name}: {place} calls flow.callback(through="{through}"), and '
        refuse(through not in functions, f"{said}there is no such function{closest(through, functions)}")
        refuse(
            through in read and not read[through].callbacks,
            f"{said}{through} does not serve callbacks: add app.callbacks() to its code",
        )
        refuse(not functions[through].get("public"), f"{said}{through} is not open: add public: true to its entry")
        own, other = (
            (functions[each].get("secrets") or {}).get(CALLBACK_KEYS, "no secret") for each in (name, through)
        )
        refuse(own != other, f"{said}their {CALLBACK_KEYS} are {own} and {other}: name the same secret in both entries")


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


def _build(entry_type: type[Entry], where: str, values: dict[str, Any]) -> Entry:
    fields = {field.name: field for field in dataclasses.fields(entry_type)}
    unknown = sorted(values.keys() - fields)
    refuse(bool(unknown), f"{where}: unknown keys {unknown}{''.join(closest(key, fields) for key in unknown)}")
    required = {name for name, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING}
    refuse(bool(required - values.keys()), f"{where}: these keys are missing: {sorted(required - values.keys())}")
    try:
        return entry_type(**{name: _typed(name, value, fields[name].type) for name, value in values.items()})
    except CatalogueError as error:
        raise CatalogueError(f"{where}: {error}") from None


def _typed(name: str, value: Any, wanted: Any) -> Any:
    if metadata_of(wanted):
        return value  # the entry checks it by its rules
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


class _UniqueKeys(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the quick one, if it is there
    """A YAML loader that refuses a duplicate key. The plain loader keeps the last value silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        refuse(bool(twice), f"line {node.start_mark.line + 1}: given twice: {', '.join(twice)}")
        constructed: dict[Hashable, Any] = super().construct_mapping(node, deep)
        return constructed
