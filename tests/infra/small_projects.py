"""Four projects, from one flow to all of the kit: what each deploys is counted, and compared with what is promised.

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
class Promise:
    """The most of each that a project deploys; the first deployment's applies and minutes are those of `SEEDS`."""

    functions: int
    resources: int
    accounts: int
    applies: int | None = None
    minutes: int | None = None


@dataclass(frozen=True, slots=True)
class SmallProject:
    """The code of a project's function, if it has one, the parts that are called over HTTP, and what is promised."""

    code: str
    api: list[str] | str
    promised: Promise

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
    "one function with a flow of inline and task steps": SmallProject(FLOW, [], Promise(3, 90, 6, 4, 14)),
    "semaphores and batches from code": SmallProject(SEMAPHORES_AND_BATCHES, [], Promise(5, 130, 9)),
    "documents with copies over HTTP": SmallProject("", ["documents"], Promise(8, 150, 10)),
    "all": SmallProject("", "all", Promise(24, 330, 20, None, 28)),
}
