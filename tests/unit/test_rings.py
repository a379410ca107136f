"""The rings stay apart. A file's ring follows from its name, and a table lists which subject may import which.

    pure      model, machine, requests, shown, problems, limits; core      standard library; no clock, no I/O
    ports     storage, service, tasks, sweep; CORE_PORTS            over the protocols of core
    adapter   http                                                  Flask, and `adapters`, which alone knows Google
    user      api                                                   what `signalbox` exports

A room may be a folder, whose parts are in the room's ring. `function/` connects all of them.
"""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.unit.test_public_names import NAMES

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "shared" / "signalbox"
PURE = sys.stdlib_module_names - {"asyncio", "http", "io", "multiprocessing", "os", "pathlib", "random", "secrets"}
PURE = PURE - {"select", "socket", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
TYPE_FORM = "typing_extensions.TypeForm"
"""What only a type checker imports: a function has no package of this name."""

VALUES = {"uuid.UUID", TYPE_FORM}
"""Classes of values from modules that also read the outside world, and `TYPE_FORM`."""

CLOCKS = {"now", "utcnow", "today"}
NAMES_A_CLOCK = re.compile(rb"\.(now|utcnow|today)\b")

PURE_ROOMS = ("model", "machine", "requests", "shown", "problems", "limits")
PORTS_ROOMS = ("storage", "service", "tasks", "sweep")
CORE_PORTS = ("ports", "outbox", "perform", "due_records", "polling", "query_checks", "write_checks", "write_effects")
"""Files of core that know the protocols of the ports. `lazy_names` loads modules; all others are pure."""

LOADS_MODULES = ("lazy_names",)

SUBJECTS = {
    "core": (),
    "transforms": ("core",),
    "history": ("core",),
    "documents": ("core", "transforms", "history", "payloads"),
    "links": ("core", "documents", "transforms", "history"),
    "semaphores": ("core",),
    "critical_sections": ("core",),
    "rates": ("core",),
    "batches": ("core", "payloads"),
    "document_events": ("core",),
    "payloads": ("core",),
    "mailboxes": ("core", "payloads"),
    "tasks": ("core", "semaphores", "critical_sections", "rates", "batches", "mailboxes", "payloads"),
    "objects": ("core", "mailboxes", "payloads", "tasks"),
    "flows": ("core", "mailboxes", "objects", "payloads", "tasks", "semaphores", "rates", "batches"),
    "standings": ("core", "tasks"),
    "resources": ("core", "documents", "history", "transforms"),
}
"""The subjects that each subject may import in addition to itself. ARCHITECTURE.md shows the same table."""

TOOLS = {"catalogue", "client", "testing"}
"""Folders of the library that are never in a zip."""

OTHERS = {"adapters", "function", *TOOLS}
"""Folders of the library that are not subjects."""


@cache
def imports(path: Path) -> set[str]:
    """List the modules a file imports; a name taken from a package of ours counts as its module."""
    found = set()
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            found |= {f"{node.module}.{name.name}" for name in node.names}
    return found


def run_imports(path: Path) -> set[str]:
    """List the modules, and the names taken from them, that a file imports when it runs."""
    tree = ast.parse(path.read_bytes())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = [ast.Pass()]
    found = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)}
    return found


def strangers(files: Iterable[Path], stdlib: Iterable[str], ours: tuple[str, ...]) -> list[str]:
    """Return the imports that are not standard modules and do not begin with one of `ours`."""
    allowed = set(stdlib)
    return [
        f"{path.relative_to(ROOT)}: {module}"
        for path in files
        for module in sorted(imports(path))
        if not f"{module}.".startswith(ours) and module.partition(".")[0] not in allowed and module not in VALUES
    ]


def files_of(subject: str) -> Iterator[tuple[str, Path]]:
    """Iterate over the Python files of a subject, each with its room."""
    folder = LIBRARY / subject
    for path in sorted(folder.rglob("*.py")):
        if path.name != "__init__.py" or path.parent != folder:
            yield path.relative_to(folder).parts[0].removesuffix(".py"), path


def of_rooms(subject: str, rooms: Iterable[str]) -> list[Path]:
    return [path for room, path in files_of(subject) if room in rooms]


def modules(subjects: Iterable[str], rooms: Iterable[str]) -> tuple[str, ...]:
    """Return the prefixes of the modules that these rooms of these subjects are; all of core's in the same ring."""
    rooms = tuple(rooms)
    core = core_modules(ports=bool(set(rooms) & set(PORTS_ROOMS)))
    return core + tuple(f"signalbox.{subject}.{room}." for subject in subjects if subject != "core" for room in rooms)


def core_modules(*, ports: bool) -> tuple[str, ...]:
    return tuple(f"signalbox.core.{room}." for room, _ in files_of("core") if ports or room not in CORE_PORTS)


def test_the_forms_of_types_are_imported_by_type_checkers_only() -> None:
    users = [path for path in LIBRARY.rglob("*.py") if TYPE_FORM in imports(path)]
    assert users, "remove TYPE_FORM"
    assert [path for path in users if TYPE_FORM in run_imports(path)] == []


def test_the_pure_files_of_core_import_one_another_only() -> None:
    paths = [path for room, path in files_of("core") if room not in (*CORE_PORTS, *LOADS_MODULES)]
    assert paths
    assert strangers(paths, PURE, core_modules(ports=False)) == []


def test_core_imports_no_subject() -> None:
    paths = [path for room, path in files_of("core") if room not in LOADS_MODULES]
    assert strangers(paths, PURE, core_modules(ports=True)) == []


@pytest.mark.parametrize("subject", sorted(SUBJECTS.keys() - {"core"}))
def test_every_file_of_a_subject_is_in_a_room(subject: str) -> None:
    rooms = {room for room, _ in files_of(subject)}
    assert rooms <= {*PURE_ROOMS, *PORTS_ROOMS, "http", "api"}


@pytest.mark.parametrize("subject", sorted(SUBJECTS.keys() - {"core"}))
def test_pure_rooms_import_pure_rooms_of_subjects_in_the_table(subject: str) -> None:
    paths = of_rooms(subject, PURE_ROOMS)
    assert paths
    assert strangers(paths, PURE, modules((subject, *SUBJECTS[subject]), PURE_ROOMS)) == []


@pytest.mark.parametrize("subject", sorted(SUBJECTS.keys() - {"core"}))
def test_ports_rooms_import_pure_and_ports_rooms_of_subjects_in_the_table(subject: str) -> None:
    allowed = modules((subject, *SUBJECTS[subject]), (*PURE_ROOMS, *PORTS_ROOMS))
    assert strangers(of_rooms(subject, PORTS_ROOMS), PURE, allowed) == []


@pytest.mark.parametrize("subject", sorted(SUBJECTS.keys() - {"core"}))
def test_http_and_api_import_adapters_and_subjects_in_the_table(subject: str) -> None:
    own = (f"signalbox.{subject}.", "signalbox.adapters.", *core_modules(ports=True))
    others = modules(SUBJECTS[subject], (*PURE_ROOMS, *PORTS_ROOMS, "http"))
    stdlib = sys.stdlib_module_names
    assert strangers(of_rooms(subject, ("http",)), stdlib | {"flask", "werkzeug"}, own + others) == []
    apis = modules(SUBJECTS[subject], ("api",))
    assert strangers(of_rooms(subject, ("api",)), stdlib, own + others + apis) == []


def test_the_table_of_subjects_has_no_circle() -> None:
    above = dict(SUBJECTS)
    while lowest := [subject for subject, below in above.items() if not set(below) & above.keys()]:
        for subject in lowest:
            del above[subject]
    assert above == {}


def test_no_files_of_the_library_import_each_other_in_a_circle() -> None:
    """Imports inside functions count, too; those for a type checker alone do not."""
    files = {".".join(path.relative_to(ROOT / "shared").with_suffix("").parts): path for path in LIBRARY.rglob("*.py")}
    below = {name: {found for found in run_imports(path) if found in files} for name, path in files.items()}
    while lowest := [name for name, found in below.items() if not found & below.keys()]:
        for name in lowest:
            del below[name]
    assert below == {}


def test_every_folder_of_the_library_is_in_the_table() -> None:
    folders = {path.name for path in LIBRARY.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders == {*SUBJECTS, *OTHERS}
    assert {path.name for path in LIBRARY.glob("*.py")} == {"__init__.py"}


def test_the_adapters_know_no_subject() -> None:
    outside = {"google", "grpc", "flask", "werkzeug", "cloudevents", "opentelemetry", "requests", "urllib3"}
    paths = list((LIBRARY / "adapters").rglob("*.py"))
    allowed = ("signalbox.adapters.", *core_modules(ports=True))
    assert paths
    assert strangers(paths, sys.stdlib_module_names | outside, allowed) == []


def test_functions_import_only_the_library() -> None:
    paths = list(ROOT.glob("functions/*/*.py"))
    assert paths
    assert strangers(paths, sys.stdlib_module_names, ("signalbox.",)) == []


def test_the_library_does_not_import_the_tools_package() -> None:
    assert [path for path in LIBRARY.rglob("*.py") if any("signalbox_tools" in name for name in imports(path))] == []


def test_the_library_imports_no_public_name_of_its_own_and_nothing_deployed_imports_the_tools() -> None:
    deployed = [path for path in LIBRARY.rglob("*.py") if not TOOLS & {*path.parts}]
    importing = {path: imports(path) for path in [*deployed, *ROOT.glob("functions/*/*.py")]}
    public = {f"signalbox.{name}" for name in NAMES}
    assert [path for path, names in importing.items() if names & public] == []
    tools = tuple(f"signalbox.{folder}." for folder in TOOLS)
    assert [path for path, names in importing.items() if any(f"{name}.".startswith(tools) for name in names)] == []


def test_pure_and_ports_rooms_read_no_clock() -> None:
    core = [path for _, path in files_of("core")]
    subjects = [path for subject in SUBJECTS for path in of_rooms(subject, (*PURE_ROOMS, *PORTS_ROOMS))]
    named = [text for path in (*core, *subjects) if NAMES_A_CLOCK.search(text := path.read_bytes())]
    nodes = [node for text in named for node in ast.walk(ast.parse(text))]
    called = [node.func for node in nodes if isinstance(node, ast.Call)]  # a value may well be called `now`
    assert subjects
    assert named
    assert [ast.unparse(func) for func in called if isinstance(func, ast.Attribute) and func.attr in CLOCKS] == []


def test_only_the_settings_read_the_environment() -> None:
    deployed = [path for path in LIBRARY.rglob("*.py") if "testing" not in path.parts]
    assert [path.name for path in deployed if {"os", "os.environ", "os.getenv"} & imports(path)] == ["settings.py"]


def test_init_files_are_empty_so_that_a_package_imports_nothing_by_itself() -> None:
    paths = list(LIBRARY.rglob("__init__.py"))
    assert len(paths) >= 4
    assert sorted(path.parent.name for path in paths if path.read_bytes()) == ["client", "signalbox", "testing"]


def test_a_stranger_is_found_out(tmp_path: Path) -> None:
    planted = LIBRARY / "core" / "problems.py"
    assert strangers([planted], set(), ("signalbox.core.",)) != []
    (tmp_path / "x.py").write_text("import os.path\nfrom google.cloud import firestore\n")
    assert imports(tmp_path / "x.py") == {"os.path", "google.cloud.firestore"}
