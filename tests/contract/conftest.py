"""All stores; each test has a new, empty one."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Store
from signalbox.testing.memory_store import MemoryStore


@pytest.fixture
def new_firestore(firestore_emulator: str) -> Iterator[Callable[[], FirestoreStore]]:
    """Make empty stores in the emulator, each in a separate project."""
    with ExitStack() as stack:

        def make() -> FirestoreStore:
            store = FirestoreStore(f"demo-{uuid.uuid4().hex}", "(default)", firestore_emulator)
            return stack.enter_context(closing(store))

        yield make


@pytest.fixture
def firestore(new_firestore: Callable[[], FirestoreStore]) -> FirestoreStore:
    return new_firestore()


@pytest.fixture
def memory() -> MemoryStore:
    return MemoryStore(lambda: datetime.now(UTC))


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[SqliteStore]:
    with closing(SqliteStore(tmp_path / "store.sqlite")) as opened:
        yield opened


@pytest.fixture(params=["memory", "sqlite", "firestore"])
def store(request: pytest.FixtureRequest) -> Store:
    chosen: Store = request.getfixturevalue(request.param)
    return chosen
