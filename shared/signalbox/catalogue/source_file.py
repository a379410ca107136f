"""One parsed file of a function: its nodes, the names it has for the kit's, and its decorators.

A name counts if the file imports it from `signalbox`, even under another name (``sem = semaphore``) or through another
file of the function. The code is parsed, not run.
"""

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeGuard

from signalbox.catalogue.catalogue_errors import CatalogueError

KIT = "signalbox"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef

TASK_DECORATOR = frozenset({"task"})
THRESHOLD_DECORATOR = "standing_changed"
OBJECT_DECORATOR = frozenset({"object"})
FLOW_DECORATOR = frozenset({"flow"})
RULE_DECORATOR = frozenset({"access"})
ROUTE_DECORATOR = frozenset({"http"})
EVENT_DECORATOR = frozenset({"document_written"})
DOCUMENT_DECORATOR = frozenset({"on_document"})
FAILURE_DECORATOR = frozenset({"on_failure"})
CALLBACKS = frozenset({"callbacks"})
SCHEDULE_DECORATOR = frozenset({"schedule"})


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


class SourceFile:
    """One parsed file, and the local names of its imports from the kit.

    `apps` are the names of ``Function(…)`` in all files of the function (`with_apps`). Methods such as `task` count on
    these names only. If `apps` is empty, the code gets its function from elsewhere, and they count on any name.
    `uses_kit` is whether any of these files imports the kit.
    """

    def __init__(self, path: str, tree: ast.Module) -> None:
        self.path = path
        self.nodes = list(ast.walk(tree))
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        self.functions: list[FunctionNode] = [node for node in self.nodes if isinstance(node, FUNCTIONS)]
        self.kit_names = dict(self._imported_names())
        """The public names of the kit by the file's own names for them; another file may import these."""
        self.renamed = frozenset[int]()
        """The nodes that are assigned to names."""
        self._follow_assignments()
        self.apps: frozenset[str] = frozenset()
        self.uses_kit = bool(self.kit_names)
        self.read_of = {id(node.value): node for node in self.nodes if isinstance(node, ast.Attribute)}
        """The node that reads an attribute of a node: ``flow.lock`` of ``flow``."""
        self.call_of = {id(node.func): node for node in self.calls}
        """The node that calls a node."""

    @property
    def name(self) -> str:
        """The last part of the name under which other files import this one."""
        path = self.path.removesuffix(".py").removesuffix("/__init__")
        return path.rpartition("/")[2]

    def place(self, node: ast.AST) -> str:
        """Return where a node is: ``main.py:12``."""
        return f"{self.path}:{getattr(node, 'lineno', 1)}"

    def calls_of(self, *names: str) -> Iterator[ast.Call]:
        """Iterate over the calls of public names."""
        return (call for call in self.calls if self.kit_name(call.func) in names)

    def kit_name(self, node: ast.expr) -> str:
        """Return the public name of the kit that an expression refers to, or an empty text."""
        if isinstance(node, ast.Attribute):
            of = dotted(node.value)
            return node.attr if self.kit_names.get(of) == KIT else self.kit_names.get(f"{of}.{node.attr}", "")
        return self.kit_names.get(node.id, "") if isinstance(node, ast.Name) else ""

    def is_decorator(self, node: ast.expr, names: Collection[str]) -> bool:
        """Return whether an expression is ``app.NAME`` or ``app.NAME(…)``, of an `app` of the function."""
        target = node.func if isinstance(node, ast.Call) else node
        if not isinstance(target, ast.Attribute):
            return False
        return target.attr in names and (
            name_of(target.value) in self.apps if self.apps else bool(name_of(target.value))
        )

    def decorated(self, names: Collection[str]) -> Iterator[tuple[FunctionNode, ast.Call]]:
        """Iterate over the functions with one of these decorators, each with the call of the decorator."""
        for function in self.functions:
            calls = (each for each in function.decorator_list if isinstance(each, ast.Call))
            yield from ((function, call) for call in calls if self.is_decorator(call, names))

    def is_task_decorator(self, node: ast.expr) -> bool:
        return self.is_decorator(node, TASK_DECORATOR | DOCUMENT_DECORATOR) or (
            isinstance(node, ast.Call) and last_name(node) == THRESHOLD_DECORATOR
        )

    def handles_failures(self, node: ast.AST) -> TypeGuard[FunctionNode]:
        decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
        return any(self.is_decorator(decorator, FAILURE_DECORATOR) for decorator in decorators)

    def is_object_class(self, node: ast.AST) -> TypeGuard[ast.ClassDef]:
        decorators = node.decorator_list if isinstance(node, ast.ClassDef) else []
        return any(self.is_decorator(decorator, OBJECT_DECORATOR) for decorator in decorators)

    def is_flow(self, node: ast.AST) -> TypeGuard[FunctionNode]:
        decorators = node.decorator_list if isinstance(node, FUNCTIONS) else []
        return any(self.is_decorator(decorator, FLOW_DECORATOR) for decorator in decorators)

    def is_scheduled_flow(self, node: ast.AST) -> bool:
        return self.is_flow(node) and any(self.is_decorator(each, SCHEDULE_DECORATOR) for each in node.decorator_list)

    def _follow_assignments(self) -> None:
        """Add the names to which a public name or the kit itself is assigned: ``sem = semaphore``."""
        assignments = [
            (target.id, node.value)
            for node in self.nodes
            if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if isinstance(target, ast.Name)
        ]
        self.renamed = frozenset(id(value) for _, value in assignments)
        known = -1
        while known < len(self.kit_names):
            known = len(self.kit_names)
            for name, value in assignments:
                if of := self.kit_name(value):
                    self.kit_names.setdefault(name, of)

    def import_public_names(self, modules: Sequence["SourceFile"]) -> int:
        """Add the names of the kit that the file imports from others. Return how many are new."""
        before = len(self.kit_names)
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom):
                for name, of in _names_given(node, {each.name: each.kit_names for each in modules}):
                    self.kit_names.setdefault(name, of)
        self._follow_assignments()
        return len(self.kit_names) - before

    def makers(self) -> set[str]:
        """Return the names of the functions that contain ``Function(…)``."""
        made = {id(call) for call in self.calls if self._is_function(call)}
        return {node.name for node in self.functions if made and any(id(each) in made for each in ast.walk(node))}

    def apps_beyond(self, known: set[str], makers: set[str]) -> set[str]:
        """Return the names that are bound to ``Function(…)``, to one of the known names, or to the result of a maker.

        A parameter with the annotation `Function` is also such a name.
        """
        parameters = {
            node.arg
            for node in self.nodes
            if isinstance(node, ast.arg)
            and (annotation := unquoted(node.annotation)) is not None
            and self.kit_name(annotation) == "Function"
        }
        imported = {
            alias.asname or alias.name
            for node in self.nodes
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name in known
        }
        return (
            parameters
            | imported
            | {
                name_of(target)
                for node in self.nodes
                if isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None
                for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
                if name_of(target) and (self._is_function(node.value) or _is_bound_to(node.value, known, makers))
            }
        )

    def _is_function(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and self.kit_name(node.func) == "Function"

    def _imported_names(self) -> Iterator[tuple[str, str]]:
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.module == KIT:
                yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.Import):
                names = [alias for alias in node.names if alias.name == KIT or not alias.asname]
                yield from ((each.asname or KIT, KIT) for each in names if each.name.partition(".")[0] == KIT)


def with_apps(modules: Sequence[SourceFile]) -> Sequence[SourceFile]:
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
        module.uses_kit = any(each.kit_names for each in modules)
    return modules


def _names_given(
    node: ast.Import | ast.ImportFrom, modules: Mapping[str, Mapping[str, str]]
) -> Iterator[tuple[str, str]]:
    """Iterate over the names of the kit that an import takes from files of the function, by the names that it gives."""
    of_file = modules.get(last_part(node.module or ""), {}) if isinstance(node, ast.ImportFrom) else {}
    for alias in node.names:
        given_name = alias.asname or alias.name
        if alias.name in of_file:
            yield given_name, of_file[alias.name]
        if alias.name == "*":
            yield from of_file.items()
        for name, of in modules.get(last_part(alias.name), {}).items():
            if "." not in name:
                yield f"{given_name}.{name}", of


def _is_bound_to(value: ast.expr, known: set[str], makers: set[str]) -> bool:
    """Return whether a value is one of the known names, or the result of a maker."""
    if isinstance(value, ast.Call):
        return name_of(value.func) in makers
    return name_of(value) in known


def name_of(node: ast.expr) -> str:
    """Return the last name of an expression: ``app`` for ``main.app``; or an empty text."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def dotted(node: ast.expr) -> str:
    """Return an expression of names and dots as text: ``main.app``; or an empty text."""
    if isinstance(node, ast.Attribute):
        of = dotted(node.value)
        return of and f"{of}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def owner(node: ast.expr) -> ast.expr:
    """Return the expression before the last dot."""
    return node.value if isinstance(node, ast.Attribute) else node


def unquoted(annotation: ast.expr | None) -> ast.expr | None:
    """Return an annotation. If it is a quoted expression, return that expression."""
    if not isinstance(annotation, ast.Constant) or not isinstance(annotation.value, str):
        return annotation
    try:
        return ast.parse(annotation.value, mode="eval").body
    except SyntaxError:
        return ast.Name(annotation.value, ast.Load())


def last_name(call: ast.Call) -> str:
    """Return the last part of the name that is called: ``replace`` for ``dataclasses.replace(…)``."""
    return name_of(call.func)


def last_part(name: str) -> str:
    return name.rpartition(".")[2]
