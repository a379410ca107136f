"""A stack is idle only if nothing is pending: no task in a queue, no event, and no task in the outbox."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core import outbox
from signalbox.core.ports import Delete, Put
from signalbox_tools.local import idle_check
from signalbox_tools.local.idle_check import IdleMonitor

QUIET = {"events": {"waiting": 0, "running": 0, "received": 7}, "tasks": {"waiting": 0, "running": 0, "created": 3}}


class Stack:
    """The counters of a stack, which a test sets, and its store."""

    emulator = None
    catalogue = SimpleNamespace(triggers={"documents": "documents/{key}"})

    def __init__(self, file: Path) -> None:
        self.store_file = file
        self.counters: list[dict[str, dict[str, int]]] = []

    def url(self, name: str) -> str:
        return name

    def stats(self, url: str) -> Any:
        counters = self.counters[0] if len(self.counters) > 1 or url == "events-deliver" else self.counters[-1]
        if url == "keys" and len(self.counters) > 1:
            self.counters.pop(0)
        return counters["events"] if url == "events-deliver" else {"tasks": counters["tasks"]}


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stack:
    made = Stack(tmp_path / "store.sqlite")
    made.counters = [QUIET]
    monkeypatch.setattr(idle_check, "stats", made.stats)
    return made


@pytest.fixture
def store(stack: Stack) -> Iterator[SqliteStore]:
    with closing(SqliteStore(stack.store_file)) as opened:
        yield opened


def monitor(stack: Any) -> IdleMonitor:
    return IdleMonitor(stack)


def test_a_stack_without_tasks_and_events_is_idle(stack: Stack) -> None:
    assert monitor(stack).idle()


def test_a_stack_with_a_task_in_the_outbox_is_not_idle(stack: Stack, store: SqliteStore) -> None:
    store.commit([Put(outbox.path_of("a"), {"effects": []})])
    assert not monitor(stack).idle()
    assert monitor(stack).pending().endswith("the outbox has tasks")
    store.commit([Delete(outbox.path_of("a"))])
    assert monitor(stack).idle()


@pytest.mark.parametrize("name", ["waiting", "running"])
@pytest.mark.parametrize("part", ["events", "tasks"])
def test_a_stack_with_a_task_or_an_event_is_not_idle(stack: Stack, part: str, name: str) -> None:
    stack.counters = [{**QUIET, part: {**QUIET[part], name: 1}}]
    assert not monitor(stack).idle()


def test_a_stack_whose_counters_change_during_the_check_is_not_idle(stack: Stack) -> None:
    stack.counters = [QUIET, {**QUIET, "events": {**QUIET["events"], "received": 8}}]
    assert not monitor(stack).idle()
    assert monitor(stack).idle()


def test_an_emulator_whose_outbox_cannot_be_read_is_not_idle(
    stack: Stack, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = SimpleNamespace(firestore_emulator="127.0.0.1:9", project="p", database="d")
    assert not monitor(
        SimpleNamespace(catalogue=Stack.catalogue, emulator=object(), settings=settings, url=stack.url)
    ).idle()
