"""A pytest plugin: write down which fields of which collections the tests' queries name, and which the kit writes.

One line of JSON a query or a write: the collection and the fields. ``QUERIES_MADE`` and ``FIELDS_WRITTEN`` name the
files.
"""

import json
import os
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from signalbox.core.ports import Change, Committed, Put, Query, Write
from signalbox.testing.memory_store import MemoryStore


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Listen while the tests run."""
    made: set[str] = set()
    written: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("query", "count"):
            patch.setattr(MemoryStore, name, _listening(getattr(MemoryStore, name), made))
        patch.setattr(MemoryStore, "commit", _noting(MemoryStore.commit, written))
        ended = yield
    for variable, lines in (("QUERIES_MADE", made), ("FIELDS_WRITTEN", written)):
        Path(os.environ[variable]).write_text("\n".join(sorted(lines)), "utf-8")
    return ended


def _noting(
    commit: Callable[[MemoryStore, Sequence[Write]], Committed], written: set[str]
) -> Callable[[MemoryStore, Sequence[Write]], Committed]:
    def note(store: MemoryStore, writes: Sequence[Write]) -> Committed:
        written.update(json.dumps(["/".join(write.path.split("/")[::2]), _fields(write)]) for write in writes)
        return commit(store, writes)

    return note


def _fields(write: Write) -> list[str]:
    match write:
        case Put():
            return sorted(write.data)
        case Change():
            return sorted({field[0] for field in write.fields})
    return []


def _listening(answer: Callable[[MemoryStore, Query], Any], made: set[str]) -> Callable[[MemoryStore, Query], Any]:
    def listen(store: MemoryStore, query: Query) -> Any:
        named = [each.field for each in query.where] + [each.field for each in query.order_by]
        made.add(json.dumps([query.collection.rpartition("/")[2], sorted({*map(".".join, named)})]))
        return answer(store, query)

    return listen
