"""Costs of documents: round trips, reads, writes, deletes and tasks of each operation, to the unit.

If a figure falls, write the smaller one here; if one grows, that is a defect.
"""

import importlib.util
from collections.abc import Callable
from pathlib import Path

import flask
import pytest

from signalbox.adapters import runtime
from signalbox.adapters.cost_meter import Cost
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Change
from signalbox.core.problems import TooLarge
from signalbox.documents.model.stamped_contents import StoredDocument
from signalbox.documents.requests import (
    BulkPutRequest,
    CountRequest,
    FindRequest,
    PatchRequest,
    Precondition,
    PutRequest,
    Tags,
)
from signalbox.documents.service import bulk, patches, single_documents
from signalbox.links import model
from signalbox.links.limits import LIMITS as LINKS_LIMITS
from signalbox.transforms import service
from signalbox.transforms.requests import PutTransformRequest
from tests.unit.cost_table import FIGURES, is_within, row_cost
from tests.unit.operations_platform import OperationsPlatform

ROOT = Path(__file__).parents[3]
NOTHING = Cost()


@pytest.fixture
def world() -> OperationsPlatform:
    """A world with three documents that no document embeds."""
    world = OperationsPlatform()
    for key in ("t", "u", "v"):
        world.put(key, n=1)
    world.settle()
    return world


def put(world: OperationsPlatform, key: str, **content: object) -> Cost:
    """Put a document; return what it cost."""
    return world.cost_of(lambda: world.put(key, **content))


def test_a_put_without_links_reads_once_and_writes_once_whether_new_or_not(world: OperationsPlatform) -> None:
    assert put(world, "new", n=1) == row_cost("documents", "put")
    assert put(world, "new", n=2) == row_cost("documents", "put")


def test_the_event_of_a_new_document_reads_its_wanted_note_once(world: OperationsPlatform) -> None:
    world.put("new", n=1)
    assert world.deliver() == row_cost("documents", "new_event")
    assert (world.events, world.tasks) == ([], [])


def test_the_event_of_a_change_of_an_unlinked_document_costs_nothing(world: OperationsPlatform) -> None:
    world.put("t", n=2)
    assert world.deliver() == NOTHING
    assert (world.events, world.tasks) == ([], [])


def test_a_put_reads_each_input_of_new_copies_once_and_its_event_once_more(
    world: OperationsPlatform,
) -> None:
    copies = [{"key": key} for key in ("t", "u", "v")]
    assert put(world, "p", l=copies, again={"key": "t"}) == row_cost("documents", "put_copies", k=3, f=2)
    first_links = world.deliver()
    assert first_links == Cost(round_trips=2, reads=3 + 2 + 1, writes=3)  # 1 of each: who wants the new document?
    assert [world.deliver() for _ in range(3)] == [NOTHING] * 3  # the marks
    world.put("t", n=2)
    world.put("u", n=2)
    world.events.clear()
    assert put(world, "p", l=copies) == row_cost("documents", "put_copies", k=3, f=1)
    assert world.deliver() == row_cost("documents", "put_copies_event", k=2, f=1)
    assert (world.events, world.tasks) == ([], [])


def test_a_link_to_what_is_missing_costs_a_note_once(world: OperationsPlatform) -> None:
    assert put(world, "t", a={"key": "nobody"}) == Cost(round_trips=2, reads=1 + 1 + 1, writes=1)
    assert world.deliver() == Cost(round_trips=3, reads=2 + 1, writes=1)


def test_a_put_that_changes_no_copy_has_an_event_that_costs_nothing(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    world.settle()
    assert put(world, "p", a={"key": "t"}, n=2) == Cost(round_trips=2, reads=1 + 1 + 1, writes=1)
    assert world.deliver() == NOTHING


def test_the_event_of_a_refresh_of_an_unlinked_document_costs_nothing(world: OperationsPlatform) -> None:
    world.put("p", a={"key": "t"})
    world.settle()
    world.put("t", n=2)
    assert world.deliver() == Cost(round_trips=1, tasks=1)
    assert world.work() == Cost(round_trips=4, reads=1 + 2 * (1 + 1), writes=1)  # source and transform, twice
    assert world.shown("p") == {"key": "p", "a": {"key": "t", "n": 2}}
    assert world.deliver() == NOTHING
    assert (world.events, world.tasks) == ([], [])


def test_a_get_reads_once_and_a_delete_reads_nothing(world: OperationsPlatform) -> None:
    assert world.cost_of(lambda: single_documents.get(world.ports, "t")) == row_cost("documents", "get")
    assert world.cost_of(lambda: single_documents.delete(world.ports, "t")) == row_cost("documents", "delete")
    assert world.deliver() == NOTHING


def test_a_changed_transform_costs_two_round_trips_and_the_handing_over_and_an_unchanged_one_a_read(
    world: OperationsPlatform,
) -> None:
    def put_transform(transform: object) -> Cost:
        return world.cost_of(lambda: service.put(world.ports, PutTransformRequest.from_request("a", transform)))

    assert put_transform({"m": "#.n"}) == Cost(round_trips=4, reads=1, writes=2, deletes=1, tasks=1)
    assert put_transform({"m": "#.n"}) == Cost(round_trips=1, reads=1)


def test_the_walk_of_a_transform_reads_each_document_once_and_what_it_embeds_twice(world: OperationsPlatform) -> None:
    for number in range(10):
        world.put(f"p{number}", a={"key": "t"}, b=[{"key": "u"}])
    world.settle()
    service.put(world.ports, PutTransformRequest.from_request("a", {"m": "#.n"}))
    assert world.work() == Cost(round_trips=4, reads=10 + 2 * (1 + 1), writes=10)
    assert world.shown("p9") == {"key": "p9", "a": {"key": "t", "m": 1}, "b": [{"key": "u", "n": 1}]}


def test_a_query_reads_what_it_finds(world: OperationsPlatform) -> None:
    found = world.cost_of(lambda: single_documents.find(world.ports, FindRequest.from_request(["n==1"], [], "", "")))
    assert found == row_cost("documents", "query", n=3)


def test_a_count_reads_once_for_each_thousand_it_counts(world: OperationsPlatform) -> None:
    counted = world.cost_of(lambda: single_documents.count(world.ports, CountRequest.from_request(["n==1"])))
    assert counted == row_cost("documents", "count")


def total(costs: list[Cost]) -> Cost:
    return Cost(
        *(sum(getattr(cost, name) for cost in costs) for name in ("reads", "writes", "deletes", "round_trips", "tasks"))
    )


@pytest.mark.slow
def test_a_copy_in_a_fan_out_costs_one_read_one_write_and_little_else(world: OperationsPlatform) -> None:
    copies = LINKS_LIMITS.page_copies_first + LINKS_LIMITS.page_copies_max
    world.store.commit([Change("documents/t", {model.LINKED: True})])
    for number in range(copies):
        world.put(f"p{number:04}", a={"key": "t"})
    world.events.clear()  # a put's own event has a test of its own
    world.put("t", n=2)
    started = world.deliver()
    pages = [world.work() for _ in range(3)]  # the third finds nothing: the second was full
    first = Cost(
        round_trips=5,
        reads=LINKS_LIMITS.page_copies_first + 2 * (1 + 1),
        writes=LINKS_LIMITS.page_copies_first,
        tasks=1,
    )
    groups = LINKS_LIMITS.page_copies_max // LINKS_LIMITS.group_copies_max
    beside = 2 * (1 + 1) * groups  # source and transform, before and after
    full = Cost(
        round_trips=2 + 3 * groups,
        reads=LINKS_LIMITS.page_copies_max + beside,
        writes=LINKS_LIMITS.page_copies_max,
        tasks=1,
    )
    assert started == Cost(round_trips=1, tasks=1)
    assert pages == [first, full, Cost(round_trips=1, reads=1)]
    assert (world.tasks, len(world.events)) == ([], copies)
    assert total([world.deliver() for _ in range(copies)]) == NOTHING
    whole = total([started, *pages])
    assert is_within("documents", "fan_out", whole, copies)
    assert whole.deletes == 0
    assert world.shown("p1799") == {"key": "p1799", "a": {"key": "t", "n": 2}}


def test_the_sweeper_with_nothing_to_do_queries_each_subject_once(
    world: OperationsPlatform,
) -> None:
    spec = importlib.util.spec_from_file_location("main_of_sweep", ROOT / "functions" / "sweep" / "main.py")
    assert spec is not None
    assert spec.loader is not None
    main = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(main)
    runtime.bind(world.ports)
    try:
        with flask.Flask("test").test_request_context(method="POST"):
            assert main.sweep(flask.request).status_code == 204
    finally:
        runtime.bind(None)
    [(_, handled)] = world.told
    assert {name: handled[name] for name in FIGURES} == row_cost("sweeper", "idle").to_json()


def test_a_merge_costs_what_a_put_costs_and_one_more_read_where_the_document_has_other_links(
    world: OperationsPlatform,
) -> None:
    def merge(**content: object) -> Cost:
        return world.cost_of(lambda: patches.patch(world.ports, PatchRequest.from_request("p", content)))

    assert merge(n=1) == Cost(round_trips=2, reads=1, writes=1)
    assert merge(n=2) == Cost(round_trips=2, reads=1, writes=1)
    assert merge(a={"key": "t"}) == Cost(round_trips=2, reads=1 + 2, writes=1)  # a target, and its field's transform
    assert merge(a={"key": "t"}, n=3) == Cost(round_trips=2, reads=1 + 2, writes=1)
    assert merge(n=4) == Cost(round_trips=3, reads=1 + (1 + 2), writes=1)
    assert merge(b={"key": "u"}) == Cost(round_trips=3, reads=(1 + 2) + (1 + 2 + 2), writes=1)


def test_a_delete_on_a_condition_reads_once_first(world: OperationsPlatform) -> None:
    tag = single_documents.get(world.ports, "t").etag
    condition = Precondition(if_match=Tags(frozenset([tag])))
    cost = world.cost_of(lambda: single_documents.delete(world.ports, "t", condition))
    assert cost == row_cost("documents", "delete_if_match")


def test_500_new_documents_without_links_come_in_with_two_round_trips(world: OperationsPlatform) -> None:
    bodies = [{"key": f"new{number}", "n": number} for number in range(500)]
    cost = world.cost_of(lambda: bulk.put_each(world.ports, BulkPutRequest.from_request(bodies)))
    assert cost == row_cost("documents", "bulk", n=500)
    assert world.shown("new499") == {"key": "new499", "n": 499}


def test_links_among_documents_of_one_call_cost_a_round_trip_a_level(world: OperationsPlatform) -> None:
    people = [{"key": f"p{number}", "a": {"key": "street"}, "t": {"key": "t"}} for number in range(100)]
    bodies = [*people, {"key": "street", "town": {"key": "town"}}, {"key": "town"}]
    cost = world.cost_of(lambda: bulk.put_each(world.ports, BulkPutRequest.from_request(bodies)))
    assert cost == Cost(round_trips=2 + 3, reads=102 + 1 + 3, writes=102)  # three fields may have transforms


def refused(world: OperationsPlatform, call: Callable[[], object]) -> Cost:
    """Return the cost of a call that is refused as too large."""

    def refusal() -> None:
        with pytest.raises(TooLarge):
            call()

    return world.cost_of(refusal)


def test_too_many_links_are_refused_before_anything_is_read(world: OperationsPlatform) -> None:
    body = {"l": [{"key": f"t{number}"} for number in range(CORE_LIMITS.links_max + 1)]}
    assert refused(world, lambda: single_documents.put(world.ports, PutRequest.from_request("p", body))) == NOTHING
    assert refused(world, lambda: patches.patch(world.ports, PatchRequest.from_request("p", body))) == NOTHING


def test_links_that_become_too_many_by_a_patch_are_refused_without_reading_their_targets(
    world: OperationsPlatform,
) -> None:
    half = [{"key": f"t{number}"} for number in range(CORE_LIMITS.links_max // 2 + 1)]
    world.put("p", l=half)
    more = {"m": [{"key": "t"} for _ in half]}
    assert refused(world, lambda: patches.patch(world.ports, PatchRequest.from_request("p", more))) == Cost(
        round_trips=1, reads=3
    )


def test_too_many_links_of_one_document_in_a_call_are_its_own_refusal_and_cost_nothing(
    world: OperationsPlatform,
) -> None:
    bodies = [{"key": "p", "l": [{"key": f"t{number}"} for number in range(CORE_LIMITS.links_max + 1)]}, {"key": "q"}]
    endings: list[bulk.BulkPutResult] = []
    cost = world.cost_of(lambda: endings.extend(bulk.put_each(world.ports, BulkPutRequest.from_request(bodies))))
    assert cost == Cost(round_trips=2, reads=1, writes=1)
    assert [type(each.outcome) for each in endings] == [TooLarge, StoredDocument]
