"""A pytest plugin: write down which fields of which collections the tests' queries name.

One line of JSON a query, into the file that ``QUERIES_MADE`` names: the collection and the fields.
"""

import json
import os
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from shared.core.operations.ports import Query
from shared.testing.memory_store import MemoryStore


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop() -> Generator[None, object, object]:
    """Listen while the tests run."""
    made: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("query", "count"):
            patch.setattr(MemoryStore, name, _listening(getattr(MemoryStore, name), made))
        ended = yield
    Path(os.environ["QUERIES_MADE"]).write_text("\n".join(sorted(made)), "utf-8")
    return ended


def _listening(answer: Callable[[MemoryStore, Query], Any], made: set[str]) -> Callable[[MemoryStore, Query], Any]:
    def listen(store: MemoryStore, query: Query) -> Any:
        named = [each.field for each in query.where] + [each.field for each in query.order_by]
        made.add(json.dumps([query.collection.rpartition("/")[2], sorted({*map(".".join, named)})]))
        return answer(store, query)

    return listen
