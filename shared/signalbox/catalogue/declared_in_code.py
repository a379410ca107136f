"""Read the syntax tree of one file: the tasks, objects, flows and handlers that it declares, and the queues it uses.

A name counts if the file imports it from `signalbox`, even under another name (``sem = semaphore``) or through another
file of the function. A name that is passed on counts as if it were called there, with all of its methods, since its
calls are not followed.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeGuard

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.function_entries import url_segment
from signalbox.core.document_patterns import KINDS, WRITTEN
from signalbox.core.given import given
from signalbox.core.kit_names import (
    ADMIT_QUEUE,
    BATCHES_QUEUE,
    BUCKET,
    FAILURE_NOTICE_TASK,
    FLOWS_QUEUE,
    LINKS_QUEUE,
    OBJECTS_QUEUE,
    STANDINGS_QUEUE,
    TASKS_QUEUE,
)

KIT = "signalbox"
SEMAPHORE_QUEUES = (ADMIT_QUEUE, TASKS_QUEUE)
BATCH_QUEUES = (BATCHES_QUEUE, TASKS_QUEUE)
OBJECT_QUEUES = (OBJECTS_QUEUE, TASKS_QUEUE)
FLOW_QUEUES = (FLOWS_QUEUE, TASKS_QUEUE)

QUEUES = {
    "semaphore": SEMAPHORE_QUEUES,
    "batch": BATCH_QUEUES,
    "sub_batch": BATCH_QUEUES,
    "objects": (OBJECTS_QUEUE,),
    "flows": (FLOWS_QUEUE,),
    "critical_section": SEMAPHORE_QUEUES,
    "rate": SEMAPHORE_QUEUES,
    "transaction": (LINKS_QUEUE,),
    "add_resource": (LINKS_QUEUE,),
    "resource": (LINKS_QUEUE,),
}
"""The queues that a public name of `signalbox` enqueues to."""

OF_METHODS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "flow": {"lock": SEMAPHORE_QUEUES, "rate": SEMAPHORE_QUEUES, "batch": BATCH_QUEUES},
    "standings": {"declare": (STANDINGS_QUEUE,)},
    "documents": dict.fromkeys(("put", "patch", "put_many", "restore", "forget_versions", "delete"), (LINKS_QUEUE,)),
}
"""The queues that the methods of a public name enqueue to: ``flow.lock(…)``, ``standings(…).declare(…)``."""

OF_FILLED: Mapping[str, tuple[str, ...]] = {
    "Lease": SEMAPHORE_QUEUES,
    "SectionRun": SEMAPHORE_QUEUES,
    "Unit": BATCH_QUEUES,
}
"""The queues that the end of a task enqueues to, by the annotation of the argument that the kit fills."""

MAKES_UNITS = frozenset({"batch", "populate", "sub_batch"})
"""The functions and methods whose ``semaphore=…`` or ``rate=…`` are for the units of a batch."""

INVOKE = "invoke"
BY_NAME = frozenset({"getattr", "import_module", "__import__"})
"""Functions that read a module, or a name of it, by a text."""

OPEN = frozenset({"client", "core", "testing"})
"""The packages of `signalbox` that a function may import: their code uses no part of the kit."""

HOMONYMS = frozenset({"documents", "flows", "objects", "standings"})
"""The packages of `signalbox` that have the name of something public."""

INNER = frozenset(
    {
        *("adapters", "batches", "catalogue", "critical_sections", "document_events", "function", "history", "links"),
        *("mailboxes", "payloads", "rates", "resources", "semaphores", "tasks", "transforms"),
    }
)
"""The other packages of `signalbox`."""

WITHOUT_RIGHTS = frozenset(
    {
        "Access",
        "FailureNotice",
        "Function",
        "NotFound",
        "Problem",
        "Request",
        "Response",
        "Unavailable",
        "User",
        "parse",
    }
)
"""The public names that need no right: an isolated function may import these."""

NAMES_A_QUEUE = frozenset({"Call", "replace"})
TASK_DECORATOR = frozenset({"task"})
THRESHOLD_DECORATOR = "standing_changed"
OBJECT_DECORATOR = frozenset({"object"})
FLOW_DECORATOR = frozenset({"flow"})
RULE_DECORATOR = frozenset({"access"})
ROUTE_DECORATOR = frozenset({"http"})
EVENT_DECORATOR = frozenset({"document_written"})
DOCUMENT_DECORATOR = frozenset({"on_document"})
OF_HANDLERS = ("event", "path", "data", "kind?", "place?", "after?")
"""The arguments of the task of an event (`signalbox.adapters.http.event_deliveries.ReceivedEvent`)."""

OF_NOTICES = ("notice",)
"""The arguments of the task that runs `on_failure`."""

FAILURE_DECORATOR = frozenset({"on_failure"})
CALLBACKS = frozenset({"callbacks"})
SCHEDULE_DECORATOR = frozenset({"schedule"})
RESOURCES = ("add_resource", "resource")
FILLED = frozenset({"Completion", "Lease", "Outcome", "SectionRun", "TaskContext", "Unit"})
"""The annotations of the arguments that the kit fills."""

PLAIN = frozenset(dir(builtins)) | {"Any", "Literal", "Optional", "Union"}
"""The names in annotations of JSON values."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
READ_ONLY = frozenset({"status"})
"""Methods of a batch that enqueue nothing."""

EVENT_TYPES = "google.cloud.firestore.document.v1."
"""The beginning of the types of the events of documents."""


@lru_cache(maxsize=64)
def parsed(path: str, source: bytes) -> ast.Module:
    """Parse and compile a file; compiling finds all syntax errors.

    The result is cached, because each check of a function parses the file. Raises `CatalogueError`.
    """
    try:
        tree = ast.parse(source, path)
        compile(tree, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise CatalogueError(f"{path} does not compile: {error}") from error
    return tree


class Module:
    """One parsed file, and the local names of its imports from the kit.

    `apps` are the names of ``Function(…)`` in all files of the function (`with_apps`). Methods such as `task` count on
    these names only. If `apps` is empty, the code gets its function from elsewhere, and they count on any name.
    `uses_kit` is whether any of these files imports the kit.
    """

    def __init__(self, path: str, tree: ast.Module) -> None:
        self._path = path
        self._nodes = list(ast.walk(tree))
        self._for_types = {
            id(inner)
            for node in self._nodes
            if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
            for statement in node.body
            for inner in ast.walk(statement)
        }
        self._kit = dict(self._kit_names())
        self._follow_assignments()
        self.apps: frozenset[str] = frozenset()
        self.uses_kit = bool(self._kit)
        self._owners = {id(node.value): node for node in self._nodes if isinstance(node, ast.Attribute)}
        self._calls = {id(node.func): node for node in self._nodes if isinstance(node, ast.Call)}

    @property
    def name(self) -> str:
        """The last part of the name under which other files import this one."""
        path = self._path.removesuffix(".py").removesuffix("/__init__")
        return path.rpartition("/")[2]

    def tasks(self) -> dict[str, str]:
        """Return the places of the functions decorated as tasks, and of scheduled flows, which a task starts."""
        return {
            node.name: f"{self._path}:{node.lineno}"
            for node in self._nodes
            if isinstance(node, FUNCTIONS)
            and (any(map(self._is_task_decorator, node.decorator_list)) or self._is_scheduled_flow(node))
        } | self._failure_notice()

    def _failure_notice(self) -> dict[str, str]:
        """Return the place of the function decorated with `on_failure`, under the name of its task."""
        places = [f"{self._path}:{node.lineno}" for node in self._nodes if self._handles_failures(node)]
        return dict.fromkeys([FAILURE_NOTICE_TASK] if places else [], "".join(places[:1]))

    def parameters(self) -> dict[str, Sequence[str]]:
        """Return the arguments of the tasks that have only decorators of the kit."""
        tasks = [node for node in self._nodes if isinstance(node, FUNCTIONS) and self._is_plain_task(node)]
        written = {
            task.name: [name for each, default in _parameters(task) if (name := self._argument(each, default))]
            for task in tasks
        }
        of_kit: dict[str, Sequence[str]] = {
            **dict.fromkeys(self.handlers(), OF_HANDLERS),
            **dict.fromkeys(self._failure_notice(), OF_NOTICES),
        }
        return {**of_kit, **written}

    def _argument(self, parameter: ast.arg, has_default: bool) -> str:
        """Return an argument's name, with a question mark if it is optional.

        Return an empty text if the kit fills it.
        """
        annotation = _unquoted(parameter.annotation)
        if annotation is None:
            return f"{parameter.arg}?" if has_default else parameter.arg
        if self._filled_with(annotation) in FILLED:
            return ""
        return f"{parameter.arg}?" if has_default or not _names(annotation) <= PLAIN else parameter.arg

    def never_run(self) -> list[str]:
        """Return the tasks whose code a call would not run. The text for each task also has the reason."""
        tasks = [node for node in self._nodes if isinstance(node, FUNCTIONS)]
        named = [(node, f"{self._path}:{node.lineno}: the task {node.name}") for node in tasks]
        decorated = [(node, task) for node, task in named if any(map(self._is_task_decorator, node.decorator_list))]
        return [f"{task} contains `yield`: return a list" for node, task in decorated if _yields(node)]

    def objects(self) -> dict[str, str]:
        """Return the places of the classes decorated as classes of objects."""
        return {node.name: f"{self._path}:{node.lineno}" for node in self._nodes if self._is_object_class(node)}

    def flows(self) -> dict[str, str]:
        """Return the places of the functions decorated as flows."""
        return {node.name: f"{self._path}:{node.lineno}" for node in self._nodes if self._is_flow(node)}

    def named_functions(self) -> dict[str, str]:
        """Return the places of ``Function("NAME")``, by the names."""
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and self._kit_name(node.func) == "Function")
        named = ((call.args[0], call) for call in calls if call.args)
        return {
            name.value: f"{self._path}:{call.lineno}"
            for name, call in named
            if isinstance(name, ast.Constant) and isinstance(name.value, str)
        }

    def names(self) -> frozenset[str] | None:
        """Return all names that the module may define, or None if a ``*`` import may define others."""
        imports = (node for node in self._nodes if isinstance(node, ast.Import | ast.ImportFrom))
        aliases = [alias for node in imports for alias in node.names]
        if any(alias.name == "*" for alias in aliases):
            return None
        stored = {node.id for node in self._nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
        defined = (node for node in self._nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
        return frozenset(stored | {node.name for node in defined} | {alias.asname or alias.name for alias in aliases})

    def routes(self) -> dict[str, str]:
        """Return the places of the first route of each kind."""
        found: dict[str, str] = {}
        for call in (node for node in self._nodes if isinstance(node, ast.Call)):
            kind = "http" if self._is_decorator(call, ROUTE_DECORATOR | CALLBACKS) else self._kit_name(call.func)
            if kind in ("http", *RESOURCES):
                found.setdefault(kind, f"{self._path}:{call.lineno}")
        return found

    def invoked(self) -> dict[str, str]:
        """Return the places of the first call of each function by `invoke`; see `Usage.invokes`."""
        found: dict[str, str] = {}
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and self._kit_name(node.func) == INVOKE)
        for call in calls:
            for name in [*call.args[:1], *(each.value for each in call.keywords if each.arg == "function")]:
                constant = name.value if isinstance(name, ast.Constant) else None
                found.setdefault(constant if isinstance(constant, str) else "", f"{self._path}:{call.lineno}")
        return found

    def called(self) -> dict[str, str]:
        """Return the places of the first ``Call("NAME", …)`` of each function, by NAME, if NAME is a constant."""
        found: dict[str, str] = {}
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and self._kit_name(node.func) == "Call")
        for call in calls:
            for name in [*call.args[:1], *(each.value for each in call.keywords if each.arg == "function")]:
                if isinstance(name, ast.Constant):
                    found.setdefault(str(name.value), f"{self._path}:{call.lineno}")
        return found

    def through(self) -> dict[str, str]:
        """Return the places of ``flow.callback(…, through="NAME")``, by NAME, if NAME is a constant."""
        found: dict[str, str] = {}
        for call in (node for node in self._nodes if isinstance(node, ast.Call)):
            if ast.unparse(call.func).endswith(".callback") and self._kit_name(_owner(call.func)) == "flow":
                named = [each.value for each in call.keywords if each.arg == "through"]
                for name in (each.value for each in named if isinstance(each, ast.Constant)):
                    found.setdefault(str(name), f"{self._path}:{call.lineno}")
        return found

    def callbacks(self) -> str:
        """Return the place of ``app.callbacks()``, or an empty text."""
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and self._is_decorator(node, CALLBACKS))
        return next((f"{self._path}:{call.lineno}" for call in calls), "")

    def archives(self) -> dict[str, str]:
        """Return the places of the buckets of archives of flows, by bucket. Raises `CatalogueError`."""
        found: dict[str, str] = {}
        for flow in (node for node in self._nodes if isinstance(node, FUNCTIONS) and self._is_flow(node)):
            calls = (each for each in flow.decorator_list if isinstance(each, ast.Call))
            named = [each for call in calls if self._is_decorator(call, FLOW_DECORATOR) for each in call.keywords]
            for place in (each.value for each in named if each.arg == "archive"):
                where = f"{self._path}:{place.lineno}"
                if not isinstance(place, ast.Constant):
                    raise CatalogueError(
                        f"{where}: the archive of {flow.name} is not a constant, and the code is parsed, not run: "
                        'write archive="gs://BUCKET/PREFIX"'
                    )
                if bucket := BUCKET.match(str(place.value)):
                    found.setdefault(bucket[1], where)
        return found

    def rights(self) -> dict[str, str]:
        """Return the places of the first use of each public name that needs a right."""
        found: dict[str, str] = {}
        for node in self._nodes:
            used: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module == KIT and id(node) not in self._for_types:
                used = [alias.name for alias in node.names]
            elif isinstance(node, ast.Attribute):
                used = [self._kit_name(node)]
            for name in set(used) - WITHOUT_RIGHTS - OPEN - {""}:
                found.setdefault(name, f"{self._path}:{getattr(node, 'lineno', 1)}")
        return found

    def hidden(self) -> dict[str, str]:
        """Return the places of imports that do not show which names of the kit are used, by the imported module.

        The kit's parts that are deployed follow from the public names that a function imports from `signalbox`.
        """
        found: dict[str, str] = {}
        for node in self._nodes:
            if id(node) not in self._for_types:
                for module in (*_modules_read(node), *self._modules_reached(node)):
                    found.setdefault(module, f"{self._path}:{getattr(node, 'lineno', 1)}")
        return found

    def _modules_reached(self, node: ast.AST) -> Iterator[str]:
        """Iterate over what an expression reads of the kit's module, unless it is a public name: ``kit.batches``.

        The module itself, passed on, may be asked for any name.
        """
        if isinstance(node, ast.Name) and self._kit.get(node.id) == KIT and id(node) not in self._owners:
            if isinstance(node.ctx, ast.Load) and id(node) not in self._renamed:
                yield f"{KIT}.*"
        elif isinstance(node, ast.Attribute) and _is_hidden(self._kit_name(node)):
            yield f"{KIT}.{node.attr}"

    def each_user(self) -> str:
        """Return the place of the first resource with ``each_user=True``, or an empty text."""
        calls = [node for node in self._nodes if isinstance(node, ast.Call) and self._kit_name(node.func) in RESOURCES]
        places = [
            f"{self._path}:{call.lineno}"
            for call in calls
            for keyword in call.keywords
            if keyword.arg == "each_user" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
        ]
        return places[0] if places else ""

    def events(self) -> dict[str, str]:
        """Return the places of event handlers, by the patterns of their documents. Raises `CatalogueError`."""
        calls = (
            node for node in self._nodes if isinstance(node, ast.Call) and self._is_decorator(node, EVENT_DECORATOR)
        )
        return {str(_constants(self._path, call)[0][0]): f"{self._path}:{call.lineno}" for call in calls if call.args}

    def handlers(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return the places and the triggers of the handlers that are tasks, by name. Raises `CatalogueError`."""
        found: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for handler, call in self._decorated(DOCUMENT_DECORATOR):
            place = f"{self._path}:{call.lineno}"
            patterns, options = _constants(self._path, call)
            kind = options.get("on", WRITTEN)
            if len(patterns) != 1 or kind not in KINDS:
                raise CatalogueError(
                    f'{place}: write on_document("orders/{{id}}", on="created"), with one pattern and one of '
                    f"{', '.join(KINDS)}"
                )
            if handler.name in found:
                raise CatalogueError(f"{place}: {handler.name} has a pattern already: write a second handler")
            found[handler.name] = place, {"event": f"{EVENT_TYPES}{kind}", "document": str(patterns[0])}
        return found

    def schedules(self) -> dict[str, tuple[str, Mapping[str, Any]]]:
        """Return the places and the entries of the schedules of tasks, by their names. Raises `CatalogueError`."""
        found: dict[str, tuple[str, Mapping[str, Any]]] = {}
        for task, call in self._decorated(SCHEDULE_DECORATOR):
            place = f"{self._path}:{call.lineno}"
            crons, options = _constants(self._path, call)
            if len(crons) > 1:
                more = ", ".join(map(repr, crons[1:]))
                raise CatalogueError(f"{place}: a schedule has one cron expression; write {more} as time_zone=…")
            options.pop("overlap", "")  # the function itself applies the rule
            name = options.pop("name", url_segment(task.name))
            if name in found:
                raise CatalogueError(f"{place} is a second schedule {name}: give it a name=")
            found[name] = place, {"task": task.name, **given(cron=next(iter(crons), None)), **options}
        return found

    def _decorated(self, names: frozenset[str]) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, ast.Call]]:
        """Iterate over the functions with one of these decorators, each with the call of the decorator."""
        for node in self._nodes:
            if isinstance(node, FUNCTIONS):
                calls = (each for each in node.decorator_list if isinstance(each, ast.Call))
                yield from ((node, call) for call in calls if self._is_decorator(call, names))

    def rules(self) -> dict[str, str]:
        """Return the places of the access rules, by the names of their flows and classes."""
        rules = (node for node in self._nodes if isinstance(node, ast.FunctionDef))
        decorators = (decorator for rule in rules for decorator in rule.decorator_list)
        calls = (each for each in decorators if isinstance(each, ast.Call) and self._is_decorator(each, RULE_DECORATOR))
        named = ((argument, call) for call in calls for argument in call.args if isinstance(argument, ast.Constant))
        return {str(argument.value): f"{self._path}:{call.lineno}" for argument, call in named}

    def made_otherwise(self) -> str:
        """Return the place of the first call of ``app.task``, or another decorator of tasks, that decorates nothing.

        Return an empty text if there is none.
        """
        decorated = (node for node in self._nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
        decorators = {id(decorator) for node in decorated for decorator in node.decorator_list}
        calls = (node for node in self._nodes if isinstance(node, ast.Call) and id(node) not in decorators)
        names = TASK_DECORATOR | OBJECT_DECORATOR | FLOW_DECORATOR | DOCUMENT_DECORATOR | FAILURE_DECORATOR
        made: list[ast.expr] = [call for call in calls if self._is_decorator(call, names)]
        passed = [  # task = app.task
            node
            for node in self._nodes
            if isinstance(node, ast.Attribute) and self.apps and id(node) not in {*decorators, *self._calls}
        ]
        made += [node for node in passed if self._is_decorator(node, names)]
        made += [node for node in self._nodes if isinstance(node, ast.Call) and self._is_read_by_name(node)]
        return f"{self._path}:{min(each.lineno for each in made)}" if made else ""

    def _is_read_by_name(self, call: ast.Call) -> bool:
        """Return whether a call is ``getattr(app, …)``, of an `app` of the function."""
        return _last_name(call) == "getattr" and bool(call.args) and _name_of(call.args[0]) in self.apps

    def queues(self) -> dict[str, str]:
        """Return the places of the first use of each queue."""
        found: dict[str, str] = {}
        for node in self._nodes:
            for queue in self._queues_of(node):
                found.setdefault(queue, f"{self._path}:{getattr(node, 'lineno', 1)}")
        return found

    def _queues_of(self, node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.Name | ast.Attribute):
            yield from self._queues_of_name(node)
        elif isinstance(node, ast.Call):
            yield from self._queues_of_result(node)
            yield from (FLOWS_QUEUE,) if self._kit and self._is_decorator(node, CALLBACKS) else ()
            yield from SEMAPHORE_QUEUES if self.uses_kit and _needs_permits(node) else ()
            yield from _queue_named(node)
        elif isinstance(node, FUNCTIONS) and any(map(self._is_task_decorator, node.decorator_list)):
            for decorator in node.decorator_list:
                yield from self._queues_of_decorator(decorator)
            for parameter, _ in _parameters(node):
                if (annotation := _unquoted(parameter.annotation)) is not None:
                    yield from OF_FILLED.get(self._filled_with(annotation), ())
        elif self._handles_failures(node):
            yield TASKS_QUEUE
        elif self._is_object_class(node):
            yield from OBJECT_QUEUES
        elif self._is_flow(node):
            yield from FLOW_QUEUES

    def _queues_of_name(self, node: ast.Name | ast.Attribute) -> Iterator[str]:
        """Iterate over the queues of a public name or of a method, where it is called or passed on."""
        if not isinstance(node.ctx, ast.Load):
            return
        call, public = self._calls.get(id(node)), self._kit_name(node)
        reads = call is not None and (owner := self._owners.get(id(call))) is not None and owner.attr in READ_ONLY
        yield from () if reads else QUEUES.get(public, ())
        if public in OF_METHODS and call is None:
            yield from self._queues_of_methods(public, node)
        if isinstance(node, ast.Attribute) and self.uses_kit and node.attr == "enqueue":
            yield TASKS_QUEUE
        made = _name_of(node) if self._kit_name(_owner(node)) == "flow" or _name_of(node) == "populate" else public
        if call is None and self.uses_kit and made in MAKES_UNITS:  # its arguments are elsewhere
            yield from SEMAPHORE_QUEUES

    def _queues_of_result(self, call: ast.Call) -> Iterator[str]:
        """Iterate over the queues of the methods of ``standings(KIND)``."""
        if (public := self._kit_name(call.func)) in OF_METHODS:
            yield from self._queues_of_methods(public, call)

    def _queues_of_methods(self, public: str, node: ast.AST) -> Iterator[str]:
        """Iterate over the queues of the method of a public name that is read here: all of them if it is passed on."""
        methods, owner = OF_METHODS[public], self._owners.get(id(node))
        for queues in methods.values() if owner is None else (methods.get(owner.attr, ()),):
            yield from queues

    def _queues_of_decorator(self, decorator: ast.expr) -> Iterator[str]:
        """Iterate over the queue that a task's decorator names.

        The function enqueues to it if the task is a handler of events.
        """
        if isinstance(decorator, ast.Call):
            named = list(_queue_named(decorator, names=TASK_DECORATOR | DOCUMENT_DECORATOR))
            yield from named or ([TASKS_QUEUE] if self._is_decorator(decorator, DOCUMENT_DECORATOR) else [])

    def _is_task_decorator(self, node: ast.expr) -> bool:
        return self._is_decorator(node, TASK_DECORATOR | DOCUMENT_DECORATOR) or (
            isinstance(node, ast.Call) and _last_name(node) == THRESHOLD_DECORATOR
        )

    def _is_plain_task(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        """Return whether a function is decorated as a task or a scheduled flow, and has only decorators of the kit."""
        others = [each for each in function.decorator_list if not self._is_decorator(each, SCHEDULE_DECORATOR)]
        if self._is_scheduled_flow(function):
            return all(self._is_decorator(each, FLOW_DECORATOR) for each in others)
        if any(self._is_decorator(each, DOCUMENT_DECORATOR) for each in others):
            return False  # its arguments are `OF_HANDLERS`
        return bool(others) and all(map(self._is_task_decorator, others))

    def _handles_failures(self, node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
        decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
        return any(self._is_decorator(decorator, FAILURE_DECORATOR) for decorator in decorators)

    def _is_scheduled_flow(self, node: ast.AST) -> bool:
        return self._is_flow(node) and any(self._is_decorator(each, SCHEDULE_DECORATOR) for each in node.decorator_list)

    def _is_object_class(self, node: ast.AST) -> TypeGuard[ast.ClassDef]:
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        return any(self._is_decorator(decorator, OBJECT_DECORATOR) for decorator in decorators)

    def _is_flow(self, node: ast.AST) -> TypeGuard[ast.FunctionDef | ast.AsyncFunctionDef]:
        decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
        return any(self._is_decorator(decorator, FLOW_DECORATOR) for decorator in decorators)

    def _is_decorator(self, node: ast.expr, names: frozenset[str]) -> bool:
        """Return whether an expression is ``app.NAME`` or ``app.NAME(…)``, of an `app` of the function."""
        target = node.func if isinstance(node, ast.Call) else node
        if not isinstance(target, ast.Attribute):
            return False
        return target.attr in names and (
            _name_of(target.value) in self.apps if self.apps else bool(_name_of(target.value))
        )

    def _filled_with(self, annotation: ast.expr) -> str:
        """Return the public name in the annotation of an argument, or in ``list[Unit]``, or an empty text."""
        if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "list":
            return self._kit_name(annotation.slice)
        return self._kit_name(annotation)

    def _kit_name(self, node: ast.expr) -> str:
        """Return the public name of the kit that an expression refers to, or an empty text."""
        if isinstance(node, ast.Attribute):
            of = ast.unparse(node.value)
            return node.attr if self._kit.get(of) == KIT else self._kit.get(f"{of}.{node.attr}", "")
        return self._kit.get(node.id, "") if isinstance(node, ast.Name) else ""

    def _follow_assignments(self) -> None:
        """Add the names to which a public name or the kit itself is assigned: ``sem = semaphore``."""
        assignments = [
            (target.id, node.value)
            for node in self._nodes
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        ]
        self._renamed = {id(value) for _, value in assignments}
        known = -1
        while known < len(self._kit):
            known = len(self._kit)
            for name, value in assignments:
                if of := self._kit_name(value):
                    self._kit.setdefault(name, of)

    @property
    def public_names(self) -> Mapping[str, str]:
        """The names of the kit that the file has, by its own names for them: another file may import these."""
        return self._kit

    def import_public_names(self, modules: Sequence["Module"]) -> int:
        """Add the names of the kit that the file imports from others. Return how many are new."""
        before = len(self._kit)
        for node in self._nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, of in _names_given(node, {each.name: each.public_names for each in modules}):
                    self._kit.setdefault(name, of)
        self._follow_assignments()
        return len(self._kit) - before

    def makers(self) -> set[str]:
        """Return the names of the functions that contain ``Function(…)``."""
        functions = [node for node in self._nodes if isinstance(node, FUNCTIONS)]
        return {node.name for node in functions if any(self._is_function(inner) for inner in ast.walk(node))}

    def apps_beyond(self, known: set[str], makers: set[str]) -> set[str]:
        """Return the names that are bound to ``Function(…)``, to one of the known names, or to the result of a maker.

        A parameter with the annotation `Function` is also such a name.
        """
        parameters = {
            node.arg
            for node in self._nodes
            if isinstance(node, ast.arg)
            and (annotation := _unquoted(node.annotation)) is not None
            and self._kit_name(annotation) == "Function"
        }
        imported = {
            alias.asname or alias.name
            for node in self._nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name in known
        }
        return (
            parameters
            | imported
            | {
                _name_of(target)
                for node in self._nodes
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                if _name_of(target) and (self._is_function(node.value) or _is_bound_to(node.value, known, makers))
            }
        )

    def _is_function(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self._kit_name(node.func) == "Function"

    def _kit_names(self) -> Iterator[tuple[str, str]]:
        for node in self._nodes:
            if isinstance(node, ast.ImportFrom) and node.module == KIT:
                yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                names = [alias for alias in node.names if alias.name == KIT or not alias.asname]
                yield from ((each.asname or KIT, KIT) for each in names if each.name.partition(".")[0] == KIT)


def _names_given(
    node: ast.Import | ast.ImportFrom, modules: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """Iterate over the names of the kit that an import takes from files of the function, by the names that it gives."""
    of_file = modules.get(_last_part(node.module or ""), {}) if isinstance(node, ast.ImportFrom) else {}
    for alias in node.names:
        given_name = alias.asname or alias.name
        if alias.name in of_file:
            yield given_name, of_file[alias.name]
        if alias.name == "*":
            yield from of_file.items()
        for name, of in modules.get(_last_part(alias.name), {}).items():
            if "." not in name:
                yield f"{given_name}.{name}", of


def _modules_read(node: ast.AST) -> list[str]:
    """Return the inner modules of the kit that a node imports, or reads by a text.

    ``signalbox.*`` stands for any name of the kit.
    """
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        if node.module == KIT:
            return [f"{KIT}.{name}" for name in sorted({alias.name for alias in node.names} & {*INNER, "*"})]
        return [node.module] if _is_inner(node.module) else []
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names if _is_inner(alias.name)]
    text: ast.expr | None = None
    if isinstance(node, ast.Call) and node.args and _last_name(node) in BY_NAME:
        text = node.args[0]
    elif isinstance(node, ast.Subscript):  # sys.modules["signalbox"]
        text = node.slice if _name_of(node.value) == "modules" else None
    if isinstance(text, ast.Constant) and text.value == KIT:
        return [f"{KIT}.*"]
    return [str(text.value)] if isinstance(text, ast.Constant) and _is_inner(str(text.value)) else []


def _is_hidden(name: str) -> bool:
    """Return whether a name of the kit's module gives access to further names."""
    return name in INNER or name.startswith("__")


def _is_inner(module: str) -> bool:
    """Return whether a module belongs to the kit and its code uses parts of the kit."""
    first, *inside = module.split(".")
    return first == KIT and bool(inside) and inside[0] in INNER | HOMONYMS


def with_apps(modules: Sequence[Module]) -> Sequence[Module]:
    """Return the files of one function, each with the names of ``Function(…)`` in all of them.

    A file also has the names of the kit that it imports from the others.
    """
    while sum([module.import_public_names(modules) for module in modules]):
        pass
    known = set[str]()
    makers = {name for module in modules for name in module.makers()}
    while more := {name for module in modules for name in module.apps_beyond(known, makers)} - known:
        known |= more
    for module in modules:
        module.apps = frozenset(known)
        module.uses_kit = any(each.public_names for each in modules)
    return modules


def _name_of(node: ast.expr) -> str:
    """Return the last name of an expression: ``app`` for ``main.app``; or an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _owner(node: ast.expr) -> ast.expr:
    """Return the expression before the last dot."""
    return node.value if isinstance(node, ast.Attribute) else node


def _is_bound_to(value: ast.expr, known: set[str], makers: set[str]) -> bool:
    """Return whether a value is one of the known names, or the result of a maker."""
    if isinstance(value, ast.Call):
        return _name_of(value.func) in makers
    return _name_of(value) in known


def _constants(path: str, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a decorator. Raises `CatalogueError` if one is not a constant."""
    try:
        options = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        values = [ast.literal_eval(each) for each in call.args]
    except (ValueError, TypeError) as error:  # TypeError: a list as a key
        name = ast.unparse(call.func)
        section = "schedules" if name.endswith("schedule") else "triggers"
        raise CatalogueError(
            f"{path}:{call.lineno} calls {name} with an argument that is not a constant, and the code is parsed, not "
            f"run: write the constant, or an entry in {section} of the catalogue instead of the decorator"
        ) from error
    return values, options


def _parameters(task: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[tuple[ast.arg, bool]]:
    """Iterate over the parameters, each with True if it has a default."""
    positional = [*task.args.posonlyargs, *task.args.args]
    without = len(positional) - len(task.args.defaults)
    yield from ((parameter, index >= without) for index, parameter in enumerate(positional))
    keywords = zip(task.args.kwonlyargs, task.args.kw_defaults, strict=True)
    yield from ((parameter, default is not None) for parameter, default in keywords)


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """Return an annotation. If it is a quoted expression, return that expression."""
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return annotation
    try:
        return ast.parse(annotation.value, mode="eval").body
    except SyntaxError:
        return ast.Name(annotation.value, ast.Load())


def _names(annotation: ast.expr) -> set[str]:
    """Return the names in an annotation."""
    attributes = {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return attributes | names - {"typing", "t"}


def _yields(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function itself contains ``yield``."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            left += ast.iter_child_nodes(node)
    return False


def _needs_permits(call: ast.Call) -> bool:
    """Return whether a call creates a batch whose units need permits: ``populate(…, semaphore=…)``, ``rate=…``.

    They may also be among ``**options``.
    """
    needs = any(keyword.arg in ("semaphore", "rate", None) for keyword in call.keywords)
    return _last_name(call) in MAKES_UNITS and needs


def _queue_named(call: ast.Call, names: frozenset[str] = NAMES_A_QUEUE) -> Iterator[str]:
    if _last_name(call) in names:
        for keyword in call.keywords:
            if keyword.arg == "queue" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)


def _last_name(call: ast.Call) -> str:
    """Return the last part of the name that is called: ``replace`` for ``dataclasses.replace(…)``."""
    return _last_part(ast.unparse(call.func))


def _last_part(name: str) -> str:
    return name.rpartition(".")[2]
