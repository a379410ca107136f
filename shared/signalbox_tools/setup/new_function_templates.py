"""The files of a new function. Imports only packages that functions have, since `signalbox new` also makes one."""

import ast
import builtins
import keyword
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

from signalbox.catalogue.project import Project

MAIN = '''"""{name}: a call starts a flow, and a task does its work."""

from signalbox import Function, Request, Response, flows

app = Function("{name}")


@app.http("POST", "/{{key}}")  # POST {{base}}{segment}/a
def start(request: Request, key: str) -> Response:
    """Start the flow under a key."""
    handle_{name}.start(key, key=key)
    return Response(202, {{"key": key}})


@app.http("GET", "/{{key}}")  # GET {{base}}{segment}/a
def show(request: Request, key: str) -> Response:
    """Show the state and the result of the flow."""
    run = flows("handle_{name}", key).status()  # 404 until it was started
    return Response(200, {{"state": run.state, "result": run.result}})


@app.task  # called by Cloud Tasks; it may run more than once
def work(key: str) -> str:
    print("working on", key)
    return f"{{key}} is done"


@app.flow  # survives crashes and deployments
async def handle_{name}(key: str) -> str:
    return await work.call(key=key)


{name} = app.entry_point()
'''
TEST = """from signalbox.testing import Harness


def test_the_work_is_done_after_a_call() -> None:
    with Harness() as harness:
        assert harness.get("{segment}/a").status == 404
        assert harness.post("{segment}/a").status == 202
        harness.run()
        assert harness.get("{segment}/a").json == {{"state": "completed", "result": "a is done"}}
"""


class CannotMake(Exception):
    """A function or a project of this name cannot be made. The message has the reason."""


def files(name: str, project: Project) -> dict[Path, str]:
    """Return the texts of a function's `main.py` and of its test, by their paths in the project."""
    values = {"name": name, "segment": name.replace("_", "-")}
    folder, tests = (
        (project.root / "functions" / name, project.root / "tests")
        if project.own
        else (project.root / name, project.root / name)
    )
    return {folder / "main.py": MAIN.format(**values), tests / f"test_{name}.py": TEST.format(**values)}


def names_of_main() -> frozenset[str]:
    """Return the names that a new `main.py` has for itself."""
    tree = ast.parse(MAIN.format(name="name_", segment="name"))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assigned = {name.id for node in tree.body for name in ast.walk(node) if isinstance(name, ast.Name)}
    return frozenset(imported | defined | assigned) - {"name_"}


def taken_by(name: str) -> str:
    """Return what a function of this name would hide: a keyword of Python, a module, or a name of its own `main.py`.

    Return an empty text if it hides nothing.
    """
    if keyword.iskeyword(name):
        return f"Python has a keyword {name}"
    if hasattr(builtins, name):
        return f"Python has a function or type {name}"
    if name in names_of_main():
        return f"the new main.py has the name {name}"
    if name in sys.stdlib_module_names:
        return f"Python has a module {name}"
    packages = packages_distributions().get(name, ())
    return f"the package {packages[0]} has a module {name}" if packages else ""
