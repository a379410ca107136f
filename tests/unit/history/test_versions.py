"""The versions of documents: what becomes one, what each of them held, which are kept."""

import json
from collections.abc import Iterator
from datetime import timedelta
from random import Random
from string import printable
from typing import Any
from unittest import mock

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.authors import acting, author_of_user
from signalbox.core.ports import Delete, Ports, Store
from signalbox.core.surface.paging import Listing
from signalbox.core.times import rfc3339
from signalbox.documents.limits import LIMITS
from signalbox.documents.model.stamped_contents import path_of
from signalbox.documents.requests import BulkPutRequest, PatchRequest, PutRequest
from signalbox.documents.service import patches, single_documents, transactions
from signalbox.documents.service.bulk import put_each
from signalbox.documents.service.single_documents import restore
from signalbox.documents.service.transactions import Transaction
from signalbox.documents.storage import embedded_copies, records
from signalbox.documents.storage.records import Found
from signalbox.history import service as history_service
from signalbox.history.model import HISTORY, HistoryRule, version_of
from signalbox.history.requests import Reference
from signalbox.testing.replaced_limits import replaced
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.cost_table import row_cost, total
from tests.unit.documents.documents_front import Front, front, problem

RULES = (
    HistoryRule(prefix="c-", versions_max=100),
    HistoryRule(type="Invoice"),
    HistoryRule(keys=frozenset({"rates", "terms"})),
)


@pytest.fixture
def at() -> Iterator[Front]:
    with front() as found, HISTORY.replaced(RULES):
        yield found


def versions(at: Front, key: str) -> list[dict[str, Any]]:
    """Return a document's versions, the latest first."""
    answer = at.ask("GET", f"/{key}/versions")
    assert answer.status_code == 200
    assert answer.json is not None
    return list(answer.json["versions"])


def held(at: Front, key: str) -> list[Any]:
    """Return the content of each version, oldest first, without the key."""
    shown = []
    for version in reversed(versions(at, key)):
        body = at.ask("GET", f"/{key}/versions/{version['version']}").json
        assert body is not None
        assert {name: body[name] for name in version} == version
        document = body["document"]
        shown.append(document and {name: value for name, value in document.items() if name != "key"})
    return shown


def actions(at: Front, key: str) -> list[str]:
    return [each["action"] for each in reversed(versions(at, key))]


def patch(at: Front, key: str, body: Any, *, write_back: bool = False) -> None:
    patches.patch(at.world.ports, PatchRequest.from_request(key, body, write_back=write_back))


def test_every_change_of_a_user_is_a_version_and_one_that_changes_nothing_is_none(at: Front) -> None:
    at.world.put("c-1", n=1)
    at.world.put("c-1", n=1, l=[1, {"a": 1}])
    at.world.put("c-1", n=1, l=[1, {"a": 1}])
    patch(at, "c-1", {"l": [1, {"a": 2}], "m": None})
    assert held(at, "c-1") == [{"n": 1}, {"n": 1, "l": [1, {"a": 1}]}, {"n": 1, "l": [1, {"a": 2}], "m": None}]
    assert actions(at, "c-1") == ["put", "put", "put"]


def test_documents_are_chosen_by_prefix_by_type_and_by_key(at: Front) -> None:
    at.world.put("other", n=1)
    at.world.put("i", type="Invoice", n=1)
    at.world.put("i", n=2)
    at.world.put("i", n=3)
    at.world.put("rates", n=1)
    assert versions(at, "other") == []
    assert held(at, "i") == [{"type": "Invoice", "n": 1}, {"n": 2}]  # the change of the type is the last one
    assert held(at, "rates") == [{"n": 1}]
    assert "history" not in (at.world.store.read("documents/i")[0].data or {})["_signalbox"]


def test_a_link_is_a_bare_key_and_a_refreshed_copy_no_version(at: Front) -> None:
    """Also of a copy that a transform makes."""
    service.put(at.world.ports, PutTransformRequest.from_request("to", {"made": "#.n"}))
    at.world.put("t", n=1)
    at.world.put("c-1", to={"key": "t"}, l=[{"key": "t"}])
    at.world.settle()
    at.world.put("t", n=2)
    at.world.settle()
    assert at.seen("c-1")["to"] == {"key": "t", "made": 2}
    at.world.put("c-1", to={"key": "t"}, l=[])
    assert held(at, "c-1") == [{"to": {"key": "t"}, "l": [{"key": "t"}]}, {"to": {"key": "t"}, "l": []}]


def test_every_way_to_write_makes_versions(at: Front) -> None:
    bodies = [{"key": "c-1", "n": 1}, {"key": "c-2", "to": {"key": "c-1"}}, {"key": "x"}]
    assert [str(each.outcome) for each in put_each(at.world.ports, BulkPutRequest.from_request(bodies))]
    put_each(at.world.ports, BulkPutRequest.from_request([{"key": "c-1", "n": 2}]))
    at.world.settle()
    patch(at, "c-2", {"to": {"n": 3}, "m": 1}, write_back=True)

    def code(t: Transaction) -> None:
        t.put("c-1", {"n": 4})
        t.delete("c-2")

    transactions.run_transaction(at.world.ports, code, kind=Transaction)
    assert held(at, "c-1") == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    assert held(at, "c-2") == [{"to": {"key": "c-1"}}, {"to": {"key": "c-1"}, "m": 1}, None]
    assert versions(at, "x") == []


def test_a_deletion_is_a_version_and_a_new_document_continues_the_log(at: Front) -> None:
    at.world.put("c-1", n=1)
    single_documents.delete(at.world.ports, "c-1")
    at.world.settle()
    at.world.put("c-1", n=2)
    assert held(at, "c-1") == [{"n": 1}, None, {"n": 2}]
    assert actions(at, "c-1") == ["put", "delete", "put"]


def test_a_write_of_another_client_is_found_by_its_event_or_by_the_next_write(at: Front) -> None:
    at.world.put("c-1", n=1)
    at.world.write_past("c-1", {"n": 2})
    at.world.settle()
    at.world.write_past("c-1", {"n": 3})
    at.world.put("c-1", n=4)
    at.world.settle()
    assert held(at, "c-1") == [{"n": 1}, {"n": 2}, {"n": 3}, {"n": 4}]
    assert actions(at, "c-1") == ["put", "found", "found", "put"]
    assert [each["author"] for each in versions(at, "c-1")][1:3] == ["", ""]


def test_of_two_writes_of_another_client_in_a_row_the_first_is_lost(at: Front) -> None:
    at.world.put("c-1", n=1)
    at.world.write_past("c-1", {"n": 2})
    at.world.write_past("c-1", {"n": 3})
    at.world.settle()
    assert held(at, "c-1") == [{"n": 1}, {"n": 3}]


def test_another_clients_deletion_is_noted_by_its_event_once(at: Front) -> None:
    at.world.put("c-1", n=1)
    at.world.settle()
    at.world.store.commit([Delete(path_of("c-1"))])
    [event] = at.world.events
    at.world.settle()
    at.world.deliver_event(event)
    assert held(at, "c-1") == [{"n": 1}, None]
    assert versions(at, "c-1")[0]["author"] == ""


def test_a_new_document_is_newer_than_what_another_client_deleted_while_it_was_put(at: Front) -> None:
    def meanwhile(store: Store, found: Found, content: Any) -> Any:
        overtaken.stop()
        for n in (1, 2):
            at.world.pass_time(1)
            at.ask("PUT", "/c-1", {"n": n})
        at.world.store.commit([Delete(path_of("c-1"))])
        return records.log_header(store, found, content)

    overtaken = mock.patch.object(embedded_copies, "log_header", meanwhile)
    overtaken.start()
    assert at.ask("PUT", "/c-1", {"n": 3}).status_code == 201
    assert held(at, "c-1") == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_content_from_before_the_history_was_on_becomes_a_version(at: Front) -> None:
    with HISTORY.replaced([]):
        at.world.put("c-1", n=1)
    at.world.put("c-1", n=2)
    assert held(at, "c-1") == [{"n": 1}, {"n": 2}]
    assert actions(at, "c-1") == ["found", "put"]


def test_a_version_is_read_by_any_time_at_which_the_document_held_it(at: Front) -> None:
    at.world.put("c-1", n=1)
    at.world.pass_time(10)
    between = at.world.now
    at.world.pass_time(10)
    at.world.put("c-1", n=2)
    at.world.pass_time(10)
    body = at.ask("GET", f"/c-1/versions/{rfc3339(between)}").json
    assert body is not None
    assert body["document"] == {"key": "c-1", "n": 1}
    [latest, first] = versions(at, "c-1")
    assert at.ask("GET", f"/c-1/versions/{rfc3339(at.world.now)}").json == {
        **latest,
        "document": {"key": "c-1", "n": 2},
    }
    assert at.ask("GET", f"/c-1/versions/{first['at']}").json == {**first, "document": {"key": "c-1", "n": 1}}
    assert problem(at.ask("GET", "/c-1/versions/1999-01-01T00:00:00Z")) == (404, "not-found", "version")


def test_versions_are_listed_with_author_and_time_in_pages(at: Front) -> None:
    with acting(author_of_user("ann")):
        at.world.put("c-1", n=1)
    at.ask("PUT", "/c-1", {"n": 2})
    first = at.ask("GET", "/c-1/versions?limit=1").json
    assert first is not None
    [latest] = first["versions"]
    assert (latest["author"], latest["action"]) == ("function:documents", "put")
    rest = at.ask("GET", f"/c-1/versions?limit=1&page_token={first['next_page_token']}").json
    assert rest is not None
    assert rest["versions"][0]["author"] == "user:ann"
    assert problem(at.ask("GET", f"/c-2/versions?page_token={first['next_page_token']}"))[:2] == (400, "bad-query")


def test_two_versions_are_compared_as_a_json_patch(at: Front) -> None:
    at.world.put("c-1", n=1, l=[1, 2])
    at.world.put("c-1", n=2, l=[1])
    single_documents.delete(at.world.ports, "c-1")
    gone, second, first = (each["version"] for each in versions(at, "c-1"))
    answer = at.ask("GET", f"/c-1/versions/{first}/changes?to={second}").json
    wanted = [{"op": "remove", "path": "/l/1"}, {"op": "replace", "path": "/n", "value": 2}]
    assert answer == {"from": first, "to": second, "patch": wanted}
    to_latest = at.ask("GET", f"/c-1/versions/{first}/changes").json
    assert to_latest == {"from": first, "to": gone, "patch": [{"op": "remove", "path": ""}]}
    back = at.ask("GET", f"/c-1/versions/{gone}/changes?to={second}").json
    assert back is not None
    assert back["patch"] == [{"op": "add", "path": "", "value": {"n": 2, "l": [1]}}]


def test_a_version_is_restored_as_a_new_one_under_a_precondition(at: Front) -> None:
    at.world.put("t", n=1)
    at.world.put("c-1", n=1, to={"key": "t"})
    at.world.put("c-1", n=2)
    first = versions(at, "c-1")[-1]["version"]
    tag = at.client.get("/c-1").headers["ETag"]
    at.world.put("c-1", n=3)
    assert problem(at.ask("POST", f"/c-1/versions/{first}/restore", If_Match=tag)) == (412, "precondition-failed", None)
    tag = at.client.get("/c-1").headers["ETag"]
    answer = at.ask("POST", f"/c-1/versions/{first}/restore", If_Match=tag)
    assert (answer.status_code, answer.json) == (200, {"key": "c-1", "n": 1, "to": {"key": "t", "n": 1}})
    assert actions(at, "c-1") == ["put", "put", "put", "restore"]
    single_documents.delete(at.world.ports, "c-1")
    gone = versions(at, "c-1")[0]["version"]
    assert problem(at.ask("POST", f"/c-1/versions/{gone}/restore")) == (404, "not-found", "version")
    assert at.ask("POST", f"/c-1/versions/{first}/restore").status_code == 201
    assert at.seen("c-1")["n"] == 1


@pytest.mark.parametrize(
    "version", ["x", "-1", "1.5", "2026-01-01", "2026-01-01T00:00:00", "9" * 18, "0001-01-01T00:00:00+14:00"]
)
def test_an_invalid_version_is_refused(at: Front, version: str) -> None:
    assert problem(at.ask("GET", f"/c-1/versions/{version}")) == (400, "bad-version", "version")
    assert problem(at.ask("GET", f"/c-1/versions/1/changes?to={version}".replace("+", "%2B")))[:2] == (
        400,
        "bad-version",
    )


def test_a_version_that_is_not_there_is_404(at: Front) -> None:
    at.world.put("c-1", n=1)
    assert problem(at.ask("GET", "/c-1/versions/1")) == (404, "not-found", "version")
    assert problem(at.ask("POST", "/c-1/versions/1/restore")) == (404, "not-found", "version")


def test_a_log_is_shortened_by_segments_and_what_stays_can_be_read(at: Front) -> None:
    rule = HistoryRule(prefix="c-", versions_max=5)
    with replaced(history_segment_versions=4), HISTORY.replaced([rule]):
        for n in range(30):
            at.world.put("c-1", n=n, text="as long as it takes for a patch to be shorter")
            at.world.settle()
            kept = [each["n"] for each in held(at, "c-1")]
            assert kept == list(range(n + 1))[-len(kept) :]
            assert len(kept) >= min(n + 1, 5)
            assert len(kept) <= 5 + 4


def test_a_log_is_shortened_by_age_and_keeps_what_was_valid_then(at: Front) -> None:
    rule = HistoryRule(prefix="c-", days_max=10)
    with HISTORY.replaced([rule]):
        for n in range(3):
            at.world.put("c-1", n=n)
            at.world.settle()
        at.world.pass_time(timedelta(days=40).total_seconds())
        for n in range(3, 5):
            at.world.put("c-1", n=n)
            at.world.settle()
        moment = at.world.now - timedelta(days=9)
        assert [each["n"] for each in held(at, "c-1")] == [0, 1, 2, 3, 4]
        body = at.ask("GET", f"/c-1/versions/{rfc3339(moment)}").json
        assert body is not None
        assert body["document"] == {"key": "c-1", "n": 2}
        at.world.pass_time(timedelta(days=11).total_seconds())
        at.world.put("c-1", n=5)
        at.world.settle()
        assert [each["n"] for each in held(at, "c-1")] == [3, 4, 5]


def test_the_log_of_a_document_that_was_recreated_many_times_is_shortened_too(at: Front) -> None:
    with replaced(history_segment_versions=4), HISTORY.replaced([HistoryRule(prefix="c-", versions_max=5)]):
        for n in range(20):
            at.world.put("c-1", n=n)
            single_documents.delete(at.world.ports, "c-1")
            at.world.settle()
            assert min(2 * n + 2, 5) <= len(versions(at, "c-1")) <= 9
        assert held(at, "c-1")[-2:] == [{"n": 19}, None]


def incompressible(seed: int, letters: int = 990_000) -> str:
    """Return a text of nearly all the bytes that a document may have, which hardly compresses."""
    return "".join(Random(seed).choices(printable[:94], k=letters))


def test_a_document_that_fits_can_be_put_patched_and_deleted_with_a_history(at: Front) -> None:
    with HISTORY.replaced(RULES[:1]):
        for number in range(2):
            at.world.put("c-1", text=incompressible(number))
        patches.patch(at.world.ports, PatchRequest.from_request("c-1", {"n": 1}))
        single_documents.delete(at.world.ports, "c-1")
        at.world.settle()
        first, second = ({"text": incompressible(number)} for number in range(2))
        assert held(at, "c-1") == [first, second, {**second, "n": 1}, None]
        history_service.forget(at.world.ports, "c-1")
        assert all(at.world.ids(f"histories/c-1/versions/{n}/versions") == [] for n in at.world.ids("histories"))
        assert versions(at, "c-1") == []


def test_a_large_document_that_the_log_lacks_can_be_deleted(at: Front) -> None:
    at.world.write_past("c-1", {"text": incompressible(1)})
    single_documents.delete(at.world.ports, "c-1")
    assert held(at, "c-1") == [{"text": incompressible(1)}, None]


def test_a_log_is_shortened_from_its_oldest_version(at: Front) -> None:
    for number in range(6):
        at.world.put("c-1", n=number)
    latest = versions(at, "c-1")[1]["version"]
    deleted: list[int] = []
    commit = at.world.store.commit

    def note(writes: Any) -> Any:
        deleted.extend(version_of(write.path.rpartition("/")[2]) for write in writes)
        return commit(writes)

    with replaced(history_delete_page=1), mock.patch.object(at.world.store, "commit", note):
        history_service.delete_before(Ports(at.world.store, at.world, at.world, at.world), "c-1", latest)
    assert deleted == sorted(deleted)
    assert len(deleted) == 4


def test_a_long_version_is_stored_compressed(at: Front) -> None:
    text = "abc" * 100_000
    at.world.put("c-1", text=text)
    [entry] = at.world.ids("histories/c-1/versions")
    [read] = at.world.store.read(f"histories/c-1/versions/{entry}")
    assert read.data is not None
    assert read.data["packed"] is True
    assert len(read.data["patch"]) < 10_000
    assert held(at, "c-1") == [{"text": text}]
    at.world.put("c-1", text=text, n=1)
    [latest, _] = at.world.ids("histories/c-1/versions")
    [read] = at.world.store.read(f"histories/c-1/versions/{latest}")
    assert read.data is not None
    assert json.loads(read.data["patch"]) == [{"op": "add", "path": "/n", "value": 1}]


def test_a_history_is_forgotten_and_begins_again(at: Front) -> None:
    at.world.put("c-1", n=1)
    assert at.ask("DELETE", "/c-1/versions").status_code == 204
    assert versions(at, "c-1") == []
    at.world.put("c-1", n=2)
    assert at.seen("c-1") == {"key": "c-1", "n": 2}


# --- what it costs ---


def cost(at: Front, call: Any) -> Cost:
    return at.world.cost_of(call)


def test_a_change_with_a_history_costs_one_write_more(at: Front) -> None:
    def put(key: str, n: int) -> Cost:
        return cost(at, lambda: single_documents.put(at.world.ports, PutRequest.from_request(key, {"n": n})))

    assert put("plain", 1) == row_cost("documents", "put")
    assert put("c-1", 1) == total(row_cost("documents", "put"), row_cost("history", "creation"))
    assert put("c-1", 2) == total(row_cost("documents", "put"), row_cost("history", "change"))
    assert put("c-1", 2) == Cost(round_trips=2, reads=1, writes=1)
    merge = PatchRequest.from_request("c-1", {"m": 1})
    assert cost(at, lambda: patches.patch(at.world.ports, merge)) == Cost(round_trips=2, reads=1, writes=2)


def test_every_32nd_change_commits_the_task_that_shortens_the_log(at: Front) -> None:
    with replaced(history_segment_versions=4), HISTORY.replaced([HistoryRule(prefix="c-", versions_max=4)]):
        costs = []
        for n in range(9):
            costs.append(cost(at, lambda n=n: at.world.put("c-1", n=n)))
            at.world.events.clear()
        one = total(row_cost("documents", "put"), row_cost("history", "change"))
        more = total(row_cost("documents", "put"), row_cost("history", "compaction"))
        assert costs == [total(row_cost("documents", "put"), row_cost("history", "creation")), *[one] * 7, more]
        assert at.world.work() == row_cost("history", "compaction_task", v=4)


def test_reading_a_version_costs_a_read_for_each_one_since_the_last_whole_one(at: Front) -> None:
    for n in range(3):
        at.world.put("c-1", n=n, text="as long as it takes for a patch to be shorter")
    last, _, first = (each["version"] for each in versions(at, "c-1"))
    ports = at.world.ports
    assert cost(at, lambda: history_service.read_version(ports, "c-1", Reference(first))) == row_cost(
        "history", "version", v=0
    )
    assert cost(at, lambda: history_service.read_version(ports, "c-1", Reference(last))) == row_cost(
        "history", "version", v=2
    )
    listing = Listing.from_request({}, "", LIMITS.versions_listed_max)
    assert cost(at, lambda: history_service.find_versions(ports, "c-1", listing)) == row_cost(
        "history", "versions", v=3
    )
    assert cost(at, lambda: restore(ports, "c-1", Reference(first))) == row_cost("history", "restore")


def test_a_deletion_reads_first_only_where_a_history_may_be(at: Front) -> None:
    with HISTORY.replaced([HistoryRule(prefix="c-")]):
        at.world.put("plain", n=1)
        at.world.put("c-1", n=1)
        at.world.events.clear()
        assert cost(at, lambda: single_documents.delete(at.world.ports, "plain")) == row_cost("documents", "delete")
        deleted = cost(at, lambda: single_documents.delete(at.world.ports, "c-1"))
        assert deleted == row_cost("history", "deletion")
        at.world.events.pop(0)
        assert at.world.deliver() == row_cost("history", "deletion_event")
        assert (at.world.events, at.world.tasks) == ([], [])


def test_a_deletion_reads_first_wherever_a_type_has_a_history(at: Front) -> None:
    at.world.put("plain", n=1)
    assert cost(at, lambda: single_documents.delete(at.world.ports, "plain")) == row_cost("history", "deletion_typed")


def test_documents_of_a_bulk_put_with_a_history_are_put_one_by_one(at: Front) -> None:
    bodies = [{"key": f"{kind}{number}", "n": 1} for number in range(10) for kind in ("c-", "plain")]

    def put() -> None:
        put_each(at.world.ports, BulkPutRequest.from_request(bodies))

    together = Cost(round_trips=2, reads=20, writes=10)
    assert cost(at, put) == total(together, *[row_cost("history", "bulk")] * 10)
