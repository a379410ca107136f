"""Make a function to begin with: a folder, a test in it, and an entry in the catalogue (``make new NAME=printers``).

python -m signalbox_infra.setup.new_function printers

The entry comes last and in one step. A folder without one that holds nothing but beginnings of what would be written
was left by a run that was killed, and is completed.
"""

import os
import sys
from pathlib import Path

from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.entries import NAME, url_segment
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.packaging.imports import LEFT_BEHIND, LIBRARY

HEADING = "\nfunctions:\n"
TAKEN = LEFT_BEHIND | {LIBRARY, "docs", "dist"}
MAIN = '''"""{name}: work that is started by a call and done by a task."""

from signalbox import Function, Request, Response, batch, documents

app = Function("{name}")


@app.http("POST", "/{{key}}")  # POST {{base}}{segment}/a
def start(request: Request, key: str) -> Response:
    batch(f"{segment}-{{key}}").populate([work.call(key=key)])
    return Response(202, {{"key": key}})


@app.http("GET", "/{{key}}")  # GET {{base}}{segment}/a
def show(request: Request, key: str) -> Response:
    return Response(200, documents.get(f"{segment}-{{key}}"))  # 404 while there is none


@app.task  # called by Cloud Tasks; it may run more than once
def work(key: str) -> None:
    print("working on", key)
    documents.put(f"{segment}-{{key}}", {{"done": True}})


{name} = app.entry_point()
'''
TEST = """from signalbox.testing import Harness


def test_work_is_done_after_a_call() -> None:
    with Harness() as harness:
        assert harness.post("{segment}/a").status == 202
        assert harness.get("{segment}/a").status == 404
        harness.run()
        assert harness.get("{segment}/a").json["done"] is True
"""
ENTRY = """  {name}:
    folder: {name}
"""
NEXT = """Made {name}/main.py, {name}/test_{name}.py and an entry in infra/catalogue.yaml. Now try:

  make dev                                            a running one has loaded it already
  curl -X POST {base}{segment}/a
  curl {base}{segment}/a
  make test ARGS={name}

Change {name}/main.py and save it: `make dev` reloads it. docs/README.md lists every name of the kit.
"""


class CannotMake(Exception):
    """No function of this name can be made. The message says why."""


def make(name: str, root: Path) -> str:
    """Make a function's files below `root` and its entry. Returns what to try next. Raises `CannotMake`."""
    catalogue = root / "infra" / "catalogue.yaml"
    text = catalogue.read_text("utf-8")
    _check(name, root, text, catalogues.load(catalogue))
    values = {"name": name, "segment": url_segment(name)}
    (root / name).mkdir(exist_ok=True)
    for file, content in _files(name).items():
        (root / name / file).write_text(content, "utf-8")
    newer = catalogue.with_suffix(".new")
    newer.write_text(text.replace(HEADING, HEADING + ENTRY.format(**values), 1), "utf-8")
    newer.replace(catalogue)
    return NEXT.format(**values, base=_base_url(root))


def _base_url(root: Path) -> str:
    """Return the address of the stack that runs, else the one of the next: its ``PORT``, or 8080."""
    try:
        return RunningStack.of(root / ".local").base_url
    except (NoStack, OSError):
        return f"http://127.0.0.1:{os.environ.get('PORT', '8080')}/"


def _files(name: str) -> dict[str, str]:
    values = {"name": name, "segment": url_segment(name)}
    return {"main.py": MAIN.format(**values), f"test_{name}.py": TEST.format(**values)}


def _begun(folder: Path) -> bool:
    """Return whether a run that was killed has left the folder."""
    wanted = _files(folder.name)
    return folder.is_dir() and all(
        each.is_file() and wanted.get(each.name, "").startswith(each.read_text("utf-8")) for each in folder.iterdir()
    )


def _check(name: str, root: Path, text: str, catalogue: catalogues.Catalogue) -> None:
    if not name:
        raise CannotMake("Name the function: make new NAME=printers")
    if not NAME.fullmatch(name):
        raise CannotMake(f"NAME={name}: the name must be lower case words joined by single underscores")
    if name in catalogue.functions:
        raise CannotMake(f"NAME={name}: the catalogue has a function of this name; choose another")
    if name in TAKEN or ((root / name).exists() and not _begun(root / name)):
        raise CannotMake(f"NAME={name}: there is a folder of this name; choose another")
    if HEADING not in text:
        raise CannotMake("infra/catalogue.yaml has no line `functions:` to put the entry under")


def main(arguments: list[str]) -> int:
    try:
        sys.stdout.write(make(arguments[0] if arguments else "", catalogues.CATALOGUE.parents[1]))
    except (CannotMake, catalogues.CatalogueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
