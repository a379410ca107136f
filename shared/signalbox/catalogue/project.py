"""The paths of the kit's own files, of the project whose functions are tested, served and deployed, and the files of
a function's folder.

A user's own project is a folder with a `signalbox.yaml`, and the kit is an installed package. In the kit's
repository, the repository is the project: its catalogue is `infra/catalogue.yaml`, and `functions/` has the kit's
functions.

    Project.find().catalogue      # the catalogue of the folder in which a command is run
    KIT.functions                 # the kit's functions, wherever it is installed
"""

from collections.abc import Iterator
from os import walk
from pathlib import Path
from typing import Self

from signalbox.core.lazy_dataclasses import dataclass

FILE = "signalbox.yaml"
"""The catalogue of a user's own project: a folder with this file is a project."""

SETTINGS = ".tfvars.json"
"""The end of the name of an environment's file. Terraform reads it as it is."""

PACKAGES = Path(__file__).resolve().parents[2]
"""The folder that contains the package `signalbox`: `shared/` in the repository, or `site-packages`."""

_PACKAGED = PACKAGES / "signalbox_tools" / "kit"


class NotAProject(LookupError):
    """The command was run outside of a project. The message names the remedy."""


@dataclass(frozen=True, slots=True)
class Kit:
    """The kit's own files, below `root` as in the repository; a wheel has a copy of them in `signalbox_tools/kit`."""

    root: Path

    @property
    def is_packaged(self) -> bool:
        """Whether the kit is an installed package."""
        return self.root == _PACKAGED

    @property
    def functions(self) -> Path:
        """The folder of the kit's functions, which also has the lock of all functions."""
        return self.root / "functions"

    @property
    def infra(self) -> Path:
        """The folder of the Terraform files."""
        return self.root / "infra"

    @property
    def catalogue(self) -> Path:
        """The catalogue with the kit's functions, queues, triggers and schedules."""
        return self.infra / "catalogue.yaml"

    @property
    def description(self) -> Path:
        """The description of the HTTP API."""
        return self.root / "openapi.yaml"

    @property
    def source_paths(self) -> tuple[Path, ...]:
        """The folders that Python needs on its path to import the kit; empty if the kit is installed."""
        return () if self.is_packaged else (self.root, PACKAGES)


KIT = Kit(_PACKAGED if _PACKAGED.is_dir() else PACKAGES.parent)


@dataclass(frozen=True, slots=True)
class Project:
    """A user's own project (`own`), or the kit's repository. All paths are below `root`."""

    root: Path
    own: bool

    @classmethod
    def find(cls, start: Path | None = None) -> Self:
        """Return the project of a folder (default: the current one): the folder or one above it has a `signalbox.yaml`.

        Without such a file, it is the kit's repository. Raises `NotAProject` if the kit is an installed package.
        """
        start = (start or Path.cwd()).resolve()
        for folder in (start, *start.parents):
            if (folder / FILE).is_file():
                return cls(folder, own=True)
        if KIT.is_packaged:
            raise NotAProject(
                f"There is no {FILE} in {start} nor in a folder above it: go to your project's folder, "
                "or make a project with `signalbox new my-shop`."
            )
        return cls(KIT.root, own=False)

    @classmethod
    def at(cls, root: Path) -> Self:
        """Return the project whose folder is `root`."""
        return cls(root, own=(root / FILE).is_file())

    @classmethod
    def of(cls, catalogue: Path) -> Self:
        """Return the project of a catalogue file."""
        own = catalogue.name == FILE
        return cls(catalogue.resolve().parent if own else catalogue.resolve().parent.parent, own)

    @property
    def catalogue(self) -> Path:
        """The catalogue file."""
        return self.root / FILE if self.own else self.root / "infra" / "catalogue.yaml"

    @property
    def kit(self) -> Kit:
        """The kit that the project is built with: the installed one or, in a clone of the repository, the clone's."""
        return KIT if self.own else Kit(self.root)

    @property
    def dist(self) -> Path:
        """The folder of the functions' zips."""
        return self.root / "dist"

    @property
    def state(self) -> Path:
        """The folder in which a running stack and Terraform keep their files; git ignores it."""
        return self.root / (".signalbox" if self.own else ".local")

    @property
    def environments(self) -> Path:
        """The folder with the settings of the project's deployments, NAME.tfvars.json. No wheel has it."""
        return self.root / "environments"

    @property
    def infra(self) -> Path:
        """The folder in which Terraform runs: in a user's own project, a copy of the kit's."""
        return self.state / "terraform" / "infra" if self.own else self.root / "infra"

    def variables(self, environment: str) -> Path:
        """Return the file with an environment's settings.

        If the project has none, it is the kit's file of the same name.
        """
        file = self.environments / f"{environment}{SETTINGS}"
        return file if file.is_file() else self.kit.infra / "environments" / file.name


REQUIREMENTS = "requirements.txt"

LEFT_OUT = frozenset({REQUIREMENTS, "requirements.in", "package.json", "package-lock.json"})
"""Files that are not packaged: a zip's requirements.txt is made from this one and the functions' lock, and npm's files
are for pages.
"""

CACHES = frozenset({"__pycache__", "node_modules"})


def own_files(folder: Path, ending: str = "") -> dict[str, bytes]:
    """Return the files of a function's folder by path, without hidden files, caches, backups, documents and tests.

    Only files whose names have the `ending` are read.
    """
    files = (path for path in _own_files(folder) if path.name.endswith(ending))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def _own_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in walk(folder):
        folders[:] = filter(_is_own, folders)
        others = LEFT_OUT if Path(parent) == folder else ()
        own = (Path(parent, name) for name in filter(_is_own, names) if name not in others)
        yield from (path for path in own if not is_test(path) and path.is_file())


def _is_own(name: str) -> bool:
    return name not in CACHES and not name.startswith(".") and not name.endswith(("~", ".pyc", ".md"))


def python_files(folder: Path) -> dict[str, bytes]:
    """Return the Python files of a function's folder by path."""
    return own_files(folder, ".py")


def is_test(path: Path) -> bool:
    """Return whether a file is a test next to the code: pytest runs it, and no zip contains it."""
    return path.name == "conftest.py" or (path.name.startswith("test_") and path.suffix == ".py")
