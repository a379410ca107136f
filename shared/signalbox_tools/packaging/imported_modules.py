"""Find the part of the package `signalbox` that a function imports, directly or through other modules of the package.

The source is read, not run: every ``import`` counts, wherever it is (in a function, under a condition, for types only),
so the result includes all code that may run. A module includes the ``__init__.py`` of each package above it. A public
name of a lazy package (`signalbox.core.lazy_names`) leads to the module that defines it. Imports that static reading
cannot follow are refused: an import whose name is computed, a star import from a package, an import of a module that no
zip contains.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Self

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.project import KIT, PACKAGES
from signalbox.catalogue.source_file import parsed
from signalbox.core.lazy_names import homes_of

LIBRARY = "signalbox"
"""The package that all functions share: a folder of this name at the root of each zip."""

LIBRARY_HOME = "shared"
"""The repository's folder that contains the package."""

LEFT_BEHIND = frozenset({"examples", "functions", "infra", "shared", "signalbox_tools", "tests"})
"""The project's other folders: no zip contains them."""

MAKES_LAZY = "make_lazy"
LAZY_LOADER = f"{LIBRARY}/core/lazy_names.py"
"""The module that loads public names. Its imports are not followed: a public name is followed where it is imported."""

LOADERS = frozenset({"__import__", "import_module", "resolve_name", "run_module"})


class PackagingError(CatalogueError):
    """A function cannot be packaged as it is. The message names the file and what to change."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A module that a line imports. `certain` is false for ``y`` of ``from x import y``, which may be a name in x."""

    module: str
    where: str
    certain: bool = True


def library_files(sources: Mapping[str, bytes], kit: Path) -> dict[str, bytes]:
    """Return the files of `signalbox` that the Python files `sources` need, by path. Raises `PackagingError`.

    The keys of `sources` are paths from the root of the zip (``main.py``); `kit` has the kit's own files.
    """
    siblings = {PurePosixPath(path).parts[0].removesuffix(".py") for path in sources}
    home = PACKAGES if kit == KIT.root else kit / LIBRARY_HOME
    library = _Library.of(home)
    found: dict[str, bytes] = {}
    followed: set[tuple[str, bool]] = set()
    pending = dict(sources)
    while pending:
        path, source = pending.popitem()
        new = [
            reference for reference in references(path, source) if (reference.module, reference.certain) not in followed
        ]
        followed.update((reference.module, reference.certain) for reference in new)
        for needed in (file for reference in new for file in _files_of(reference, library, siblings)):
            if needed not in found:
                found[needed] = pending[needed] = (home / needed).read_bytes()
    return found


@dataclass(frozen=True, slots=True)
class _Library:
    """The paths of the package's Python files, and the modules of its lazy public names by dotted name."""

    files: frozenset[str]
    homes: Mapping[str, str]

    @classmethod
    def of(cls, home: Path) -> Self:
        files = {path.relative_to(home).as_posix() for path in (home / LIBRARY).rglob("*.py")}
        lazy = (path for path in files if path.endswith("/__init__.py") and (home / path).stat().st_size)
        trees = {path: parsed(path, (home / path).read_bytes()) for path in lazy}
        homes = {
            f"{_package_of(path)}.{name}": module
            for path, tree in trees.items()
            if _is_lazy(tree)
            for name, module in homes_of(tree).items()
        }
        return cls(frozenset(files), homes)


def _package_of(path: str) -> str:
    return ".".join(PurePosixPath(path).parts[:-1])


def _is_lazy(tree: ast.Module) -> bool:
    return any(isinstance(node, ast.Call) and ast.unparse(node.func) == MAKES_LAZY for node in ast.walk(tree))


@lru_cache(maxsize=1024)
def references(path: str, source: bytes) -> tuple[Reference, ...]:
    """Return every module that a file imports, with absolute names. Cached, since most files go into several zips."""
    return tuple(_references(path, parsed(path, source)))


def _references(path: str, tree: ast.Module) -> Iterator[Reference]:
    tables = _tables(tree)
    nodes = list(_run_nodes(tree) if _is_lazy(tree) else ast.walk(tree))
    loads = {node: _loaded(node, tables) for node in nodes if isinstance(node, ast.Call)}
    followed = {id(call.func) for call, modules in loads.items() if modules}
    for call, modules in loads.items():
        yield from (Reference(module, f"{path}:{call.lineno}") for module in modules)
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (Reference(alias.name, f"{path}:{node.lineno}") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from _from_references(node, path)
        elif isinstance(node, ast.Name | ast.Attribute) and id(node) not in followed and path != LAZY_LOADER:
            _refuse_loader(node, path)


def _run_nodes(tree: ast.Module) -> Iterator[ast.AST]:
    """Iterate over the nodes of a lazy package without its list of public names, which are imported on first use."""
    for node in tree.body:
        if not isinstance(node, ast.If):
            yield from ast.walk(node)


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
    """Return the modules that a call of ``import_module("a.b")`` or ``import_module(TABLE[name])`` loads.

    For any other call, return none.
    """
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


def _files_of(reference: Reference, library: _Library, siblings: set[str]) -> Iterator[str]:
    parts = reference.module.split(".")
    if parts[0] in LEFT_BEHIND - siblings:
        raise PackagingError(
            f"{reference.where} imports {parts[0]}/, which is not in the zip: move it to {LIBRARY_HOME}/{LIBRARY}/"
        )
    if parts[0] != LIBRARY:
        return
    if parts[-1] == "*":
        _refuse_star(reference, library, "/".join(parts[:-1]))
        return
    if (
        reference.module in library.homes and not reference.certain
    ):  # a name, not the folder that may be called the same
        parts = _home(library, library.homes[reference.module].split("."), parts[-1])
    own = _module_file(library, parts)
    if own is None and reference.certain:
        raise PackagingError(f"{reference.where} imports {reference.module}, which does not exist")
    if own is not None:
        yield own
        yield from (f for depth in range(1, len(parts)) if (f := _module_file(library, parts[:depth])))


def _home(library: _Library, module: list[str], name: str) -> list[str]:
    """Return the module of a public name. It is the module that defines the name, or the submodule of that name."""
    return [*module, name] if _module_file(library, [*module, name]) else module


def _refuse_star(reference: Reference, library: _Library, module: str) -> None:
    if any(path.startswith(f"{module}/") for path in library.files):
        raise PackagingError(f"{reference.where} imports * from a package: name what it needs")


def _module_file(library: _Library, parts: list[str]) -> str | None:
    stem = "/".join(parts)
    candidates = (f"{stem}/__init__.py", f"{stem}.py")
    return next((candidate for candidate in candidates if candidate in library.files), None)
