"""Lists of runs by the time of their start, the newest first: filters, pages, counts and the indexes that they need."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest

from signalbox import Function, flow, flows
from signalbox.adapters import runtime
from signalbox.core.query_checks import full_order
from signalbox.core.records.composite_indexes import lacking
from signalbox.flows.problems import BadFlow
from signalbox.flows.service import lists
from signalbox.flows.storage.listings import INDEXES
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.indexed_store import IndexedStore
from signalbox.testing.replaced_limits import replaced

app = Function("shop")


@app.flow
async def order() -> None:
    await flow.event("paid")


@app.flow
async def order2() -> None:
    await flow.event("paid")


@pytest.fixture
def starts(harness: Harness) -> list[datetime]:
    """Start z, y, x, w an hour apart, x and w with a label, and end y; return the times between the starts."""
    harness.add(app)
    harness.ports = replace(harness.ports, store=IndexedStore(harness.ports.store, INDEXES))
    runtime.bind(harness.ports)
    times = []
    for id_ in "zyxw":
        harness.travel(1_800)
        times.append(harness.clock.now)
        harness.travel(1_800)
        order.with_(labels={"tenant": "a"} if id_ in "xw" else {}).start(id_)
        order2.start(id_)
    flows("order", "y").event("paid")
    harness.run()
    return times


def listed(harness: Harness, **query: Any) -> list[str]:
    asked = "&".join(f"{name}={quote(str(value))}" for name, value in query.items())
    return [run["id"] for run in harness.get(f"shop/flows/order?{asked}").json["flows"]]


def text(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def test_a_list_is_by_id_or_by_start(harness: Harness, starts: list[datetime]) -> None:
    assert listed(harness) == ["w", "x", "y", "z"]
    assert listed(harness, newest_first="true") == ["w", "x", "y", "z"]
    order.start("a")
    assert listed(harness) == ["a", "w", "x", "y", "z"]
    order.start("zz")
    assert listed(harness, newest_first="true") == ["zz", "a", "w", "x", "y", "z"]


def test_times_are_those_of_the_starts_with_each_filter(harness: Harness, starts: list[datetime]) -> None:
    _, before_y, before_x, before_w = map(text, starts)
    assert listed(harness, started_after=before_x) == ["w", "x"]
    assert listed(harness, started_before=before_x) == ["y", "z"]
    assert listed(harness, started_after=before_y, started_before=before_w) == ["x", "y"]
    assert listed(harness, started_after=before_y, state="running") == ["w", "x"]
    assert listed(harness, started_before=before_w, state="completed") == ["y"]
    assert listed(harness, started_before=before_w, label="tenant:a") == ["x"]
    assert listed(harness, started_after=before_x, label="tenant:a", state="running") == ["w", "x"]
    assert listed(harness, started_after=before_x, label="tenant:a", state="completed") == []
    assert listed(harness, newest_first="true", label="tenant:a") == ["w", "x"]
    with_zone = starts[2].astimezone(UTC) + timedelta(hours=2)
    assert listed(harness, started_after=with_zone.isoformat().replace("+00:00", "+02:00")) == ["w", "x"]


def test_a_run_that_was_started_at_the_time_is_after_it_and_not_before(
    harness: Harness, starts: list[datetime]
) -> None:
    of_x = next(run for run in harness.get("shop/flows/order").json["flows"] if run["id"] == "x")
    assert listed(harness, started_after=of_x["created_at"]) == ["w", "x"]
    assert listed(harness, started_before=of_x["created_at"]) == ["y", "z"]


def test_it_is_counted(harness: Harness, starts: list[datetime]) -> None:
    for query, count in (
        ("newest_first=true", 4),
        (f"started_after={text(starts[2])}", 2),
        (f"started_after={text(starts[1])}&state=completed", 1),
        (f"started_before={text(starts[3])}&label=tenant:a", 1),
    ):
        assert harness.get(f"shop/flows/order?{query}&count=true").json == {"count": count}


def test_its_pages_follow_each_other_while_runs_end_and_start(harness: Harness, starts: list[datetime]) -> None:
    with replaced(flows_listed_max=2):
        first = harness.get("shop/flows/order?newest_first=true").json
        flows("order", "x").event("paid")
        order.start("v")
        harness.run()
        token = first["next_page_token"]
        second = harness.get(f"shop/flows/order?newest_first=true&page_token={token}").json
        by_id = harness.get("shop/flows/order").json["next_page_token"]
        assert harness.get(f"shop/flows/order?newest_first=true&page_token={by_id}").json["field"] == "page_token"
        assert harness.get(f"shop/flows/order?page_token={token}").json["field"] == "page_token"
    assert [run["id"] for page in (first, second) for run in page["flows"]] == ["w", "x", "y", "z"]


def test_the_time_of_a_start_does_not_change_when_the_run_ends_and_no_page_loses_it(harness: Harness) -> None:
    harness.add(app)
    for id_ in "abcd":  # within a millisecond, in which server times are equal
        order.start(id_)
    before = harness.get("shop/flows/order").json["flows"]
    with replaced(flows_listed_max=2):
        first = harness.get("shop/flows/order?newest_first=true").json
        flows("order", "b").event("paid")
        harness.run()
        token = first["next_page_token"]
        second = harness.get(f"shop/flows/order?newest_first=true&page_token={token}").json
    assert [run["id"] for page in (first, second) for run in page["flows"]] == ["d", "c", "b", "a"]
    after = harness.get("shop/flows/order").json["flows"]
    assert [run["created_at"] for run in after] == [run["created_at"] for run in before]


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("started_after=yesterday", "started_after"),
        ("started_before=2026-01-31", "started_before"),
        ("started_before=2026-01-31T09:30:00", "started_before"),
        ("started_after=2026-01-31T09:30:00Z&prefix=a", "prefix"),
        ("newest_first=true&prefix=a", "prefix"),
        ("newest_first=no", "newest_first"),
        ("started_after=2026-01-31T09:30:00Z&started_before=2026-01-31T09:29:59Z", "started_after"),
        ("started_after=", "started_after"),
        ("started_before=", "started_before"),
    ],
)
def test_wrong_parameters_are_refused(harness: Harness, query: str, field: str) -> None:
    harness.add(app)
    refused = harness.get(f"shop/flows/order?{query}")
    assert (refused.status, refused.json["field"]) == (400, field)


def test_a_prefix_in_a_list_by_start_is_refused() -> None:
    with pytest.raises(BadFlow):
        lists.Runs("order", prefix="a", newest_first=True)


def test_each_list_needs_one_index_at_most_and_each_index_is_needed() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    queries = [
        lists.Runs("order", state, label, "", after, None, after is None).query()
        for state in (None, "running")
        for label in (None, ("tenant", "a"))
        for after in (None, at)
    ]
    for each in queries:
        assert lacking(each.collection, each.where, full_order(each), INDEXES) is None
    for index in INDEXES:
        others = [each for each in INDEXES if each != index]
        assert any(lacking(each.collection, each.where, full_order(each), others) for each in queries)
    by_id = lists.Runs("order", "running").query()
    assert lacking(by_id.collection, by_id.where, full_order(by_id)) is None
