"""What the code of a file uses of the kit: queues, rights, other functions, and imports that hide what it uses.

A name that is passed on counts as if it were called there, with all of its methods, since its calls are not followed.
"""

import ast
from collections.abc import Iterator, Mapping

from signalbox.catalogue.declared_in_code import filled_with, parameters_of
from signalbox.catalogue.source_file import (
    CALLBACKS,
    DOCUMENT_DECORATOR,
    FUNCTIONS,
    KIT,
    SCHEDULE_DECORATOR,
    TASK_DECORATOR,
    SourceFile,
    last_name,
    name_of,
    owner,
    unquoted,
)
from signalbox.core.kit_names import (
    ADMIT_QUEUE,
    BATCHES_QUEUE,
    FLOWS_QUEUE,
    LINKS_QUEUE,
    OBJECTS_QUEUE,
    STANDINGS_QUEUE,
    TASKS_QUEUE,
)

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

READ_ONLY = frozenset({"status"})
"""Methods of a batch that enqueue nothing."""


def invoked(file: SourceFile) -> dict[str, str]:
    """Return the places of the first call of each function by `invoke`; see `Usage.invokes`."""
    found: dict[str, str] = {}
    for call, name in _functions_named(file, "invoke"):
        constant = name.value if isinstance(name, ast.Constant) else None
        found.setdefault(constant if isinstance(constant, str) else "", file.place(call))
    return found


def called(file: SourceFile) -> dict[str, str]:
    """Return the places of the first ``Call("NAME", …)`` of each function, by NAME, if NAME is a constant."""
    found: dict[str, str] = {}
    for call, name in _functions_named(file, "Call"):
        if isinstance(name, ast.Constant):
            found.setdefault(str(name.value), file.place(call))
    return found


def _functions_named(file: SourceFile, public: str) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Iterate over the calls of a public name, each with its argument `function`."""
    for call in file.calls_of(public):
        for name in [*call.args[:1], *(each.value for each in call.keywords if each.arg == "function")]:
            yield call, name


def through(file: SourceFile) -> dict[str, str]:
    """Return the places of ``flow.callback(…, through="NAME")``, by NAME, if NAME is a constant."""
    found: dict[str, str] = {}
    for call in file.calls:
        if last_name(call) == "callback" and file.kit_name(owner(call.func)) == "flow":
            named = [each.value for each in call.keywords if each.arg == "through"]
            for name in (each.value for each in named if isinstance(each, ast.Constant)):
                found.setdefault(str(name), file.place(call))
    return found


def rights(file: SourceFile) -> dict[str, str]:
    """Return the places of the first use of each public name that needs a right."""
    found: dict[str, str] = {}
    for_types = _for_types(file)
    for node in file.nodes:
        used: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module == KIT and id(node) not in for_types:
            used = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            used = [file.kit_name(node)]
        for name in set(used) - WITHOUT_RIGHTS - OPEN - {""}:
            found.setdefault(name, file.place(node))
    return found


def hidden(file: SourceFile) -> dict[str, str]:
    """Return the places of imports that do not show which names of the kit are used, by the imported module.

    The kit's parts that are deployed follow from the public names that a function imports from `signalbox`.
    """
    found: dict[str, str] = {}
    for_types = _for_types(file)
    for node in file.nodes:
        if id(node) not in for_types:
            for module in (*_modules_read(node), *_modules_reached(file, node)):
                found.setdefault(module, file.place(node))
    return found


def _for_types(file: SourceFile) -> set[int]:
    """Return the nodes below ``if TYPE_CHECKING``, which do not run."""
    return {
        id(inner)
        for node in file.nodes
        if isinstance(node, ast.If) and name_of(node.test) == "TYPE_CHECKING"
        for statement in node.body
        for inner in ast.walk(statement)
    }


def _modules_reached(file: SourceFile, node: ast.AST) -> Iterator[str]:
    """Iterate over what an expression reads of the kit's module, unless it is a public name: ``kit.batches``.

    The module itself, passed on, may be asked for any name.
    """
    if isinstance(node, ast.Name) and file.kit_names.get(node.id) == KIT and id(node) not in file.read_of:
        if isinstance(node.ctx, ast.Load) and id(node) not in file.renamed:
            yield f"{KIT}.*"
    elif isinstance(node, ast.Attribute) and _is_hidden(file.kit_name(node)):
        yield f"{KIT}.{node.attr}"


def queues(file: SourceFile) -> dict[str, str]:
    """Return the places of the first use of each queue."""
    found: dict[str, str] = {}
    for node in file.nodes:
        for queue in _queues_of(file, node):
            found.setdefault(queue, file.place(node))
    return found


def _queues_of(file: SourceFile, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name | ast.Attribute):
        yield from _queues_of_name(file, node)
    elif isinstance(node, ast.Call):
        yield from _queues_of_result(file, node)
        yield from (FLOWS_QUEUE,) if file.kit_names and file.is_decorator(node, CALLBACKS) else ()
        yield from SEMAPHORE_QUEUES if file.uses_kit and _needs_permits(node) else ()
        yield from _queue_named(node)
    elif isinstance(node, FUNCTIONS) and any(map(file.is_task_decorator, node.decorator_list)):
        for decorator in node.decorator_list:
            yield from _queues_of_decorator(file, decorator)
        for parameter, _ in parameters_of(node):
            if (annotation := unquoted(parameter.annotation)) is not None:
                yield from OF_FILLED.get(filled_with(file, annotation), ())
    elif file.handles_failures(node):
        yield TASKS_QUEUE
    elif file.is_object_class(node):
        yield from OBJECT_QUEUES
    elif file.is_flow(node):
        yield from FLOW_QUEUES


def _queues_of_name(file: SourceFile, node: ast.Name | ast.Attribute) -> Iterator[str]:
    """Iterate over the queues of a public name or of a method, where it is called or passed on."""
    if not isinstance(node.ctx, ast.Load):
        return
    call, public = file.call_of.get(id(node)), file.kit_name(node)
    reads = call is not None and (read := file.read_of.get(id(call))) is not None and read.attr in READ_ONLY
    yield from () if reads else QUEUES.get(public, ())
    if public in OF_METHODS and call is None:
        yield from _queues_of_methods(file, public, node)
    if isinstance(node, ast.Attribute) and file.uses_kit and node.attr == "enqueue":
        yield TASKS_QUEUE
    made = name_of(node) if file.kit_name(owner(node)) == "flow" or name_of(node) == "populate" else public
    if call is None and file.uses_kit and made in MAKES_UNITS:  # its arguments are elsewhere
        yield from SEMAPHORE_QUEUES


def _queues_of_result(file: SourceFile, call: ast.Call) -> Iterator[str]:
    """Iterate over the queues of the methods of ``standings(KIND)``."""
    if (public := file.kit_name(call.func)) in OF_METHODS:
        yield from _queues_of_methods(file, public, call)


def _queues_of_methods(file: SourceFile, public: str, node: ast.AST) -> Iterator[str]:
    """Iterate over the queues of the method of a public name that is read here: all of them if it is passed on."""
    methods, read = OF_METHODS[public], file.read_of.get(id(node))
    for of_method in methods.values() if read is None else (methods.get(read.attr, ()),):
        yield from of_method


def _queues_of_decorator(file: SourceFile, decorator: ast.expr) -> Iterator[str]:
    """Iterate over the queues to which a function enqueues because of a task's decorator.

    They are the queue that the decorator names, that of a handler of events, and that of planned times that wait.
    """
    if isinstance(decorator, ast.Call) and file.is_decorator(decorator, SCHEDULE_DECORATOR):
        yield from (TASKS_QUEUE for option in decorator.keywords if option.arg == "overlap")
    elif isinstance(decorator, ast.Call):
        named = list(_queue_named(decorator, names=TASK_DECORATOR | DOCUMENT_DECORATOR))
        yield from named or ([TASKS_QUEUE] if file.is_decorator(decorator, DOCUMENT_DECORATOR) else [])


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
    if isinstance(node, ast.Call) and node.args and last_name(node) in BY_NAME:
        text = node.args[0]
    elif isinstance(node, ast.Subscript):  # sys.modules["signalbox"]
        text = node.slice if name_of(node.value) == "modules" else None
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


def _needs_permits(call: ast.Call) -> bool:
    """Return whether a call creates a batch whose units need permits: ``populate(…, semaphore=…)``, ``rate=…``.

    They may also be among ``**options``.
    """
    needs = any(keyword.arg in ("semaphore", "rate", None) for keyword in call.keywords)
    return last_name(call) in MAKES_UNITS and needs


def _queue_named(call: ast.Call, names: frozenset[str] = NAMES_A_QUEUE) -> Iterator[str]:
    if last_name(call) in names:
        for keyword in call.keywords:
            if keyword.arg == "queue" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)
