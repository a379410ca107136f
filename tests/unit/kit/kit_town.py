"""A store and a queue in this process, and functions that are called as people and queues call them."""

import importlib.util
import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import flask

from shared.adapters.cloud_tasks import task_request
from shared.adapters.settings import from_environment
from shared.core.operations.ports import Query
from shared.core.rules.effects import Effect
from shared.kit import documents
from shared.testing.memory_store import MemoryStore

ROOT = Path(__file__).parents[3]
Entry = Callable[[flask.Request], flask.Response]
WEB = flask.Flask(__name__)
OWN = {"philosophers": "examples", "quilt": "examples"}


DELIVERIES_MAX = 3_000


class Town:
    """A store and a queue in this process; its time passes only when it is told to."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.store = MemoryStore(lambda: self.time)
        self.waiting: dict[str, Effect] = {}
        self.taken: set[str] = set()
        self.functions: dict[str, Entry] = {}

    def create(self, effects: Sequence[Effect]) -> None:
        self.waiting |= {effect.name: effect for effect in effects if effect.name not in self.taken}
        self.taken |= {effect.name for effect in effects}

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def jitter(self) -> float:
        return 0.5

    def deliver(self, effect: Effect, **headers: int) -> int:
        """Deliver a task as Cloud Tasks does, and give the status it is answered with."""
        request = task_request(from_environment({}), effect, "")["task"]["http_request"]
        counts = {f"X-CloudTasks-Task{name.title()}Count": str(count) for name, count in headers.items()}
        with WEB.test_request_context(effect.path, method="POST", data=request["body"], headers=counts):
            entry = self.functions.get(effect.function) or self.functions.setdefault(
                effect.function, entry_of(effect.function)
            )
            return entry(flask.request._get_current_object()).status_code  # type: ignore[attr-defined]

    def take(self, task: str) -> Effect:
        """Take the one task of that name out of the queue."""
        [effect] = [each for each in self.waiting.values() if each.task == task]
        return self.waiting.pop(effect.name)

    def run(self, twice: float = 0, seed: int = 0) -> None:
        """Deliver all tasks, each when it is due, until there are none; that share of them twice."""
        chance = random.Random(seed)
        for _ in range(DELIVERIES_MAX):
            if not self.waiting:
                return
            effect = min(self.waiting.values(), key=lambda each: each.not_before or self.time)
            self.time = max(self.time, effect.not_before or self.time)
            del self.waiting[effect.name]
            for _ in range(1 + (chance.random() < twice)):
                status = self.deliver(effect)
                assert status in (204, 503), (effect.task, status)
            if status == 503:
                self.sleep(1)
                self.waiting[effect.name] = effect
        raise AssertionError(f"still waiting: {[each.task for each in self.waiting.values()]}")

    def ask(self, function: Entry, path: str, method: str = "POST", json: Any = None) -> Any:
        with WEB.test_request_context(path, method=method, json=json):
            response = function(flask.request._get_current_object())  # type: ignore[attr-defined]
        return response.status_code, response.get_json(silent=True) or response.data

    def documents(self) -> dict[str, Any]:
        return {each.id: documents.get(each.id) for each in self.store.query(Query("documents", limit=1000))}


def entry_of(name: str) -> Any:
    path = ROOT / OWN.get(name, "functions") / name / "main.py"
    spec = importlib.util.spec_from_file_location(f"main_of_{name}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)
