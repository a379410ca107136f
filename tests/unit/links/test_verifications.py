"""A verification finds and repairs what no event will repair any more, counts it, and writes nothing else."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from functions_framework import create_app

from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import Cost
from signalbox.core.ports import REMOVE, Change
from signalbox.core.problems import BadValue, NotFound, Unavailable
from signalbox.core.records.queries import Field
from signalbox.documents.model.contents import digest_of
from signalbox.documents.model.stamped_contents import RESERVED, path_of
from signalbox.documents.service import single_documents
from signalbox.links import tasks
from signalbox.links.limits import LIMITS
from signalbox.links.service import verifications
from signalbox.links.shown import VerificationShown
from tests.unit.cost_table import is_within, row_cost
from tests.unit.operations_platform import OperationsPlatform


@pytest.fixture
def embedding() -> OperationsPlatform:
    """A world at rest for a while, in which `p` and `q` embed `t`, `p` embeds a missing document, and `u` has no
    links.
    """
    world = OperationsPlatform()
    world.put("t", n=1)
    world.put("p", a={"key": "t"}, l=[{"key": "nobody"}])
    world.put("q", a={"key": "t"})
    world.put("u", n=1)
    world.settle()
    world.pass_time(LIMITS.verify_moving_seconds + 1)
    return world


def lose_events(world: OperationsPlatform) -> None:
    """Drop the events so far, and let enough time pass that their writes are not recent."""
    world.events.clear()
    world.pass_time(LIMITS.verify_moving_seconds + 1)


def walked(world: OperationsPlatform, operation: str = "test") -> dict[str, Any]:
    """Run a walk to its end; return its report without its times."""
    run = verifications.begin(world.ports, operation).run
    world.settle()
    report: dict[str, Any] = asdict(VerificationShown.of(verifications.get(world.ports, run)))
    assert report.pop("begun_at") <= report.pop("ended_at")
    return report | {"run": ""}


def report(**found: int) -> dict[str, Any]:
    return {"run": "", "state": "ended", "part": None, "drifted": 0, "moving": 0, "refused": 0, "repaired": 0, **found}


def forge(world: OperationsPlatform, key: str, **changes: Any) -> None:
    """Alter a document's content behind the kit's back, with a stamp that says it is the kit's own."""
    record = world.record(path_of(key))
    content = {name: value for name, value in (record | changes).items() if name != RESERVED}
    stamp = record[RESERVED] | {"digest": digest_of(content)}
    world.write_past(key, {**content, RESERVED: stamp})


def test_a_walk_over_what_is_true_finds_and_writes_nothing(embedding: OperationsPlatform) -> None:
    before = {key: embedding.store.read(path_of(key))[0].update_time for key in "tpqu"}
    assert walked(embedding) == report(pages=1, looked=4)
    assert {key: embedding.store.read(path_of(key))[0].update_time for key in "tpqu"} == before


def test_a_copy_that_was_altered_under_a_right_stamp_is_repaired(embedding: OperationsPlatform) -> None:
    forge(embedding, "p", a={"key": "t", "n": 7})
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=4, drifted=1, repaired=1)
    assert embedding.shown("p")["a"] == {"key": "t", "n": 1}
    assert embedding.record("documents/p")[RESERVED]["linked"] is False


def test_a_change_and_a_deletion_whose_events_were_lost_reach_all_copies(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=4, drifted=2, repaired=2)
    assert (embedding.shown("p")["a"], embedding.shown("q")["a"]) == ({"key": "t", "n": 2},) * 2
    single_documents.delete(embedding.ports, "t")
    lose_events(embedding)
    # the third: there was no note yet that a document embeds the missing one
    assert walked(embedding, "again") == report(pages=1, looked=3, drifted=3, repaired=3)
    assert embedding.shown("q")["a"] == {"key": "t", "link_missing": True}


def test_a_repair_refreshes_the_copies_of_the_repaired_document(embedding: OperationsPlatform) -> None:
    embedding.put("a", q={"key": "q"})
    embedding.settle()
    embedding.put("t", n=2)
    lose_events(embedding)
    walked(embedding)
    assert embedding.shown("a")["q"] == {"key": "q", "a": {"key": "t", "n": 2}}


def test_an_unmarked_target_is_marked_and_its_next_change_is_copied(embedding: OperationsPlatform) -> None:
    embedding.store.commit([Change("documents/t", {(RESERVED, "linked"): False})])
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=4, drifted=1, repaired=1)
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p")["a"] == {"key": "t", "n": 2}


def test_a_missing_target_without_its_note_gets_one(embedding: OperationsPlatform) -> None:
    embedding.put("r", a={"key": "later"})
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=5, drifted=1, repaired=1)
    embedding.put("later", n=1)
    embedding.settle()
    assert embedding.shown("r")["a"] == {"key": "later", "n": 1}


@pytest.mark.parametrize("field", ["link_keys", "link_fields"])
def test_a_record_without_its_link_keys_is_rewritten(embedding: OperationsPlatform, field: str) -> None:
    whole = embedding.record("documents/p")[RESERVED][field]
    embedding.store.commit([Change("documents/p", {(RESERVED, field): REMOVE})])
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=4, drifted=1, repaired=1)
    assert embedding.record("documents/p")[RESERVED][field] == whole
    embedding.put("t", n=2)
    embedding.settle()
    assert embedding.shown("p")["a"] == {"key": "t", "n": 2}


def test_a_write_of_another_client_whose_event_was_lost_is_normalized(embedding: OperationsPlatform) -> None:
    embedding.write_past("new", {"a": {"key": "t"}})
    embedding.write_past("t", {"n": 5})
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=5, drifted=4, repaired=4)
    assert [embedding.shown(key)["a"] for key in ("new", "p", "q")] == [{"key": "t", "n": 5}] * 3
    embedding.put("t", n=6)
    embedding.settle()
    assert embedding.shown("new")["a"] == {"key": "t", "n": 6}


def test_what_no_put_would_take_is_reported_left_and_counted(embedding: OperationsPlatform) -> None:
    embedding.write_past("new", {"l": [{"key": "t"}] * 501})
    lose_events(embedding)
    assert walked(embedding) == report(pages=1, looked=5, drifted=1, refused=1)
    assert embedding.record("documents/new") == {"l": [{"key": "t"}] * 501}
    assert [message for message, _ in embedding.reported] == ["document normalization rejected", "copies had drifted"]


def test_a_recent_write_is_repaired_but_not_counted_as_drift(embedding: OperationsPlatform) -> None:
    embedding.put("t", n=2)
    embedding.events.clear()
    assert walked(embedding) == report(pages=1, looked=4, moving=2, repaired=2)
    assert embedding.shown("p")["a"] == {"key": "t", "n": 2}


def test_pages_follow_each_other_and_each_reports_its_findings(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 2)
    embedding.put("t", n=2)
    lose_events(embedding)
    embedding.told.clear()
    assert walked(embedding) == report(pages=3, looked=4, drifted=2, repaired=2)
    assert embedding.told == [
        ("documents verified", {"looked": 2, "moving": 0, "drifted": ["p", "q"], "refused": []}),
        ("documents verified", {"looked": 2, "moving": 0, "drifted": [], "refused": []}),
        ("documents verified", {"looked": 0, "moving": 0, "drifted": [], "refused": []}),
    ]


def test_a_redelivered_page_is_counted_once(embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 2)
    run = verifications.begin(embedding.ports, "test").run
    first = embedding.tasks[0].payload
    for _ in range(3):
        tasks.verify(embedding.ports, first)
    assert (verifications.get(embedding.ports, run).found.looked, len(embedding.tasks)) == (2, 2)
    embedding.settle()
    tasks.verify(embedding.ports, first)
    assert (verifications.get(embedding.ports, run).found.looked, embedding.tasks) == (4, [])


def test_one_walk_runs_at_a_time_and_an_operation_begins_one(embedding: OperationsPlatform) -> None:
    first = verifications.begin(embedding.ports, "night 1")
    assert verifications.begin(embedding.ports, "night 1") == first
    assert verifications.begin(embedding.ports, "by hand") == first
    assert len(embedding.tasks) == 1
    embedding.settle()
    assert verifications.begin(embedding.ports, "night 1").ended_at
    second = verifications.begin(embedding.ports, "night 2")
    assert second.ended_at is None
    assert [each.run for each in verifications.newest(embedding.ports)] == [second.run, first.run]
    assert second.run != first.run


def test_an_abandoned_walk_does_not_keep_another_from_beginning(embedding: OperationsPlatform) -> None:
    first = verifications.begin(embedding.ports, "night 1")
    embedding.tasks.clear()
    embedding.pass_time(LIMITS.verify_abandoned_seconds)
    assert verifications.begin(embedding.ports, "night 2").run != first.run


def test_a_walk_that_begins_while_another_does_is_unavailable(embedding: OperationsPlatform) -> None:
    class Overtaken:
        """Another walk begins between the two reads of a beginning."""

        def __init__(self) -> None:
            self.store, self.reads = embedding.store, 0
            self.query, self.count, self.commit = self.store.query, self.store.count, self.store.commit
            self.write_each, self.new_id = self.store.write_each, self.store.new_id
            self.read_some = self.store.read_some

        def read(self, *paths: str, fields: Sequence[Field] | None = None) -> Any:
            self.reads += 1
            if self.reads == 2:
                verifications.begin(embedding.ports, "other")
            return self.store.read(*paths, fields=fields)

    with pytest.raises(Unavailable):
        verifications.begin(replace(embedding.ports, store=Overtaken()), "test")
    assert len(embedding.tasks) == 1


def test_an_unknown_walk_is_not_found_and_an_invalid_payload_is_refused(embedding: OperationsPlatform) -> None:
    with pytest.raises(NotFound):
        verifications.get(embedding.ports, "nothing")
    with pytest.raises(BadValue):
        tasks.verify(embedding.ports, {"cursor": ""})
    tasks.verify(embedding.ports, {"run": "gone", "cursor": ""})
    assert embedding.told == []


def test_a_walk_costs_a_read_a_document_one_a_target_and_little_a_page(embedding: OperationsPlatform) -> None:
    for number in range(26):
        embedding.put(f"d{number:02}", a={"key": "t"})
    embedding.settle()
    nightly(embedding, 0)
    begun = embedding.cost_of(lambda: verifications.begin(embedding.ports, "night 1", nightly=True))
    assert begun == row_cost("verifications", "begin")
    targets, notes, transforms, own = 2, 1, 2, 2
    page = embedding.work()
    assert page == Cost(round_trips=7, reads=30 + targets + notes + transforms + own, writes=1)
    assert embedding.tasks == []


def test_a_page_of_documents_without_links_costs_a_read_of_each() -> None:
    world = OperationsPlatform()
    for number in range(20):
        world.put(f"d{number:02}", n=1)
    world.settle()
    verifications.begin(world.ports, "test")
    assert world.work() == row_cost("verifications", "page", n=20)


@pytest.mark.parametrize("linked", [False, True])
def test_a_document_of_a_long_walk_costs_a_read_and_one_of_its_target(linked: bool) -> None:
    world = OperationsPlatform()
    for number in range(300):
        world.put(f"t{number:03}", n=1)
        world.put(f"a{number:03}", **({"l": {"key": f"t{number:03}"}} if linked else {"n": 1}))
    world.settle()
    verifications.begin(world.ports, "test")
    first, second = world.work(), world.work()
    if linked:
        assert is_within("verifications", "verified_copy", first, 300)
    else:
        assert is_within("verifications", "verified", first, 300)
    assert is_within("verifications", "verified", second, 300)


def test_nightly_verifications_compare_all_documents_in_seven_parts(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 2)
    monkeypatch.setattr(LIMITS, "verify_part_documents_min", 3)
    for number in range(24):
        embedding.put(f"a{number:02}", n=1)
    embedding.settle()
    nights = [nightly(embedding, night) for night in range(10)]
    assert [(each["part"], each["looked"]) for each in nights] == [
        (None, 28),  # counts them
        *[(part, 4) for part in range(1, 8)],
        (1, 4),
        (2, 4),
    ]


def test_the_seventh_part_has_no_bound_so_that_documents_added_meanwhile_delay_none(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 1)
    monkeypatch.setattr(LIMITS, "verify_part_documents_min", 1)
    nightly(embedding, 0)
    for number in range(20):
        embedding.put(f"z{number:02}", n=1)
    embedding.settle()
    looked = [nightly(embedding, night)["looked"] for night in range(1, 8)]
    assert looked == [1] * 6 + [18]


def test_a_small_database_is_compared_each_night_and_by_hand_always_all_of_it(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [nightly(embedding, night)["looked"] for night in range(3)] == [4, 4, 4]
    monkeypatch.setattr(LIMITS, "verify_part_documents_min", 1)
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 1)
    assert nightly(embedding, 3)["looked"] == 1
    assert walked(embedding, "by hand") == report(pages=5, looked=4)
    assert nightly(embedding, 4)["part"] == 2


def test_an_abandoned_part_is_continued_where_it_ended(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 1)
    verifications.begin(embedding.ports, "night 0", nightly=True)
    embedding.work()
    embedding.tasks.clear()
    embedding.pass_time(LIMITS.verify_abandoned_seconds + 1)
    assert nightly(embedding, 1)["looked"] == 3


def nightly(world: OperationsPlatform, night: int) -> dict[str, Any]:
    """Run a nightly verification to its end; return its report."""
    run = verifications.begin(world.ports, f"night {night}", nightly=True).run
    world.settle()
    return asdict(VerificationShown.of(verifications.get(world.ports, run)))


def test_a_walk_that_found_drift_ends_with_one_error_line(
    embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "verify_page_documents_max", 2)
    embedding.put("t", n=2)
    lose_events(embedding)
    walked(embedding)
    [(message, values)] = embedding.reported
    assert (message, values["drifted"], values["refused"]) == ("copies had drifted", 2, 0)
    walked(embedding, "again")
    assert len(embedding.reported) == 1


MAIN = Path(__file__).parents[3] / "functions" / "verifications" / "main.py"


@pytest.fixture
def client(embedding: OperationsPlatform, monkeypatch: pytest.MonkeyPatch) -> Iterator[FlaskClient]:
    monkeypatch.setenv("FUNCTION_TARGET", "verifications")
    monkeypatch.setenv("FUNCTION_SIGNATURE_TYPE", "http")
    monkeypatch.delitem(sys.modules, "main", raising=False)
    runtime.bind(embedding.ports)
    yield create_app("verifications", str(MAIN), "http").test_client()
    runtime.bind(None)


def test_a_scheduled_call_that_is_repeated_begins_one_walk(client: FlaskClient, embedding: OperationsPlatform) -> None:
    tonight = {"X-CloudScheduler-ScheduleTime": "2026-01-01T03:17:00Z"}
    first = client.post("/", headers=tonight)
    embedding.settle()
    again = client.post("/", headers=tonight)
    tomorrow = client.post("/", headers={"X-CloudScheduler-ScheduleTime": "2026-01-02T03:17:00Z"})
    runs = [answer.get_json()["run"] for answer in (first, again, tomorrow)]
    assert [first.status_code, again.status_code, tomorrow.status_code] == [202] * 3
    assert (runs[0] == runs[1], runs[1] == runs[2]) == (True, False)


def test_a_caller_begins_a_walk_and_reads_its_report(client: FlaskClient, embedding: OperationsPlatform) -> None:
    begun = client.post("/").get_json()
    assert begun == {
        "run": begun["run"],
        "state": "running",
        "begun_at": begun["begun_at"],
        "pages": 0,
        "looked": 0,
        "drifted": 0,
        "moving": 0,
        "refused": 0,
        "repaired": 0,
    }
    embedding.settle()
    ended = client.get(f"/{begun['run']}").get_json()
    assert ended.pop("ended_at") > begun["begun_at"]
    assert ended == begun | {"state": "ended", "pages": 1, "looked": 4}
    assert [each["run"] for each in client.get("/").get_json()["verifications"]] == [begun["run"]]
    assert client.get("/nothing").status_code == 404


@pytest.mark.parametrize(("method", "path"), [("POST", "/?now=1"), ("GET", "/?now=1"), ("GET", "/run?now=1")])
def test_an_unknown_query_parameter_is_refused_by_its_name(client: FlaskClient, method: str, path: str) -> None:
    answer = client.open(path, method=method)
    assert (answer.status_code, json.loads(answer.data)["field"]) == (400, "now")
