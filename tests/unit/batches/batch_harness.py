"""The batch functions over an in-memory store, with a queue whose tasks run when a test calls `run_tasks`."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import flask

from shared.adapters import runtime
from shared.adapters.clock import SystemClock
from shared.adapters.logs import JsonLog
from shared.batches.operations.tasks import run_batch_task
from shared.batches.operations.units import complete_unit
from shared.batches.rules.outcomes import UnitOutcome, succeeded
from shared.batches.rules.units import PlacedUnit
from shared.core.operations.ports import Data, Ports, Query, Store
from shared.core.rules.effects import Effect
from shared.testing.memory_store import MemoryStore

FUNCTIONS = Path(__file__).parents[3] / "functions"
TASK = {"function": "painter", "task": "paint", "payload": {"color": "red"}}
ANNOUNCE = {"function": "painter", "task": "announce", "payload": {}}

Work = Callable[[Effect], UnitOutcome]
"""The outcome of a unit, from its task."""


def entry(function: str) -> Callable[[flask.Request], flask.Response]:
    """Load a function's main.py and return its entry point."""
    spec = importlib.util.spec_from_file_location(f"main_of_{function}", FUNCTIONS / function / "main.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded: Callable[[flask.Request], flask.Response] = getattr(module, function)
    return loaded


class BatchHarness:
    """A store whose clock a test advances, and a queue that takes a name once."""

    def __init__(self, store: Store | None = None) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.store = store or MemoryStore(lambda: self.time)
        self.names: set[str] = set()
        self.waiting: list[Effect] = []
        self.completions: list[dict[str, Any]] = []
        self.ran: list[Effect] = []
        self.ports = Ports(self.store, self, SystemClock(), JsonLog("test"))
        runtime.bind(self.ports)
        self.ports = runtime.ports()
        self.app = flask.Flask("batches")
        self.entries = {name: entry(name) for name in ("batches", "batch_complete")}

    def create(self, effects: Sequence[Effect]) -> None:
        """Enqueue tasks; names that were taken are ignored."""
        self.waiting += [effect for effect in effects if effect.name not in self.names]
        self.names |= {effect.name for effect in effects}

    def request(
        self, method: str, path: str, body: Any = None, function: str = "batches", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        """Call a function over HTTP; return the status and the body."""
        with self.app.test_request_context(path, method=method, json=body, headers=headers):
            response = self.entries[function](flask.request)
        return response.status_code, response.get_json(force=True)

    def run_tasks(self, do: Work = lambda _: succeeded("painted")) -> None:
        """Run all tasks of the queue; `do` returns a unit's outcome."""
        while self.waiting:
            effect = self.waiting.pop(0)
            if effect.function == "batch_expand":
                run_batch_task(self.ports, effect.task, effect.payload)
            elif effect.task == "announce":
                self.completions.append(dict(effect.context["batch"]))
            else:
                self.ran.append(effect)
                complete_unit(self.ports, PlacedUnit.from_record(effect.context["unit"]), do(effect))

    def advance(self, seconds: float) -> None:
        """Advance the server's time."""
        self.time += timedelta(seconds=seconds)

    def records(self) -> dict[str, Data | None]:
        """Return all records of the batch `b`, by path."""
        collections = ("batches", *(f"batches/b/{part}" for part in ("pages", "counters", "units")))
        return {one.path: one.data for each in collections for one in self.store.query(Query(each, limit=1_000))}
