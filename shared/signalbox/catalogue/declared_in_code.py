"""What a file declares: tasks, objects, flows, handlers, schedules, rules and routes, each with its place.

`used_in_code` has what the code uses of the kit.
"""

import ast
import builtins
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, get_args

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.function_entries import url_segment
from signalbox.catalogue.source_file import (
    CALLBACKS,
    DOCUMENT_DECORATOR,
    EVENT_DECORATOR,
    FAILURE_DECORATOR,
    FLOW_DECORATOR,
    FUNCTIONS,
    OBJECT_DECORATOR,
    ROUTE_DECORATOR,
    RULE_DECORATOR,
    SCHEDULE_DECORATOR,
    TASK_DECORATOR,
    FunctionNode,
    SourceFile,
    last_name,
    name_of,
    unquoted,
)
from signalbox.catalogue.whole_catalogue import closest
from signalbox.core.document_patterns import EACH, KINDS, WRITTEN, DocumentFilter
from signalbox.core.given import given
from signalbox.core.kit_names import BUCKET, FAILURE_NOTICE_TASK, Overlap

OF_HANDLERS = ("event", "path", "data", "kind?", "place?", "after?")
"""The arguments of the task of an event (`signalbox.adapters.http.event_deliveries.ReceivedEvent`)."""

OF_NOTICES = ("notice",)
"""The arguments of the task that runs `on_failure`."""

RESOURCES = ("add_resource", "resource")
DECORATORS = frozenset({*TASK_DECORATOR, *FLOW_DECORATOR, *ROUTE_DECORATOR, *SCHEDULE_DECORATOR, *DOCUMENT_DECORATOR})
"""The decorators that have arguments with names."""

FILLED = frozenset({"Completion", "Lease", "Outcome", "SectionRun", "TaskContext", "Unit"})
"""The annotations of the arguments that the kit fills."""

PLAIN = frozenset(dir(builtins)) | {"Any", "Literal", "Optional", "Union"}
"""The names in annotations of JSON values."""

EVENT_TYPES = "google.cloud.firestore.document.v1."
"""The beginning of the types of the events of documents."""


def tasks(file: SourceFile) -> dict[str, str]:
    """Return the places of the functions decorated as tasks, and of scheduled flows, which a task starts."""
    return {
        function.name: file.place(function)
        for function in file.functions
        if any(map(file.is_task_decorator, function.decorator_list)) or file.is_scheduled_flow(function)
    } | _failure_notice(file)


def _failure_notice(file: SourceFile) -> dict[str, str]:
    """Return the place of the function decorated with `on_failure`, under the name of its task."""
    places = map(file.place, filter(file.handles_failures, file.functions))
    return given(**{FAILURE_NOTICE_TASK: next(places, None)})


def parameters(file: SourceFile) -> dict[str, Sequence[str]]:
    """Return the arguments of the tasks that have only decorators of the kit."""
    written = {
        task.name: [name for each, default in parameters_of(task) if (name := _argument(file, each, default))]
        for task in file.functions
        if _is_plain_task(file, task)
    }
    of_kit: dict[str, Sequence[str]] = {
        **dict.fromkeys(handlers(file), OF_HANDLERS),
        **dict.fromkeys(_failure_notice(file), OF_NOTICES),
    }
    return {**of_kit, **written}


def _argument(file: SourceFile, parameter: ast.arg, has_default: bool) -> str:
    """Return an argument's name, with a question mark if it is optional.

    Return an empty text if the kit fills it.
    """
    annotation = unquoted(parameter.annotation)
    if annotation is None:
        return f"{parameter.arg}?" if has_default else parameter.arg
    if filled_with(file, annotation) in FILLED:
        return ""
    return f"{parameter.arg}?" if has_default or not _names(annotation) <= PLAIN else parameter.arg


def _is_plain_task(file: SourceFile, function: FunctionNode) -> bool:
    """Return whether a function is decorated as a task or a scheduled flow, and has only decorators of the kit."""
    others = [each for each in function.decorator_list if not file.is_decorator(each, SCHEDULE_DECORATOR)]
    if file.is_scheduled_flow(function):
        return all(file.is_decorator(each, FLOW_DECORATOR) for each in others)
    if any(file.is_decorator(each, DOCUMENT_DECORATOR) for each in others):
        return False  # its arguments are `OF_HANDLERS`
    return bool(others) and all(map(file.is_task_decorator, others))


def never_run(file: SourceFile) -> list[str]:
    """Return the tasks whose code a call would not run. The text for each task also has the reason."""
    return [
        f"{file.place(function)}: the task {function.name} contains `yield`: return a list"
        for function in file.functions
        if any(map(file.is_task_decorator, function.decorator_list)) and _yields(function)
    ]


def unknown_arguments(file: SourceFile) -> list[str]:
    """Return the arguments that decorators do not have, unless the code takes its function from elsewhere."""
    known = _arguments_of_decorators() if file.apps else {}
    calls = (call for call in file.calls if file.is_decorator(call, known))
    named = ((call, last_name(call), argument.arg) for call in calls for argument in call.keywords if argument.arg)
    return [
        f"{file.place(call)}: {decorator} has no argument {argument}{closest(argument, known[decorator])}"
        for call, decorator, argument in named
        if argument not in known[decorator]
    ]


@cache
def _arguments_of_decorators() -> Mapping[str, frozenset[str]]:
    """Return the names of the arguments of each decorator. `Function` is parsed, since importing it takes long."""
    tree = ast.parse((Path(__file__).parents[1] / "function" / "user_function.py").read_bytes())
    [methods] = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Function"]
    return {
        each.name: frozenset(argument.arg for argument in (*each.args.args, *each.args.kwonlyargs))
        for each in methods  # of several overloads, the last one is the code
        if isinstance(each, ast.FunctionDef) and each.name in DECORATORS
    }


def objects(file: SourceFile) -> dict[str, str]:
    """Return the places of the classes decorated as classes of objects."""
    return {node.name: file.place(node) for node in file.nodes if file.is_object_class(node)}


def flows(file: SourceFile) -> dict[str, str]:
    """Return the places of the functions decorated as flows."""
    return {function.name: file.place(function) for function in file.functions if file.is_flow(function)}


def named_functions(file: SourceFile) -> dict[str, str]:
    """Return the places of ``Function("NAME")``, by the names."""
    named = ((call.args[0], call) for call in file.calls_of("Function") if call.args)
    return {
        name.value: file.place(call)
        for name, call in named
        if isinstance(name, ast.Constant) and isinstance(name.value, str)
    }


def names(file: SourceFile) -> frozenset[str] | None:
    """Return all names that the module may define, or None if a ``*`` import may define others."""
    imports = (node for node in file.nodes if isinstance(node, ast.Import | ast.ImportFrom))
    aliases = [alias for node in imports for alias in node.names]
    if any(alias.name == "*" for alias in aliases):
        return None
    stored = {node.id for node in file.nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    defined = (node for node in file.nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
    return frozenset(stored | {node.name for node in defined} | {alias.asname or alias.name for alias in aliases})


def routes(file: SourceFile) -> dict[str, str]:
    """Return the places of the first route of each kind."""
    found: dict[str, str] = {}
    for call in file.calls:
        kind = "http" if file.is_decorator(call, ROUTE_DECORATOR | CALLBACKS) else file.kit_name(call.func)
        if kind in ("http", *RESOURCES):
            found.setdefault(kind, file.place(call))
    return found


def callbacks(file: SourceFile) -> str:
    """Return the place of ``app.callbacks()``, or an empty text."""
    return next((file.place(call) for call in file.calls if file.is_decorator(call, CALLBACKS)), "")


def archives(file: SourceFile) -> dict[str, str]:
    """Return the places of the buckets of archives of flows, by bucket. Raises `CatalogueError`."""
    found: dict[str, str] = {}
    for flow, call in file.decorated(FLOW_DECORATOR):
        for place in (each.value for each in call.keywords if each.arg == "archive"):
            where = file.place(place)
            if not isinstance(place, ast.Constant):
                raise CatalogueError(
                    f"{where}: the archive of {flow.name} is not a constant, and the code is parsed, not run: "
                    'write archive="gs://BUCKET/PREFIX"'
                )
            if bucket := BUCKET.match(str(place.value)):
                found.setdefault(bucket[1], where)
    return found


def each_user(file: SourceFile) -> str:
    """Return the place of the first resource with ``each_user=True``, or an empty text."""
    places = (
        file.place(call)
        for call in file.calls_of(*RESOURCES)
        for keyword in call.keywords
        if keyword.arg == "each_user" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True
    )
    return next(places, "")


def events(file: SourceFile) -> dict[str, str]:
    """Return the places of event handlers, by the patterns of their documents. Raises `CatalogueError`."""
    calls = (call for call in file.calls if file.is_decorator(call, EVENT_DECORATOR) and call.args)
    return {str(_constants(file, call)[0][0]): file.place(call) for call in calls}


def handlers(file: SourceFile) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the places and the triggers of the handlers that are tasks, by name. Raises `CatalogueError`."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for handler, call in file.decorated(DOCUMENT_DECORATOR):
        place = file.place(call)
        patterns, options = _constants(file, call)
        kind = options.get("on", WRITTEN)
        if len(patterns) != 1 or kind not in KINDS:
            raise CatalogueError(
                f'{place}: write on_document("orders/{{id}}", on="created"), with one pattern and one of '
                f"{', '.join(KINDS)}"
            )
        try:
            DocumentFilter.of(*map(options.get, ("prefix", "type", "changed")))
        except ValueError as error:
            raise CatalogueError(f"{place}: {error}") from error
        if (in_order := options.get("in_order", False)) not in (True, False, EACH):
            raise CatalogueError(f"{place}: in_order is {in_order!r}; write True, False or {EACH!r}")
        if handler.name in found:
            raise CatalogueError(f"{place}: {handler.name} has a pattern already: write a second handler")
        found[handler.name] = place, {"event": f"{EVENT_TYPES}{kind}", "document": str(patterns[0])}
    return found


def schedules(file: SourceFile) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Return the places and the entries of the schedules of tasks, by their names. Raises `CatalogueError`."""
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    overlaps: dict[str, str] = {}
    for task, call in file.decorated(SCHEDULE_DECORATOR):
        place = file.place(call)
        crons, options = _constants(file, call)
        if len(crons) > 1:
            more = ", ".join(map(repr, crons[1:]))
            raise CatalogueError(f"{place}: a schedule has one cron expression; write {more} as time_zone=…")
        overlap = options.pop("overlap", get_args(Overlap)[0])  # the function itself applies the rule
        if overlap not in get_args(Overlap):
            hint = closest(str(overlap), get_args(Overlap))
            raise CatalogueError(f"{place}: overlap is {overlap!r}; write one of {', '.join(get_args(Overlap))}{hint}")
        if overlaps.setdefault(task.name, overlap) != overlap:
            raise CatalogueError(f"{place}: the schedules of {task.name} differ in overlap: write the same for all")
        name = options.pop("name", url_segment(task.name))
        if name in found:
            raise CatalogueError(f"{place} is a second schedule {name}: give it a name=")
        found[name] = place, {"task": task.name, **given(cron=next(iter(crons), None)), **options}
    return found


def rules(file: SourceFile) -> dict[str, str]:
    """Return the places of the access rules, by the names of their flows and classes."""
    named = ((argument, call) for _, call in file.decorated(RULE_DECORATOR) for argument in call.args)
    return {str(name.value): file.place(call) for name, call in named if isinstance(name, ast.Constant)}


def made_otherwise(file: SourceFile) -> str:
    """Return the place of the first call of ``app.task``, or another decorator of tasks, that decorates nothing.

    Return an empty text if there is none.
    """
    decorated = (node for node in file.nodes if isinstance(node, (*FUNCTIONS, ast.ClassDef)))
    decorators = {id(decorator) for node in decorated for decorator in node.decorator_list}
    names = TASK_DECORATOR | OBJECT_DECORATOR | FLOW_DECORATOR | DOCUMENT_DECORATOR | FAILURE_DECORATOR
    used: list[ast.expr] = [call for call in file.calls if id(call) not in decorators]
    if file.apps:  # task = app.task
        called_or_decorates = {*decorators, *file.call_of}
        attributes = (node for node in file.nodes if isinstance(node, ast.Attribute))
        used += [node for node in attributes if id(node) not in called_or_decorates]
    made = [node for node in used if file.is_decorator(node, names)]
    made += [call for call in file.calls if _is_read_by_name(file, call)]
    return file.place(min(made, key=lambda node: node.lineno)) if made else ""


def _is_read_by_name(file: SourceFile, call: ast.Call) -> bool:
    """Return whether a call is ``getattr(app, …)``, of an `app` of the function."""
    return last_name(call) == "getattr" and bool(call.args) and name_of(call.args[0]) in file.apps


def filled_with(file: SourceFile, annotation: ast.expr) -> str:
    """Return the public name in the annotation of an argument, or in ``list[Unit]``, or an empty text."""
    if isinstance(annotation, ast.Subscript) and ast.unparse(annotation.value) == "list":
        return file.kit_name(annotation.slice)
    return file.kit_name(annotation)


def _constants(file: SourceFile, call: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a decorator. Raises `CatalogueError` if one is not a constant."""
    try:
        options = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        values = [ast.literal_eval(each) for each in call.args]
    except (ValueError, TypeError) as error:  # TypeError: a list as a key
        name = ast.unparse(call.func)
        section = "schedules" if name.endswith("schedule") else "triggers"
        raise CatalogueError(
            f"{file.place(call)} calls {name} with an argument that is not a constant, and the code is parsed, not "
            f"run: write the constant, or an entry in {section} of the catalogue instead of the decorator"
        ) from error
    return values, options


def parameters_of(task: FunctionNode) -> Iterator[tuple[ast.arg, bool]]:
    """Iterate over the parameters, each with True if it has a default."""
    positional = [*task.args.posonlyargs, *task.args.args]
    without = len(positional) - len(task.args.defaults)
    yield from ((parameter, index >= without) for index, parameter in enumerate(positional))
    keywords = zip(task.args.kwonlyargs, task.args.kw_defaults, strict=True)
    yield from ((parameter, default is not None) for parameter, default in keywords)


def _names(annotation: ast.expr) -> set[str]:
    """Return the names in an annotation."""
    attributes = {node.attr for node in ast.walk(annotation) if isinstance(node, ast.Attribute)}
    names = {node.id for node in ast.walk(annotation) if isinstance(node, ast.Name)}
    return attributes | names - {"typing", "t"}


def _yields(function: FunctionNode) -> bool:
    """Return whether a function itself contains ``yield``."""
    left: list[ast.AST] = list(function.body)
    while left:
        node = left.pop()
        if isinstance(node, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(node, (*FUNCTIONS, ast.Lambda)):
            left += ast.iter_child_nodes(node)
    return False
