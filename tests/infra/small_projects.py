"""Four projects, from one flow to all parts of the kit: what each deploys is counted, and compared with a bar.

catalogue = PROJECTS["a flow"].catalogue(folder)    # the content of catalogue.yaml; its function is in the folder
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from signalbox.catalogue.reading import CATALOGUE

FUNCTION = "orders"
FLOW = """
from signalbox import Function

app = Function("orders")


@app.task
def charge(key: str) -> str:
    return key


@app.step
def rounded(amount: float) -> int:
    return round(amount)


@app.flow
async def order(key: str) -> str:
    await rounded.call(amount=1.5)
    return await charge.call(key=key)


@app.http("POST", "/{key}")
def start(request: object, key: str) -> None:
    order.start(key, key=key)


orders = app.entry_point()
"""
SEMAPHORES_AND_BATCHES = """
from signalbox import Function, batch, semaphore

app = Function("orders")


@app.task
def charge(key: str) -> None:
    print(key)


@app.http("POST", "/{key}")
def start(request: object, key: str) -> None:
    semaphore("bank").ensure(permits=2)
    batch(key).populate([charge.call(key=key)])


orders = app.entry_point()
"""


@dataclass(frozen=True, slots=True)
class Size:
    """The numbers of functions, resources and accounts of a plan."""

    functions: int
    resources: int
    accounts: int


@dataclass(frozen=True, slots=True)
class First:
    """The most applies and virtual minutes of a first deployment, in a project without a small quota of builds."""

    applies: int
    minutes: int


@dataclass(frozen=True, slots=True)
class SmallProject:
    """A project: its function's code, the parts that are called over HTTP, its size, and the largest it may have."""

    code: str
    api: list[str] | str
    size: Size
    bar: Size
    first: First | None = None

    def catalogue(self, folder: Path) -> dict[str, Any]:
        """Write the function's code into a folder. Return the content of the project's catalogue."""
        content: dict[str, Any] = yaml.safe_load(CATALOGUE.read_text("utf-8"))
        functions = {name: each for name, each in content["functions"].items() if "folder" not in (each or {})}
        if self.code:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "main.py").write_text(self.code, "utf-8")
            functions[FUNCTION] = {"folder": str(folder)}
        return content | {"functions": functions, "api": self.api, "history": {}, "semaphores": {}, "rates": {}}


PROJECTS: Mapping[str, SmallProject] = {
    "one function with a flow of inline and task steps": SmallProject(
        FLOW, [], Size(2, 81, 5), Size(3, 90, 6), First(4, 14)
    ),
    "semaphores and batches from code": SmallProject(SEMAPHORES_AND_BATCHES, [], Size(4, 106, 6), Size(5, 130, 9)),
    "documents with copies over HTTP": SmallProject("", ["documents"], Size(6, 85, 5), Size(8, 150, 10)),
    "all parts, without functions of a user": SmallProject(
        "", "all", Size(24, 244, 6), Size(24, 330, 20), First(4, 28)
    ),
}


def table() -> str:
    """Return the table of the projects' sizes."""
    head = "| project | functions | resources | accounts | first deployment |\n|---|---|---|---|---|\n"
    return head + "\n".join(_row(name, project) for name, project in PROJECTS.items())


def _row(name: str, project: SmallProject) -> str:
    first = f"{project.first.applies} applies, {project.first.minutes} minutes at most" if project.first else ""
    size = project.size
    return f"| {name} | {size.functions} | {size.resources} | {size.accounts} | {first} |"
