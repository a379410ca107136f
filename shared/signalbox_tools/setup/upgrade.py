"""The changes that an upgrade of the kit makes to a project: imported names, indexes, and the last saved plan.

The project's code is parsed and never imported, because an import would fail at the first name that was removed.
"""

import ast
import difflib
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

import yaml

import signalbox
from signalbox.catalogue.kit_indexes import searched_fields
from signalbox.catalogue.parts import collections_of
from signalbox.catalogue.project import PACKAGES, Project
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.catalogue_lock import lock_of
from signalbox_tools.deploy.programs import CommandFailed, run
from signalbox_tools.deploy.terraform import Terraform

LIBRARY = "signalbox"
NOT_OF_THE_PROJECT = frozenset({"dist", "node_modules", "venv"})


def removed_names(root: Path) -> list[str]:
    """Return each import from `signalbox` in a project's code that this kit does not have.

    An import is shown with its place.
    """
    return [line for file in sorted(_sources(root)) for line in _removed_in(file, str(file.relative_to(root)))]


def new_indexes(project: Project, catalogue: Catalogue) -> list[str]:
    """Return the indexes that the next deployment would build: the catalogue's, and those of the kit's collections.

    They are compared with the catalogue's lock and with the Terraform files of the last plan or deployment.
    """
    file, copy = lock_of(project.catalogue), project.infra / "indexes.tf"
    before = (yaml.safe_load(file.read_text("utf-8")) or {}) if file.is_file() else None
    own = [] if before is None else [name for name in catalogue.indexes if name not in (before.get("indexes") or {})]
    if not (project.own and copy.is_file()):
        return own
    now = collections_of(catalogue.parts)
    known = set(_settings(copy.read_text("utf-8"), (before or {}).get("collections", now)))
    return own + sorted(set(_settings((project.kit.infra / "indexes.tf").read_text("utf-8"), now)) - known)


def saved_plans(project: Project) -> Iterator[tuple[str, str]]:
    """Iterate over the deployments with a saved plan, ``PROJECT-ENVIRONMENT``, and each plan's summary."""
    for file in sorted((project.state / "terraform").glob("*/plan")):
        yield file.parent.name, _summary(project, file)


def _summary(project: Project, file: Path) -> str:
    again = "it cannot be read: make it again with `signalbox plan`"
    engine = Terraform(project.infra, file.parent, [], run, dict)
    try:
        plan = engine.saved()
    except (CommandFailed, OSError, ValueError, subprocess.SubprocessError):
        return again
    named = [*(f"replaces {each}" for each in plan.replaced), *(f"destroys {each}" for each in plan.destroyed)]
    first, *_ = [line for line in str(plan).splitlines() if line.startswith(("Plan", "No changes"))]
    older = file.stat().st_mtime < (project.kit.infra / "indexes.tf").stat().st_mtime  # since it was installed
    old = ["made before this version of signalbox was installed: make it again"] if older else []
    return "; ".join([first.rstrip("."), *named, *old])


def _settings(text: str, collections: Collection[str]) -> Iterator[str]:
    for collection, fields in searched_fields(text):
        if collection in collections:
            yield from (f"{collection}.{field}" for field in ("*", *fields))


def _sources(root: Path) -> Iterator[Path]:
    for file in root.rglob("*.py"):
        parts = file.relative_to(root).parts
        if not any(part.startswith(".") or part in NOT_OF_THE_PROJECT for part in parts):
            yield file


def _removed_in(file: Path, shown: str) -> Iterator[str]:
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return  # other checks report it
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and not node.level and _is_of_the_kit(node.module or ""):
            for alias in node.names:
                if alias.name != "*" and (lacking := _lacking(str(node.module), alias.name)):
                    yield f"{shown}:{node.lineno} imports {lacking}"
        elif isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names if _is_of_the_kit(alias.name)]
            yield from (f"{shown}:{node.lineno} imports {_no(each)}" for each in modules if _file_of(each) is None)


def _no(module: str) -> str:
    return f"{module}, which this kit does not have"


def _is_of_the_kit(module: str) -> bool:
    return module.partition(".")[0] == LIBRARY


def _lacking(module: str, name: str) -> str:
    """Return the error of importing a name from a module, or an empty text if the kit has it."""
    public = frozenset(getattr(signalbox, "__all__"))  # noqa: B009  a type checker does not know the name
    names = public if module == LIBRARY else _defined(module)
    if names is None:
        return _no(module)
    if name in names or _file_of(f"{module}.{name}"):
        return ""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.8)
    return f"{name} from {module}, which does not have it" + (f"; it has {near[0]}" if near else "")


def _file_of(module: str) -> Path | None:
    path = PACKAGES.joinpath(*module.split("."))
    files = (path.with_suffix(".py"), path / "__init__.py")
    return next((file for file in files if file.is_file()), path if path.is_dir() else None)


def _defined(module: str) -> frozenset[str] | None:
    """Return the names that a module defines at its top level, or None if there is no such module."""
    file = _file_of(module)
    if file is None or file.is_dir():
        return None if file is None else frozenset()
    return frozenset(_top_level(ast.parse(file.read_bytes()).body))


def _top_level(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                yield from (alias.asname or alias.name for alias in aliases)
            case ast.If(body=inner, orelse=other) | ast.Try(body=inner, orelse=other):
                yield from _top_level([*inner, *other])
            case _:
                names = (each for each in ast.walk(node) if isinstance(each, ast.Name))
                yield from (each.id for each in names if isinstance(each.ctx, ast.Store))
