"""Find the part of `shared/` that a function imports, directly or through other modules of `shared/`.

The source is read, not run: every ``import`` counts, wherever it is (in a function, under a condition, for types
only), so the result includes all that runs. A module includes the ``__init__.py`` of each package above it. What
static reading cannot follow is refused: an import whose name is computed, a star import from a package, an import of
something that no zip contains.
"""

import ast
from collections.abc import Iterator, Mapping
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


def parsed(path: str, source: bytes) -> ast.Module:
    """Parse and compile a file, which finds all syntax errors."""
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
    found: dict[str, bytes] = {}
    pending = dict(sources)
    while pending:
        path, source = pending.popitem()
        for reference in references(path, source):
            for needed in _files_of(reference, project, siblings):
                if needed not in found:
                    found[needed] = pending[needed] = (project / needed).read_bytes()
    return found


@lru_cache(maxsize=1024)
def references(path: str, source: bytes) -> tuple[Reference, ...]:
    """Return every module that a file imports, with absolute names. Cached, since most files go into several zips."""
    return tuple(_references(path, parsed(path, source)))


def _references(path: str, tree: ast.Module) -> Iterator[Reference]:
    literal_loads = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _literal_load(node)]
    followed = {id(node.func) for node in literal_loads}
    for call in literal_loads:
        yield Reference(_literal_load(call), f"{path}:{call.lineno}")
    for node in ast.walk(tree):
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


def _literal_load(call: ast.Call) -> str:
    """Return the module that ``import_module("a.b")`` loads; empty for any other call."""
    if _loader(call.func) and call.args and isinstance(call.args[0], ast.Constant):
        name = call.args[0].value
        return name if isinstance(name, str) and not name.startswith(".") else ""
    return ""


def _loader(node: ast.expr) -> str:
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    return name if name in LOADERS else ""


def _refuse_loader(node: ast.Name | ast.Attribute, path: str) -> None:
    if name := _loader(node):
        raise PackagingError(f"{path}:{node.lineno} uses {name} with a name that cannot be read: use a plain import")


def _files_of(reference: Reference, project: Path, siblings: set[str]) -> Iterator[str]:
    parts = reference.module.split(".")
    if parts[0] in LEFT_BEHIND - siblings:
        raise PackagingError(f"{reference.where} imports {parts[0]}/, which is not in the zip: move it to {SHARED}/")
    if parts[0] != SHARED:
        return
    if parts[-1] == "*":
        _refuse_star(reference, project.joinpath(*parts[:-1]))
        return
    own = _module_file(project, parts)
    if own is None and reference.certain:
        raise PackagingError(f"{reference.where} imports {reference.module}, which does not exist")
    if own is not None:
        yield own
        yield from (f for depth in range(1, len(parts)) if (f := _module_file(project, parts[:depth])))


def _refuse_star(reference: Reference, module: Path) -> None:
    if module.is_dir():
        raise PackagingError(f"{reference.where} imports * from a package: name what it needs")


def _module_file(project: Path, parts: list[str]) -> str | None:
    stem = "/".join(parts)
    candidates = (f"{stem}/__init__.py", f"{stem}.py")
    return next((candidate for candidate in candidates if (project / candidate).is_file()), None)
