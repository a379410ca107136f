"""Check that every import of a function resolves in the cloud, where nothing is installed but its requirements.

On this machine a function can also import the project's other folders and every development dependency. In the cloud an
import resolves to the standard library, the function's own files, `signalbox`, or a package of its requirements. The
modules of a package are read from its installed files; a package that is not installed here is assumed to provide a
module of the same name. An import that may fail is not checked: one under ``if TYPE_CHECKING:``, or in a ``try`` that
catches `ImportError`.
"""

import ast
import re
import sys
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import PurePosixPath

from signalbox.catalogue.source_file import parsed
from signalbox_tools.packaging.imported_modules import LIBRARY, PackagingError, Reference, references

REMOVED_FROM_PYTHON = frozenset(
    """
    aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap msilib nis nntplib
    ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib
    """.split()  # noqa: SIM905  a list of strings would be a page long
)
"""Modules that an older Python on this machine still has, but the runtime in the cloud (3.13) does not."""

STANDARD_LIBRARY = frozenset(sys.stdlib_module_names) - REMOVED_FROM_PYTHON
IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError", "Exception"})
EXTENSIONS = re.compile(r"\.(py|pyi|pyd|so|cpython-.*|abi3\.so)$")


def check_imports(sources: Mapping[str, bytes], packages: Collection[str], how_to_add: str) -> None:
    """Raise `PackagingError` for the imports that would fail in the cloud, each with its place.

    `sources` are Python files by their path in the zip, `packages` the normalised names of the locked packages;
    `how_to_add` ends the message.
    """
    own = _modules_of(sources)
    installed = _modules_of_packages(frozenset(packages))
    failing = [
        f"{reference.where} imports {reference.module}"
        for path, source in sorted(sources.items())
        for reference in _unconditional(path, source)
        if not _resolves(reference, own, installed)
    ]
    if failing:
        raise PackagingError(f"{'; '.join(dict.fromkeys(failing))}: the zip has no such module. {how_to_add}")


def _resolves(reference: Reference, own: Mapping[str, bool], installed: Mapping[str, bool]) -> bool:
    top = reference.module.partition(".")[0]
    if top in own:
        return _is_own(reference, own)
    return not top or top in STANDARD_LIBRARY or top == LIBRARY or _is_installed(reference.module, installed)


def _is_own(reference: Reference, own: Mapping[str, bool]) -> bool:
    """Return whether one of the function's modules exists; a name imported from a file may be an attribute of it."""
    parent = reference.module.rpartition(".")[0]
    return reference.module in own or (own.get(parent, False) and not reference.certain)


def _is_installed(module: str, installed: Mapping[str, bool]) -> bool:
    """Return whether a package provides a module. Names below a module with code are not checked."""
    parts = module.split(".")
    prefixes = (".".join(parts[:depth]) for depth in range(1, len(parts) + 1))
    return module in installed or any(installed.get(prefix, False) for prefix in prefixes)


def _unconditional(path: str, source: bytes) -> Iterator[Reference]:
    """Iterate over the imports of a file that must not fail."""
    optional = set(_optional_lines(parsed(path, source)))
    for reference in references(path, source):
        if int(reference.where.rpartition(":")[2]) not in optional:
            yield reference


def _optional_lines(tree: ast.Module) -> Iterator[int]:
    for node in ast.walk(tree):
        if (isinstance(node, ast.If) and _is_type_checking(node.test)) or (
            isinstance(node, ast.Try) and any(_catches_import_error(handler) for handler in node.handlers)
        ):
            yield from _lines(node.body)


def _lines(nodes: list[ast.stmt]) -> Iterator[int]:
    for node in nodes:
        yield from range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test).rpartition(".")[2] == "TYPE_CHECKING"


def _catches_import_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(ast.unparse(kind) in IMPORT_ERRORS for kind in caught)


def _modules_of(paths: Collection[str]) -> dict[str, bool]:
    """Return the modules that files make, by dotted name.

    The value is True for a module with code, and False for a folder without `__init__.py`.
    """
    modules: dict[str, bool] = {}
    for path in paths:
        parts = PurePosixPath(EXTENSIONS.sub("", path)).parts
        names = parts[:-1] if parts[-1] == "__init__" else parts
        for depth in range(1, len(names)):
            modules.setdefault(".".join(names[:depth]), False)
        if names:
            modules[".".join(names)] = True
    return modules


@lru_cache(maxsize=32)
def _modules_of_packages(packages: frozenset[str]) -> Mapping[str, bool]:
    modules: dict[str, bool] = {}
    for package in packages:
        for module, has_code in _modules_of_package(package).items():
            modules[module] = modules.get(module, False) or has_code
    return modules


@lru_cache(maxsize=256)
def _modules_of_package(package: str) -> Mapping[str, bool]:
    try:
        files = _module_files(distribution(package))
    except PackageNotFoundError:
        files = []
    return _modules_of(files or [f"{package.replace('-', '_')}/__init__.py"])


def _module_files(installed: Distribution) -> list[str]:
    files = [path.as_posix() for path in installed.files or ()]
    return [path for path in files if EXTENSIONS.search(path) and not path.startswith("..")]
