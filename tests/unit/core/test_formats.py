"""What a newer release wrote is refused as transient, before other code sees it; what is a user's is never refused."""

import json
from datetime import UTC, datetime
from typing import Any

import flask
import pytest

from signalbox.adapters.http.responses import unavailable_response
from signalbox.core.effects import Effect, TaskEnvelope
from signalbox.core.ports import Put, Query
from signalbox.core.problems import NewerFormat
from signalbox.core.records.formats import OPEN_RECORDS, READS, check_known
from signalbox.documents.model.stamped_contents import COLLECTION, METADATA_FIELDS, RESERVED
from signalbox.standings.model.yokes import YOKES
from signalbox.testing.memory_store import MemoryStore

NEWER = READS + 1


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(lambda: datetime.now(UTC))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("semaphores/s", {"format": NEWER}),
        ("semaphores/s/waiters/w", {"format": NEWER}),
        ("documents/d", {"n": 1, RESERVED: {"format": NEWER}}),
        ("transforms/t", {"format": NEWER}),
    ],
)
def test_a_record_of_a_newer_format_is_not_read(store: MemoryStore, path: str, data: dict[str, Any]) -> None:
    store.commit([Put(path, data)])
    with pytest.raises(NewerFormat, match=rf"wrote {path}, in format {NEWER}; .* reads formats up to {READS}\. Deploy"):
        store.read(path)
    with pytest.raises(NewerFormat):
        store.query(Query(path.rpartition("/")[0]))


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("semaphores/s", {"permits": 1}),
        ("semaphores/s", {"format": READS}),
        ("documents/d", {"format": NEWER}),
        ("documents/d", {"format": "pdf", RESERVED: {"version": 1}}),
        ("documents/d", {"format": NEWER, RESERVED: "another client's"}),
        ("yokes/a~b", {"format": NEWER}),
    ],
)
def test_formats_of_this_release_and_fields_of_users_are_read(
    store: MemoryStore, path: str, data: dict[str, Any]
) -> None:
    store.commit([Put(path, data)])
    assert [store.read(path)[0].data, store.query(Query(path.rpartition("/")[0]))[0].data] == [data, data]


def test_a_put_that_reads_the_metadata_alone_sees_the_format_of_a_document(store: MemoryStore) -> None:
    store.commit([Put("documents/d", {RESERVED: {"format": NEWER}})])
    with pytest.raises(NewerFormat):
        store.read("documents/d", fields=METADATA_FIELDS)


def test_the_records_that_other_clients_write_are_the_documents_and_the_yokes() -> None:
    assert OPEN_RECORDS == {COLLECTION: RESERVED, YOKES: None}


def test_a_task_of_a_newer_format_is_retried() -> None:
    effect = Effect("n", "tasks", "kitchen", "cook", {"format": NEWER}, context={"lease": {}})
    assert TaskEnvelope.from_json(TaskEnvelope.of(effect).to_json()).payload == {"format": NEWER}
    newer = Effect("n", "tasks", "kitchen", "cook", {}, context={"lease": {}, "format": NEWER})
    with pytest.raises(NewerFormat, match=rf"wrote the task cook, in format {NEWER}"):
        TaskEnvelope.from_json(TaskEnvelope.of(newer).to_json())


def test_a_task_that_only_a_newer_release_has_is_retried() -> None:
    check_known("batch_expand", "expand", ("expand",))
    with pytest.raises(NewerFormat, match=r"^batch_expand has no task 'grow'\. If a newer release .* deploy that"):
        check_known("batch_expand", "grow", ("expand",))


def test_the_answer_names_the_record_and_what_to_do() -> None:
    with flask.Flask("test").test_request_context():
        answer = unavailable_response(NewerFormat("A newer release wrote it. Deploy that one."))
    body = json.loads(answer.get_data())
    assert (answer.status_code, body["detail"]) == (503, "A newer release wrote it. Deploy that one.")
    assert answer.headers["Retry-After"] == "30"
