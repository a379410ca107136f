"""Build the source zip of a function, the same bytes on every machine.

A zip holds the function's folder (``main.py`` at the root), the part of `signalbox` that it imports, and one
``requirements.txt``. Terraform names the uploaded object by its content, so a needless difference redeploys a function,
and a missing difference leaves old code running. Hence the zip has sorted names, one time, one mode, no compression
(compressors differ between versions), and no file that is not imported.
"""

import ast
import hashlib
import io
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.project import REQUIREMENTS, own_files
from signalbox.catalogue.reading import Function
from signalbox.catalogue.source_file import parsed
from signalbox_tools.packaging.function_checks import check
from signalbox_tools.packaging.imported_modules import LIBRARY, PackagingError, library_files
from signalbox_tools.packaging.requirements import joined, locked_packages

EARLIEST = (1980, 1, 1, 0, 0, 0)  # a zip cannot have an earlier time
REGULAR_FILE_MODE = 0o100644
UNIX = 3

OPTIONAL = {f"{LIBRARY}/adapters/otel.py": "opentelemetry-sdk"}
"""Modules of the library that only functions with a certain package have. The library works without these modules."""


@dataclass(frozen=True, slots=True)
class Package:
    """A function's files by their path in the zip."""

    name: str
    files: Mapping[str, bytes]

    def zipped(self) -> bytes:
        """Return the bytes of the zip."""
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for path, content in sorted(self.files.items()):
                archive.writestr(_entry(path), content)
        return buffer.getvalue()


@dataclass(frozen=True, slots=True)
class Written:
    """A zip on disk, as a row of the printed table."""

    name: str
    files: int
    size_bytes: int
    sha256: str


def package(function: Function, kit: Path) -> Package:
    """Collect the files that a function needs. Raises `PackagingError` if it could not run as it is."""
    own = own_files(function.folder)
    if any(path == f"{LIBRARY}.py" or path.startswith(f"{LIBRARY}/") for path in own):
        raise PackagingError(f"{function.name}: {LIBRARY} is the library's name: call the folder's own something else")
    sources = {path: content for path, content in own.items() if path.endswith(".py")}
    try:
        _must_define(function.name, parsed("main.py", own["main.py"]))
        library = library_files(sources, kit)
    except CatalogueError as error:
        raise PackagingError(f"{function.name}: {error}") from error
    requirements = joined(function.folder, kit).encode()
    check(function, kit)
    locked = {None, *locked_packages(function.folder, kit)}
    library = {path: content for path, content in library.items() if OPTIONAL.get(path) in locked}
    return Package(function.name, {**own, **library, REQUIREMENTS: requirements})


def write(package: Package, out: Path) -> Written:
    """Write ``NAME.zip`` into the folder `out`."""
    content = package.zipped()
    out.mkdir(parents=True, exist_ok=True)
    (out / f"{package.name}.zip").write_bytes(content)
    return Written(package.name, len(package.files), len(content), hashlib.sha256(content).hexdigest())


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, EARLIEST)
    entry.create_system = UNIX
    entry.external_attr = REGULAR_FILE_MODE << 16
    entry.compress_type = zipfile.ZIP_STORED
    return entry


def _must_define(name: str, tree: ast.Module) -> None:
    if name not in set(_defined(tree)):
        raise PackagingError(f"main.py defines no {name}, and the entry point has the folder's name")


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
