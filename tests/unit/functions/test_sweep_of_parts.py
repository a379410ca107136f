"""The sweeper visits the records of the parts of the kit that are deployed, and no others."""

from pathlib import Path

import pytest

from signalbox.catalogue.project import Project
from signalbox.core.ports import Query
from signalbox.testing import Harness
from signalbox.testing.memory_store import MemoryStore
from signalbox_tools.setup import new_function_templates


@pytest.fixture
def queried(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the collections that are queried from now on."""
    found: set[str] = set()
    query = MemoryStore.query

    def noted(store: MemoryStore, asked: Query) -> object:
        found.add(asked.collection)
        return query(store, asked)

    monkeypatch.setattr(MemoryStore, "query", noted)
    return found


@pytest.mark.parametrize(
    ("api", "swept"),
    [
        ("[]", {"flows", "outbox"}),
        ("[semaphores]", {"critical_sections", "flows", "outbox", "rates", "semaphores"}),
    ],
)
def test_only_the_parts_that_are_deployed_are_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queried: set[str], api: str, swept: set[str]
) -> None:
    for file, text in new_function_templates.files("orders", Project(tmp_path, own=True)).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "signalbox.yaml").write_text(f"api: {api}\nfunctions: {{orders: {{}}}}\n")
    monkeypatch.chdir(tmp_path)
    with Harness() as harness:
        harness.post("orders/a")
        harness.run()
        queried.clear()
        harness.run_schedule("sweep")
    assert queried == swept
