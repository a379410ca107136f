"""Derive the keys that a function's entry may omit from its code: tasks, objects, flows, queues, callers.

The code is parsed, not run. The tasks are the functions decorated with ``@app.task`` or ``@standing_changed(app, …)``,
the objects the classes decorated with ``@app.object``, the flows the functions decorated with ``@app.flow``. The queues
follow from the use of `signalbox`: a semaphore and a critical section enqueue to `admit` and `tasks`; a batch to
`batches` and `tasks`, and so does the task of a batch's unit, since the last unit completes the batch; a batch with
``semaphore=`` or ``rate=`` also to the queues of a semaphore, and so does a task under a lease, which gives it back;
``call.enqueue()`` and a schedule with `overlap` to `tasks`; a call of an object to `objects`, of a flow to `flows`; a
declaration of standings to `standings`. A function with objects or flows also enqueues to `tasks`, since its turns send
the calls of methods and the commands of flows. If the project uses batches, one with flows enqueues to `batches`, since
an action on all runs that match is a batch. ``flow.lock`` and ``flow.batch`` count as a semaphore and a batch. A queue
that the code names (``queue="slow"``) also counts. The rules of an open function are decorated with
``@app.access("NAME")``. A function invokes those that ``invoke("NAME", …)`` names. It writes to the buckets of
``@app.flow(archive="gs://BUCKET/PREFIX")``.

``completed`` adds the keys that an entry omits, and ``check_declared`` checks those that it contains. A trigger
follows from ``@app.document_written("orders/{id}")`` or ``@app.on_document("orders/{id}", on="created")``, whose
handler is a task, a schedule of a task from ``@app.schedule("0 6 * * 1")``.

The arguments of tasks are those of their functions, by name. An argument that the kit fills (``lease: Lease``) is not
among them. The kit may also fill an argument whose annotation cannot be resolved by reading, so it counts as optional.
The arguments of a task with a decorator from elsewhere are unknown.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields, replace
from functools import lru_cache, reduce
from typing import Any

from signalbox.catalogue import declared_in_code, used_in_code
from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.function_entries import Function, url_segment
from signalbox.catalogue.parts import FUNCTIONS as OF_THE_KIT
from signalbox.catalogue.source_file import SourceFile, parsed, with_apps
from signalbox.core.given import given
from signalbox.core.kit_names import (
    ADMIT_QUEUE,
    BATCHES_QUEUE,
    FLOWS_QUEUE,
    LINKS_QUEUE,
    OBJECTS_QUEUE,
    TASKS_QUEUE,
)
from signalbox.core.lazy_dataclasses import dataclass

MAIN = "main.py"


@dataclass(frozen=True, slots=True)
class Usage:
    """The declarations in a function's code: places (``main.py:12``) by the name of the task, queue, class or flow.

    `otherwise` is the first place where the code makes some of them in a way that parsing cannot follow. If it is not
    empty, there may be more.
    `refused` has the places of code that the function refuses when it is loaded, each with the reason.
    """

    tasks: Mapping[str, str] = field(default_factory=dict)
    queues: Mapping[str, str] = field(default_factory=dict)
    otherwise: str = ""
    objects: Mapping[str, str] = field(default_factory=dict)
    flows: Mapping[str, str] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    refused: Sequence[str] = field(default_factory=list)
    named: Mapping[str, str] = field(default_factory=dict)
    """The places of ``Function("NAME")``, by NAME."""
    main_names: frozenset[str] | None = None
    """The names that ``main.py`` defines, one of which is the entry point, or None if it has a ``*`` import."""
    routes: Mapping[str, str] = field(default_factory=dict)
    """The first place where it serves HTTP, by kind: ``http``, ``add_resource``, ``resource``."""
    events: Mapping[str, str] = field(default_factory=dict)
    """The places of its event handlers, by the patterns of their documents."""
    handlers: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The place of each handler that is a task, and the `event` and `document` of its trigger, by its name."""
    schedules: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    """The place and the entry of each schedule, by its name."""
    each_user: str = ""
    """The place of the first resource with ``each_user=True``, or an empty text."""
    parameters: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The arguments of each task whose arguments are known, an optional one with a question mark."""
    invokes: Mapping[str, str] = field(default_factory=dict)
    """The places of ``invoke("NAME", …)``, by NAME; an empty text stands for a name that is not a constant."""
    rights: Mapping[str, str] = field(default_factory=dict)
    """The places where it imports public names that need a right, by name."""
    through: Mapping[str, str] = field(default_factory=dict)
    """The places of ``flow.callback(…, through="NAME")``, by NAME."""
    callbacks: str = ""
    """The place of ``app.callbacks()``, or an empty text."""
    archives: Mapping[str, str] = field(default_factory=dict)
    """The places of ``@app.flow(archive="gs://BUCKET/…")``, by BUCKET."""
    called: Mapping[str, str] = field(default_factory=dict)
    """The places of ``Call("NAME", …)``, by NAME."""
    hidden: Mapping[str, str] = field(default_factory=dict)
    """The places where it imports names of the kit that parsing cannot follow, by module."""


def trigger_name(function: str, handler: str) -> str:
    """Return the name of the trigger of a handler that is a task: ``orders-packed``."""
    return f"{url_segment(function)}-{url_segment(handler.lower()).strip('-')}"


def usage_of(sources: Mapping[str, bytes]) -> Usage:
    """Return the declarations in the Python files of a function, by path.

    Raises `CatalogueError` for a file that does not compile, a task, class or flow whose name another file also
    declares, a second schedule of the same name, or a decorator's argument that is not a constant.
    """
    return _usage_of(tuple(sorted(sources.items())))


@lru_cache(maxsize=128)
def _usage_of(sources: Sequence[tuple[str, bytes]]) -> Usage:
    """Return the declarations in files. Cached: a process reads the catalogue many times."""
    files = with_apps([SourceFile(path, parsed(path, source)) for path, source in sources])
    return reduce(_joined, map(_usage_in, files), Usage())


def _usage_in(file: SourceFile) -> Usage:
    """Return the declarations in one file."""
    return Usage(
        tasks=declared_in_code.tasks(file),
        queues=used_in_code.queues(file),
        otherwise=declared_in_code.made_otherwise(file),
        objects=declared_in_code.objects(file),
        flows=declared_in_code.flows(file),
        rules=declared_in_code.rules(file),
        refused=[*declared_in_code.never_run(file), *declared_in_code.unknown_arguments(file)],
        named=declared_in_code.named_functions(file),
        main_names=declared_in_code.names(file) if file.path == MAIN else None,
        routes=declared_in_code.routes(file),
        events=declared_in_code.events(file),
        handlers=declared_in_code.handlers(file),
        schedules=declared_in_code.schedules(file),
        each_user=declared_in_code.each_user(file),
        parameters=declared_in_code.parameters(file),
        invokes=used_in_code.invoked(file),
        rights=used_in_code.rights(file),
        through=used_in_code.through(file),
        callbacks=declared_in_code.callbacks(file),
        archives=declared_in_code.archives(file),
        called=used_in_code.called(file),
        hidden=used_in_code.hidden(file),
    )


def _joined(before: Usage, more: Usage) -> Usage:
    """Return the declarations of some files and of one more; the first place of each name counts.

    Raises `CatalogueError` for a name that must be declared once.
    """
    for kind, names in (("task", "tasks"), ("class of objects", "objects"), ("flow", "flows")):
        known, new = getattr(before, names), getattr(more, names)
        for name in sorted(known.keys() & new.keys()):
            raise CatalogueError(
                f"{new[name]} declares {name}, a second {kind} of this name ({known[name]}): rename one"
            )
    for name in more.schedules.keys() & before.schedules.keys():
        raise CatalogueError(f"{more.schedules[name][0]} is a second schedule {name}: give it a name=")
    values = {each.name: (getattr(before, each.name), getattr(more, each.name)) for each in fields(Usage)}
    return Usage(**{name: _both(known, new) for name, (known, new) in values.items()})


def _both(known: Any, new: Any) -> Any:
    """Return what two files declare of one kind."""
    if isinstance(known, Mapping):
        return {**known, **{name: where for name, where in new.items() if name not in known}}
    return [*known, *new] if isinstance(known, list) else known or new


FROM_CODE = ("invoked_by", "enqueues", "tasks", "objects", "flows")
"""The keys of an entry that follow from the code."""


def completed(entry: Mapping[str, Any], usage: Usage, *, scheduled: bool) -> tuple[dict[str, Any], dict[str, str]]:
    """Return an entry completed with the keys that it omits.

    Also return, by key, the places in the code from which the added keys follow. `scheduled` is whether a schedule
    calls the function itself. Raises `CatalogueError` if parsing cannot follow the code.
    """
    if usage.otherwise and not {"tasks", "objects", "flows"} <= entry.keys():
        raise CatalogueError(
            f"{usage.otherwise} calls app.task, app.object, app.flow, app.on_document or app.on_failure "
            "other than as a decorator: "
            "list its tasks, objects and flows in the entry"
        )
    places = {
        "enqueues": usage.queues,
        "tasks": usage.tasks,
        "objects": usage.objects,
        "flows": usage.flows,
        "invokes": {name: where for name, where in usage.invokes.items() if name},
        "archives": usage.archives,
        "invoked_by": _callers(usage, scheduled=scheduled),
    }
    found = {key: dict(where) for key, where in places.items() if where and key not in entry}
    names = {key: list(where) if key == "invoked_by" else sorted(where) for key, where in found.items()}
    known = {name: list(of) for name, of in sorted(usage.parameters.items())}
    return {**names, **given(parameters=known or None), **entry}, {
        key: ", ".join(dict.fromkeys(filter(None, where.values()))) for key, where in found.items()
    }


OF_CALLERS = frozenset({ADMIT_QUEUE, BATCHES_QUEUE, FLOWS_QUEUE, OBJECTS_QUEUE, TASKS_QUEUE})
"""The queues of work of which a task of another function may be a part: it ends a lease, a unit or a step."""


def with_callers(name: str, usage: Usage, usages: Mapping[str, Usage], named_by_callers: Collection[str]) -> Usage:
    """Return the declarations of a function with the queues that its tasks need as a part of others' work.

    Callers over HTTP may name any task as a part of theirs: `named_by_callers` are the queues of this work.
    """
    callers = {other: each for other, each in usages.items() if name in each.called and other != name}
    needed = {
        queue: f"{other}/{each.called[name]}"
        for other, each in callers.items()
        for queue in each.queues
        if queue in OF_CALLERS and usage.tasks
    }
    by_api = dict.fromkeys(sorted(named_by_callers) if usage.tasks else (), "")
    return replace(usage, queues={**by_api, **needed, **usage.queues})


def _callers(usage: Usage, *, scheduled: bool) -> dict[str, str]:
    """Return the kinds of callers with places.

    People are callers unless the code has only tasks or only handles events.
    """
    called = {**usage.tasks, **usage.objects, **usage.flows}
    if usage.events:
        return {"event": _first(usage.events)}
    served = {**usage.routes, **usage.objects, **usage.flows}
    return given(
        people=(_first(served) or MAIN) if served or not (called or scheduled) else None,
        queue=_first(called) if called else None,
        event=next((place for place, *_ in usage.handlers.values()), None),
        schedule="" if scheduled else None,
    )


def _first(places: Mapping[str, str]) -> str:
    return next(iter(places.values()), "")


def check_declared(function: Function, usage: Usage, *, may_hide: bool = False) -> None:
    """Raise `CatalogueError` with the lines to add if the entry of the catalogue lacks what the code needs.

    Imports that hide the parts of the kit that the code uses are refused, unless they `may_hide` them.

    The queue of documents is not checked here: it is needed only if only the kit writes them (`check_writer`).
    """
    if complaints := list(_complaints(function, usage, may_hide=may_hide or function.name in OF_THE_KIT)):
        raise CatalogueError("; ".join(complaints))


def check_writer(name: str, entry: Mapping[str, Any], usage: Usage) -> None:
    """Raise `CatalogueError` if code writes documents and its entry lacks the queue `links`.

    Call it only if the catalogue says that only the kit writes documents: with events, no queue is needed.
    """
    if LINKS_QUEUE in usage.queues and LINKS_QUEUE not in entry.get("enqueues", ()):
        raise CatalogueError(
            f"functions.{name}: {usage.queues[LINKS_QUEUE]} writes documents, and only the kit does "
            f"(documents.written_by): add {LINKS_QUEUE} to its enqueues"
        )


def _complaints(function: Function, usage: Usage, *, may_hide: bool) -> Iterator[str]:
    yield from usage.refused
    entry = f"in the catalogue, functions.{function.name}, write"
    for name, where in usage.hidden.items() if not may_hide else ():
        yield (
            f"{where} reads {name}, which does not show the parts of the kit that must be deployed: import the names "
            "that you use from signalbox, as in  from signalbox import batch"
        )
    for name, where in usage.named.items():
        if name != function.name:
            yield f'{where} makes Function("{name}"): write Function("{function.name}"), its name in the catalogue'
    if usage.main_names is not None and function.name not in usage.main_names:
        line = f"{function.name} = app.entry_point()"
        yield f"{MAIN} defines no {function.name}, which the platform calls: end it with  {line}"
    for name, where in list({**usage.flows, **usage.objects, **usage.tasks}.items())[:1]:
        if "queue" not in function.invoked_by:
            yield f"{where} declares {name}: {entry}  invoked_by: {_list([*function.invoked_by, 'queue'])}"
    if usage.each_user and not function.auth:
        yield f"{usage.each_user} has items of each user, and no user signs in: {entry}  auth: firebase"
    for kind in ("tasks", "objects", "flows"):
        declared, found = getattr(function, kind), getattr(usage, kind)
        if (set(declared) - found.keys() and not usage.otherwise) or found.keys() - set(declared):
            yield f"its {kind} are {_named(found) or 'none'}: {entry}  {kind}: {_list(found)}"
    if lacking := [name for name in function.exposes if name not in usage.rules]:
        rule = ", ".join(f'"{name}"' for name in lacking)
        yield f"exposes names {', '.join(lacking)}, and no rule decides who may: decorate one with @app.access({rule})"
    if "" in usage.invokes and not function.invokes:
        yield f"{usage.invokes['']} calls invoke with a name that is not a constant: {entry}  invokes: [NAME, …]"
    called = {name: where for name, where in usage.invokes.items() if name and name not in function.invokes}
    if called:
        yield f"{_named(called)} not in invokes: {entry}  invokes: {_list([*function.invokes, *called])}"
    if buckets := {name: where for name, where in usage.archives.items() if name not in function.archives}:
        yield f"{_named(buckets)} not in archives: {entry}  archives: {_list([*function.archives, *buckets])}"
    if function.isolated and usage.rights:
        yield f"{_named(usage.rights)} needs a right, and the function is isolated: remove it, or isolated"
    missing = {queue: where for queue, where in usage.queues.items() if queue not in (*function.enqueues, LINKS_QUEUE)}
    if missing:
        yield f"{_named(missing)} not in enqueues: {entry}  enqueues: {_list([*function.enqueues, *missing])}"


def _named(places: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({where})" for name, where in places.items())


def _list(names: Sequence[str] | Mapping[str, str]) -> str:
    return f"[{', '.join(names)}]"
