"""Make a user's own project: a folder with a function, its test, and the files that serve and deploy it.

``signalbox new my-shop`` fills the texts in `templates/`. If the kit was installed from a wheel's file, the project
gets a copy of the wheel in `wheels/`, so that every machine installs the same kit.
"""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

from signalbox.catalogue.parts import ALL, APIS
from signalbox.catalogue.project import FILE, KIT, NotAProject, Project
from signalbox.catalogue.version import VERSION
from signalbox_tools.setup import new_function_templates
from signalbox_tools.setup.new_function_templates import CannotMake

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
FUNCTION = "orders"
TEMPLATES = Path(__file__).with_name("templates")
FILES = {
    "signalbox.yaml": FILE,
    "pyproject.toml": "pyproject.toml",
    "makefile": "Makefile",
    "cloudbuild.yaml": "cloudbuild.yaml",
    "env.example": ".env.example",
    "readme.md": "README.md",
    "gitignore": ".gitignore",
}
"""The files of a project by the names of their templates, which end in ``.txt``."""
WORKFLOW = ("test.yaml", ".github/workflows/test.yaml")
SECONDS_MAX = 120
NEXT = """Made {folder}. Now try:

  cd {quoted}
  make test                                           sets up .venv first
  . .venv/bin/activate                                signalbox is a command in this terminal
  signalbox dev
  curl -X POST http://127.0.0.1:8080/orders/a         in another terminal
  curl http://127.0.0.1:8080/orders/a
  signalbox deploy -p my-project

Change functions/orders/main.py and save it: `signalbox dev` reloads it. See README.md.
"""
NOT_FROM_A_CLONE = (
    "A project depends on the kit's package, and this is a clone: run `make wheel`, then "
    f'`pip install "dist/signalbox-{VERSION}-py3-none-any.whl[tools]"` in another virtual environment, whose '
    "`signalbox new ../my-shop` makes it. `signalbox add` makes a function in the clone."
)
UNLOCKED = "uv.lock was not written ({reason}); `uv lock` writes it.\n"


def make(folder: Path, *, github: bool = False, api: Sequence[str] = ()) -> str:
    """Make the project, with these parts of the kit's HTTP API. Return the text that says what to try next.

    Raises `CannotMake`.
    """
    _check_api(api)
    folder = folder.absolute()
    _check(folder)
    wheel = _wheel()
    for path, text in _texts(folder, wheel, github, api).items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    if wheel:
        (folder / "wheels").mkdir()
        shutil.copy2(wheel, folder / "wheels")
    shown = folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
    return _locked(folder) + NEXT.format(folder=shown, quoted=shlex.quote(str(shown)))


def _texts(folder: Path, wheel: Path | None, github: bool, api: Sequence[str]) -> dict[Path, str]:
    requirement, checks = (
        f"./wheels/{wheel.name}[{extra}]" if wheel else f"signalbox[{extra}]>={VERSION}"
        for extra in ("tools", "checks")
    )
    source = f'\n[tool.uv.sources]\nsignalbox = {{ path = "wheels/{wheel.name}" }}\n' if wheel else ""
    values = {"name": folder.name, "version": VERSION, "source": source}
    values |= {"requirement": requirement, "checks": checks}
    values["api"] = ALL if ALL in api else f"[{', '.join(api)}]"
    files = {**FILES, **dict([WORKFLOW] if github else [])}
    texts = {folder / file: _filled(template, values) for template, file in files.items()}
    return texts | new_function_templates.files(FUNCTION, Project(folder, own=True))


def _filled(template: str, values: dict[str, str]) -> str:
    text = (TEMPLATES / f"{template}.txt").read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _check_api(api: Sequence[str]) -> None:
    for name in api:
        if name not in (ALL, *APIS):
            raise CannotMake(f"--api {name}: the kit has no such part; choose from {', '.join(APIS)}, or {ALL}")


def _check(folder: Path) -> None:
    name = folder.name
    if not NAME.fullmatch(name):
        raise CannotMake(f"{name}: the name must be lower case words and digits joined by single hyphens, as my-shop")
    if taken := _package(name):
        raise CannotMake(f"{name}: a package has this name ({taken}), and a project must not hide it; choose another")
    if folder.is_file() or (folder.is_dir() and any(each.name != ".git" for each in folder.iterdir())):
        raise CannotMake(f"{folder} exists and is not empty: choose another name")
    if around := _project_around(folder.parent):
        raise CannotMake(f"{around} is a project: add a function with `signalbox add orders`, or choose another folder")


def _package(name: str) -> str:
    """Return the name of the installed package that is called `name` or has a module of that name.

    Return an empty text if there is none.
    """
    try:
        return distribution(name).name
    except PackageNotFoundError:
        return next(iter(packages_distributions().get(name.replace("-", "_"), ())), "")


def _project_around(folder: Path) -> Path | None:
    existing = next(each for each in (folder, *folder.parents) if each.is_dir())
    try:
        found = Project.find(existing)
    except NotAProject:
        return None
    return found.root if found.own else None


def _wheel() -> Path | None:
    """Return the wheel from which the kit was installed, or None if it came from an index.

    Raises `CannotMake` in a clone.
    """
    if not KIT.is_packaged:
        raise CannotMake(NOT_FROM_A_CLONE)
    origin = distribution("signalbox").read_text("direct_url.json")
    url = json.loads(origin)["url"] if origin else ""
    file = Path(unquote(urlsplit(url).path))
    return file if url.startswith("file:") and file.suffix == ".whl" and file.is_file() else None


def _locked(folder: Path) -> str:
    """Lock the project's packages, if uv is installed. Return a message if that failed, else an empty text."""
    if not (uv := shutil.which("uv")):
        return ""
    try:
        done = subprocess.run(  # noqa: S603 (a list, no shell)
            [uv, "lock", "--quiet"], cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return UNLOCKED.format(reason=error)
    reason = next(iter(done.stderr.strip().splitlines()), f"status {done.returncode}")
    return UNLOCKED.format(reason=reason) if done.returncode else ""
