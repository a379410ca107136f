"""Labels of runs: set by a start and by the code, listed and counted."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import Function, flow, flows
from signalbox.adapters import runtime
from signalbox.core.problems import OtherBody
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.problems import BadFlow
from signalbox.flows.service import reads
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced

shop = Function("shop")


@shop.flow
async def order() -> str:
    flow.label("phase", "new")
    await flow.event("paid")
    flow.label("phase", "paid")
    flow.label("tenant", None)
    await flow.event("shipped")
    return "end"


@shop.flow
async def renewed(total: int = 0) -> Any:
    flow.label(f"round-{total % 30}", "x")
    return flow.continue_as_new(total=total + 1) if total < 1 else await flow.event("end")


@shop.flow
async def wrong(name: Any, value: Any, count: int = 1) -> str:
    for number in range(count):
        flow.label(f"{name}{number}" if count > 1 else name, value)
    return "never refused"


@shop.flow
async def churning(rounds: int) -> str:
    for number in range(rounds):
        flow.label(f"now-{number}", "x")
        flow.label(f"now-{number}", None)
        await flow.event("next")
    return "end"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(shop)
        yield harness


def listed(harness: Harness, query: str, flow: str = "order") -> list[str]:
    answer: Any = harness.call("shop", f"/flows/{flow}?{query}").json
    return [run["id"] for run in answer["flows"]]


def test_a_start_and_the_code_set_labels_by_which_runs_are_listed_and_counted(harness: Harness) -> None:
    for id_, tenant in (("1", "a"), ("2", "a"), ("3", "b: c")):
        order.with_(labels={"tenant": tenant}).start(id_)
    order.start("4")
    harness.run()
    assert listed(harness, "label=tenant:a") == ["1", "2"]
    assert listed(harness, "label=tenant:b: c") == ["3"]
    assert listed(harness, "label=phase:new&state=running") == ["1", "2", "3", "4"]
    flows("order", "1").event("paid")
    harness.run()
    assert flows("order", "1").status().labels == {"phase": "paid"}
    assert listed(harness, "label=tenant:a") == ["2"]
    assert listed(harness, "label=phase:paid&state=running") == ["1"]
    flows("order", "1").event("shipped")
    harness.run()
    assert listed(harness, "label=phase:paid&state=running") == []
    assert listed(harness, "label=phase:paid&state=completed") == ["1"]
    for query, count in (("label=phase:new", 3), ("state=completed", 1), ("page=", 4)):
        asked = f"/flows/order?{query}&count=true".replace("page=&", "")
        assert harness.call("shop", asked).json == {"count": count}


def test_a_list_and_a_count_have_the_runs_with_all_of_several_labels(harness: Harness) -> None:
    for number in range(24):
        labels = {"tenant": "ab"[number % 2], "size": "sml"[number % 3]}
        order.with_(labels=labels).start(f"{number:02}")
    harness.run()
    assert listed(harness, "label=tenant:a&label=size:m") == ["04", "10", "16", "22"]
    assert listed(harness, "label=tenant:a&label=size:m&label=phase:new&state=running") == ["04", "10", "16", "22"]
    assert listed(harness, "label=tenant:a&label=size:m&newest_first=true") == ["22", "16", "10", "04"]
    assert listed(harness, "label=tenant:a&label=size:xl") == []
    for query, count in (("label=tenant:a&label=size:m", 4), ("label=size:xl&label=tenant:a", 0)):
        assert harness.call("shop", f"/flows/order?{query}&count=true").json == {"count": count}


def test_a_list_by_several_labels_has_pages_some_of_which_may_be_empty(harness: Harness) -> None:
    for number in range(12):
        order.with_(labels={"tenant": "a", "size": "l" if number == 11 else "s"}).start(f"{number:02}")
    harness.run()
    with replaced(flows_listed_max=2, flow_scanned_pages=2):
        pages, token = [], ""
        while True:
            answer: Any = harness.call("shop", f"/flows/order?label=tenant:a&label=size:l{token}").json
            pages.append([run["id"] for run in answer["flows"]])
            if "next_page_token" not in answer:
                break
            token = f"&page_token={answer['next_page_token']}"
    assert [page for page in pages if page] == [["11"]]
    assert len(pages) == 4


def test_the_values_of_a_label_are_counted_the_most_frequent_first(harness: Harness) -> None:
    for number, tenant in enumerate("abbcbb"):
        order.with_(labels={"tenant": tenant, "odd": str(number % 2)}).start(str(number))
    order.start("without")
    harness.run()
    with replaced(flow_scanned_page=2):
        counts = harness.get("shop/flows/order?count_by=tenant").json["counts"]
        assert list(counts.items()) == [("b", 4), ("a", 1), ("c", 1)]
        odd = harness.get("shop/flows/order?count_by=tenant&label=odd:1&state=running").json
        assert odd == {"counts": {"b": 2, "c": 1}}
    with replaced(flow_scanned_max=6):
        refused = harness.get("shop/flows/order?count_by=tenant")
        assert (refused.status, refused.json["type"]) == (409, "urn:signalbox:problem:too-many-runs")
    assert harness.get("shop/flows/order?count_by=tenant&page_token=x").status == 400


def test_labels_outlive_continue_as_new_a_termination_and_a_start_elsewhere(harness: Harness) -> None:
    flows("renewed", "1").with_(labels={"tenant": "a"}).start()
    harness.run()
    assert reads.get(runtime.ports(), FlowAddress("renewed", "1")).generation == 1
    assert flows("renewed", "1").status().labels == {"tenant": "a", "round-0": "x", "round-1": "x"}
    flows("renewed", "1").terminate()
    assert listed(harness, "label=tenant:a&state=cancelled", "renewed") == ["1"]


def test_a_run_without_the_code_has_its_labels_at_once(harness: Harness) -> None:
    flows("order", "1").with_(labels={"tenant": "a"}).start()
    assert listed(harness, "label=tenant:a&state=running") == ["1"]


def test_a_repeated_start_has_the_same_labels(harness: Harness) -> None:
    first, other = (order.with_(labels={"tenant": name}) for name in "ab")
    first.start("1")
    first.start("1")
    with pytest.raises(OtherBody):
        other.start("1")
    with pytest.raises(OtherBody):
        order.start("1")


def test_a_label_that_comes_and_goes_is_replayed_whatever_the_labels_are_now(harness: Harness) -> None:
    many = {f"l{number}": "x" for number in range(LIMITS.flow_labels_max)}
    churning.with_(labels=many).start("1", rounds=LIMITS.flow_labels_max)
    for _ in range(LIMITS.flow_labels_max):
        flows("churning", "1").event("next")
        harness.run()
    status = flows("churning", "1").status()
    assert (status.state, status.labels) == ("completed", many)


@pytest.mark.parametrize(
    "labels",
    [
        {"Tenant": "a"},
        {"a b": "a"},
        {"": "a"},
        {"a": ""},
        {"a": 1},
        {"a": "x" * 201},
        {"a": "\ud800"},
        {f"l{n}": "x" for n in range(11)},
    ],
)
def test_wrong_labels_are_refused(harness: Harness, labels: Any) -> None:
    with pytest.raises(BadFlow):
        order.with_(labels=labels).start("1")
    assert harness.call("shop", "/flows/order/1", method="POST", json={"labels": labels}).status_code == 400


@pytest.mark.parametrize(
    "arguments", [{"name": "A", "value": "x"}, {"name": "a", "value": ""}, {"name": "a", "value": 1}]
)
def test_wrong_labels_make_the_run_stuck_at_their_line(harness: Harness, arguments: dict[str, Any]) -> None:
    wrong.start("1", **arguments)
    wrong.start("2", name="l", value="x", count=LIMITS.flow_labels_max + 1)
    harness.run(raise_errors=False)
    for id_ in "12":
        status = flows("wrong", id_).status()
        assert (status.state, status.problem["type"]) == ("stuck", "flow-failed")
        assert "label" in status.problem["detail"]


EMPTY = ["label=", "label=a:b&label=", "count_by=", "state="]


@pytest.mark.parametrize(
    "query", ["label=tenant", "label=T:a", "label=a:", "count=yes", "count=true&page_token=x", *EMPTY]
)
def test_wrong_filters_are_refused(harness: Harness, query: str) -> None:
    assert harness.call("shop", f"/flows/order?{query}").status_code == 400
