"""Find the part of `shared/` that a function imports, directly or through other modules of `shared/`.

The source is read, not run: every ``import`` counts, wherever it is (in a function, under a condition, for types
only), so the result includes all that runs. A module includes the ``__init__.py`` of each package above it. What
static reading cannot follow is refused: an import whose name is computed, a star import from a package, an import of
something that no zip contains.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

SHARED = "shared"
LEFT_BEHIND = frozenset(
    {"examples", "functions", "infra", "tests"}
)  # the project's other folders: no zip contains them
LOADERS = frozenset({"__import__", "import_module", "resolve_name", "run_module"})


class PackagingError(ValueError):
    """A function cannot be packaged as it is. The message names the file and what to change."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A module that a line imports. `certain` is false for ``y`` of ``from x import y``: it may be a mere name in x."""

    module: str
    where: str
    certain: bool = True


@lru_cache(maxsize=64)
def parsed(path: str, source: bytes) -> ast.Module:
    """Parse and compile a file, which finds all syntax errors. Cached: each check of a function reads its files."""
    try:
        tree = ast.parse(source, path)
        compile(tree, path, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:  # ValueError: a null byte
        raise PackagingError(f"{path} does not compile: {error}") from error
    return tree


def shared_files(sources: Mapping[str, bytes], project: Path) -> dict[str, bytes]:
    """Return the files of ``shared/`` that the Python files `sources` need, by path. Raises `PackagingError`.

    The keys of `sources` are paths from the root of the zip (``main.py``).
    """
    siblings = {PurePosixPath(path).parts[0].removesuffix(".py") for path in sources}
    library = _library(project)
    found: dict[str, bytes] = {}
    followed: set[tuple[str, bool]] = set()
    pending = dict(sources)
    while pending:
        path, source = pending.popitem()
        new = [each for each in references(path, source) if (each.module, each.certain) not in followed]
        followed.update((each.module, each.certain) for each in new)
        for needed in (file for each in new for file in _files_of(each, library, siblings)):
            if needed not in found:
                found[needed] = pending[needed] = (project / needed).read_bytes()
    return found


def _library(project: Path) -> frozenset[str]:
    """Return the paths of the Python files in ``shared/``: looked up once, as thousands of imports name them."""
    return frozenset(each.relative_to(project).as_posix() for each in (project / SHARED).rglob("*.py"))


@lru_cache(maxsize=1024)
def references(path: str, source: bytes) -> tuple[Reference, ...]:
    """Return every module that a file imports, with absolute names. Cached, since most files go into several zips."""
    return tuple(_references(path, parsed(path, source)))


def _references(path: str, tree: ast.Module) -> Iterator[Reference]:
    tables = _tables(tree)
    nodes = list(ast.walk(tree))
    loads = {node: _loaded(node, tables) for node in nodes if isinstance(node, ast.Call)}
    followed = {id(call.func) for call, modules in loads.items() if modules}
    for call, modules in loads.items():
        yield from (Reference(module, f"{path}:{call.lineno}") for module in modules)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Reference(alias.name, f"{path}:{node.lineno}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from_references(node, path)
        elif isinstance(node, ast.Name | ast.Attribute) and id(node) not in followed:
            _refuse_loader(node, path)


def _from_references(node: ast.ImportFrom, path: str) -> Iterator[Reference]:
    where = f"{path}:{node.lineno}"
    base = _absolute(node, path)
    yield Reference(base, where)
    for alias in node.names:
        if alias.name in LOADERS and alias.asname:
            raise PackagingError(f"{where} renames {alias.name}: import what it loads by a plain import")
        yield Reference(f"{base}.{alias.name}", where, certain=False)


def _absolute(node: ast.ImportFrom, path: str) -> str:
    if not node.level:
        return node.module or ""
    package = PurePosixPath(path).parts[:-1]
    if node.level > len(package):
        raise PackagingError(f"{path}:{node.lineno} imports from above the zip's root: write the absolute name")
    above = package[: len(package) - node.level + 1]
    return ".".join((*above, *filter(None, (node.module,))))


def _tables(tree: ast.Module) -> Mapping[str, Sequence[str]]:
    """Return the values of each constant of a module that is a dictionary of texts."""
    values: dict[str, Sequence[str]] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict) and isinstance(node.targets[0], ast.Name):
            texts = [item.value for item in node.value.values if isinstance(item, ast.Constant)]
            values[node.targets[0].id] = [text for text in texts if isinstance(text, str)]
    return values


def _loaded(call: ast.Call, tables: Mapping[str, Sequence[str]]) -> Sequence[str]:
    """Return the modules of ``import_module("a.b")``, or of ``import_module(TABLE[name])``; of any other call none."""
    if not _loader(call.func) or not call.args:
        return ()
    match call.args[0]:
        case ast.Constant(value=str(name)) if not name.startswith("."):
            return (name,)
        case ast.Subscript(value=ast.Name(id=table)):
            return tables.get(table, ())
    return ()


def _loader(node: ast.expr) -> str:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name if name in LOADERS else ""


def _refuse_loader(node: ast.Name | ast.Attribute, path: str) -> None:
    if name := _loader(node):
        raise PackagingError(f"{path}:{node.lineno} uses {name} with a name that cannot be read: use a plain import")


def _files_of(reference: Reference, library: frozenset[str], siblings: set[str]) -> Iterator[str]:
    parts = reference.module.split(".")
    if parts[0] in LEFT_BEHIND - siblings:
        raise PackagingError(f"{reference.where} imports {parts[0]}/, which is not in the zip: move it to {SHARED}/")
    if parts[0] != SHARED:
        return
    if parts[-1] == "*":
        _refuse_star(reference, library, "/".join(parts[:-1]))
        return
    own = _module_file(library, parts)
    if own is None and reference.certain:
        raise PackagingError(f"{reference.where} imports {reference.module}, which does not exist")
    if own is not None:
        yield own
        yield from (f for depth in range(1, len(parts)) if (f := _module_file(library, parts[:depth])))


def _refuse_star(reference: Reference, library: frozenset[str], module: str) -> None:
    if any(path.startswith(f"{module}/") for path in library):
        raise PackagingError(f"{reference.where} imports * from a package: name what it needs")


def _module_file(library: frozenset[str], parts: list[str]) -> str | None:
    stem = "/".join(parts)
    candidates = (f"{stem}/__init__.py", f"{stem}.py")
    return next((candidate for candidate in candidates if candidate in library), None)
