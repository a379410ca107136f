"""Transforms: the copies under links in a field are their output, and follow target and transform."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from shared.adapters.meter import Cost
from shared.core.operations import outbox
from shared.core.operations.ports import Outcome, Put, Write
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadTransform, NotFound, TransformFailed, Unavailable
from shared.documents.operations import documents
from shared.documents.rules.queries import FindRequest
from shared.links.operations import fan_out as links
from shared.transforms.operations import transforms
from shared.transforms.rules.transforms import PutTransformRequest
from tests.unit.operations_platform import OperationsPlatform

ADDRESS: dict[str, Any] = {
    "type": "Address",
    "addr1": "1 thing st",
    "city": "stuffville",
    "zipcode": 54321,
    "tags": ["some", "tags"],
}
FULL = {"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"}
SHOWN_FULL = {"key": "1234567", "fulladdr": "1 thing st, stuffville 54321"}


@pytest.fixture
def world() -> OperationsPlatform:
    """A world at rest in which Fred lives at an address, and a transform makes one line of addresses."""
    world = OperationsPlatform()
    transforms.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.put("1234567", **ADDRESS)
    world.put("897654", type="Person", name="Fred", address={"key": "1234567"})
    world.settle()
    return world


def test_a_put_embeds_the_output_of_the_fields_transform(world: OperationsPlatform) -> None:
    assert world.shown("897654") == {"key": "897654", "type": "Person", "name": "Fred", "address": SHOWN_FULL}
    assert documents.find(
        world.ports, FindRequest.from_request(["address.fulladdr==1 thing st, stuffville 54321"], [], "", "")
    ).documents == [world.shown("897654")]


def test_a_transform_is_applied_to_each_link_in_a_list_and_at_any_depth(world: OperationsPlatform) -> None:
    link = {"key": "1234567"}
    shown = world.put("p", address=[link, "text", [link]], home={"address": link, "other": link})
    plain = {"key": "1234567", **ADDRESS}
    assert shown == {
        "key": "p",
        "address": [SHOWN_FULL, "text", [SHOWN_FULL]],
        "home": {"address": SHOWN_FULL, "other": plain},
    }


def test_output_follows_its_target_under_every_field(world: OperationsPlatform) -> None:
    transforms.put(world.ports, PutTransformRequest.from_request("town", {"name": "#.city"}))
    world.put("p", address={"key": "1234567"}, town=[{"key": "1234567"}], plain={"key": "1234567"})
    world.settle()
    moved = {"addr1": "2 thing st", "city": "somewheretown", "zipcode": 12345}
    world.put("1234567", **moved)
    world.settle()
    assert world.shown("p") == {
        "key": "p",
        "address": {"key": "1234567", "fulladdr": "2 thing st, somewheretown 12345"},
        "town": [{"key": "1234567", "name": "somewheretown"}],
        "plain": {"key": "1234567", **moved},
    }


def test_a_links_own_key_wins_and_the_source_has_its_key(world: OperationsPlatform) -> None:
    transforms.put(
        world.ports,
        PutTransformRequest.from_request("l", {"key": "another", "of": "#.key", "inner": {"key": "1234567", "n": 1}}),
    )
    assert world.put("p", l={"key": "1234567"})["l"] == {
        "key": "1234567",
        "of": "1234567",
        "inner": {"key": "1234567", "link_cycle": True},
    }


def test_a_missing_target_ignores_the_transform_and_so_does_a_link_to_itself(world: OperationsPlatform) -> None:
    assert world.put("p", address=[{"key": "nobody"}, {"key": None}, {"key": "p"}])["address"] == [
        {"key": "nobody", "link_missing": True},
        {"key": None, "link_missing": True},
        {"key": "p", "link_cycle": True},
    ]
    world.settle()
    documents.delete(world.ports, "1234567")
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "link_missing": True}
    world.put("1234567", **ADDRESS)
    world.settle()
    assert world.shown("897654")["address"] == SHOWN_FULL


def test_a_put_is_refused_where_output_is_not_an_object_and_nothing_is_lost(world: OperationsPlatform) -> None:
    transforms.put(world.ports, PutTransformRequest.from_request("part", "#.detail"))
    world.put("t", detail={"n": 1})
    world.put("p", part=[{"key": "t"}])
    before = world.record("documents/p")
    world.put("u", detail=5)
    with pytest.raises(TransformFailed) as refused:
        world.put("p", part=[{"key": "t"}, {"key": "u"}])
    assert (refused.value.status, refused.value.field) == (409, "part[1]")
    assert world.record("documents/p") == before


def test_a_copy_whose_transform_fails_is_marked_and_logged_until_it_succeeds(
    world: OperationsPlatform,
) -> None:
    transforms.put(world.ports, PutTransformRequest.from_request("part", "#.detail"))
    world.put("t", detail={"n": 1})
    world.put("p", part={"key": "t"}, n=1)
    world.settle()
    world.put("t", detail=5)
    world.settle()
    assert world.shown("p") == {"key": "p", "part": {"key": "t", "link_transform_failed": True}, "n": 1}
    assert world.reported == [("transform output is not an object", {"document": "p", "field": "part"})]
    world.put("t", detail={"n": 2})
    world.settle()
    assert world.shown("p")["part"] == {"key": "t", "n": 2}


def test_a_key_in_a_transform_is_not_a_link(world: OperationsPlatform) -> None:
    transform = {"a": {"key": "1234567"}, "b": [[{"key": "x"}]]}
    stored = transforms.put(world.ports, PutTransformRequest.from_request("l", transform))
    assert (stored.transform, stored.created) == (transform, True)
    assert transforms.get(world.ports, "l") == replace(stored, created=False)
    assert world.events == []
    assert world.ids("wanted") == []


def test_a_put_replaces_a_transform_and_an_unknown_one_is_not_found(world: OperationsPlatform) -> None:
    first = transforms.get(world.ports, "address")
    again = transforms.put(world.ports, PutTransformRequest.from_request("address", {"n": 1}))
    assert (again.transform, again.created) == ({"n": 1}, False)
    assert again.etag != first.etag
    for call in (transforms.get, transforms.delete):
        with pytest.raises(NotFound):
            call(world.ports, "nobody")


def test_an_invalid_transform_or_name_is_refused_and_stores_nothing() -> None:
    world = OperationsPlatform()
    with pytest.raises(BadTransform):
        transforms.put(world.ports, PutTransformRequest.from_request("address", "text"))
    with pytest.raises(BadKey):
        transforms.put(world.ports, PutTransformRequest.from_request("key", FULL))
    assert [world.ids(collection) for collection in ("transforms", "outbox")] == [[], []]


def test_documents_follow_a_transform_that_is_changed_deleted_and_stored_again(world: OperationsPlatform) -> None:
    transforms.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}
    transforms.delete(world.ports, "address")
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", **ADDRESS}
    transforms.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.settle()
    assert world.shown("897654")["address"] == SHOWN_FULL
    assert world.ids("outbox") == []


def test_a_change_of_a_transform_reaches_copies_of_its_documents(world: OperationsPlatform) -> None:
    world.put("team", members=[{"key": "897654"}])
    world.settle()
    transforms.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.settle()
    assert world.shown("team")["members"][0]["address"] == {"key": "1234567", "town": "stuffville"}


def test_a_put_of_an_equal_transform_starts_no_walk(world: OperationsPlatform) -> None:
    before = transforms.get(world.ports, "address")
    cost = world.cost_of(lambda: transforms.put(world.ports, PutTransformRequest.from_request("address", dict(FULL))))
    assert cost == Cost(round_trips=1, reads=1)
    assert world.tasks == []
    assert transforms.get(world.ports, "address") == before


def test_a_walk_enqueues_its_cursor_before_each_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LIMITS, "walk_documents_max", 2)
    world = OperationsPlatform()
    world.put("t", n=1)
    for number in range(5):
        world.put(f"p{number}", a={"key": "t"}, b={"key": "t"})
    world.settle()
    transforms.put(world.ports, PutTransformRequest.from_request("a", {"made": "#.n"}))
    [task] = world.tasks
    assert task.payload["work"] == {"transform": "a", "cursor": ""}
    world.work()
    assert [task.payload["work"] for task in world.tasks] == [{"transform": "a", "cursor": "p1"}]
    world.settle()
    made, plain = {"key": "t", "made": 1}, {"key": "t", "n": 1}
    assert [world.shown(f"p{n}") for n in range(5)] == [{"key": f"p{n}", "a": made, "b": plain} for n in range(5)]


def test_the_sweeper_starts_the_walk_of_a_process_that_died(world: OperationsPlatform) -> None:
    world.refusal = Unavailable("the queue is away")
    transforms.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    assert world.tasks == []
    world.refusal = None
    world.pass_time(11)
    assert outbox.sweep(world.ports) == 1
    world.settle()
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}


def test_every_change_has_a_walk_of_its_own_also_back_to_what_was(world: OperationsPlatform) -> None:
    for change in (FULL | {"n": 1}, FULL, None, FULL):
        if change is None:
            transforms.delete(world.ports, "address")
        else:
            transforms.put(world.ports, PutTransformRequest.from_request("address", change))
    assert len({task.name for task in world.tasks}) == len(world.tasks) == 4


def test_a_transform_stored_while_a_document_is_put_is_noticed_by_the_puts_event(world: OperationsPlatform) -> None:
    world.put("p", other={"key": "1234567"})
    transforms.put(world.ports, PutTransformRequest.from_request("other", {"town": "#.city"}))
    world.tasks.clear()  # the walk came before the document was there
    world.settle()
    assert world.shown("p")["other"] == {"key": "1234567", "town": "stuffville"}


def test_a_walk_marks_a_target_before_it_copies_it() -> None:
    world = OperationsPlatform()
    world.put("p", address={"key": "t"})
    put = world.events.pop()
    world.put("t", **ADDRESS)
    world.settle()
    transforms.put(world.ports, PutTransformRequest.from_request("address", FULL))
    world.settle()
    documents.delete(world.ports, "t")
    links.fan_out(world.ports, put)
    world.settle()
    assert world.shown("p")["address"] == {"key": "t", "link_missing": True}


class Changing:
    """A transform changes while copies are written."""

    def __init__(self, world: OperationsPlatform, transform: Any) -> None:
        self._store, self._transform = world.store, transform
        self.read, self.query, self.count = self._store.read, self._store.query, self._store.count
        self.commit, self.new_id = self._store.commit, self._store.new_id

    def write_each(self, writes: Sequence[Write]) -> tuple[Outcome, ...]:
        outcomes = self._store.write_each(writes)
        self._store.commit([Put("transforms/address", self._transform)])
        return outcomes


@pytest.mark.parametrize("work", [{"transform": "address", "cursor": ""}, {"key": "1234567", "cursor": ""}])
def test_a_page_whose_transform_changed_starts_over(world: OperationsPlatform, work: dict[str, str]) -> None:
    transforms.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    latest = world.record("transforms/address") | {"botl": '{"code": "#.zipcode"}'}
    links.run_link_task(replace(world.ports, store=Changing(world, latest)), {"event": "e", "work": work})
    assert world.shown("897654")["address"] == {"key": "1234567", "code": 54321}


def test_a_walk_reads_the_targets_of_many_links_in_parts(world: OperationsPlatform) -> None:
    half = LIMITS.links_max // 2 + 1
    for name in "pqr":
        world.put(name, address=[{"key": f"{name}{number}"} for number in range(half)])
    world.put("q7", **ADDRESS)
    world.settle()
    transforms.put(world.ports, PutTransformRequest.from_request("address", {"town": "#.city"}))
    world.tasks, [walk] = [], world.tasks
    cost = world.cost_of(lambda: links.run_link_task(world.ports, walk.payload))
    made_known, written, looked_at_again = (
        3 * 3,
        2,
        3,
    )  # most targets are missing: a note is tried, and they are read anew
    assert cost.round_trips == 1 + made_known + written + looked_at_again
    assert world.shown("q")["address"][7] == {"key": "q7", "town": "stuffville"}
    assert world.shown("897654")["address"] == {"key": "1234567", "town": "stuffville"}


# --- growth comes to an end ---


@pytest.fixture
def chain() -> OperationsPlatform:
    """A world in which a change travels through transforms over more links than any may."""
    world = OperationsPlatform()
    transforms.put(world.ports, PutTransformRequest.from_request("x", {"n": "{{.n}}{{.x .n}}"}))
    world.put("d0", n="a")
    for number in range(1, LIMITS.hops_max + 4):
        world.put(f"d{number}", x={"key": f"d{number - 1}"})
    world.settle()
    return world


def test_a_change_travels_through_transforms_over_a_bounded_number_of_links(chain: OperationsPlatform) -> None:
    assert chain.shown(f"d{LIMITS.hops_max + 3}")["x"] == {"key": f"d{LIMITS.hops_max + 2}", "n": "a"}
    chain.put("d0", n="b")
    chain.settle()
    assert chain.shown(f"d{LIMITS.hops_max}")["x"]["n"] == "b"
    assert chain.shown(f"d{LIMITS.hops_max + 1}")["x"] == {"key": f"d{LIMITS.hops_max}", "link_cycle": True}


def test_a_put_fills_copies_that_were_cut_at_the_last_hop(chain: OperationsPlatform) -> None:
    chain.put("d0", n="b")
    chain.settle()
    far = f"d{LIMITS.hops_max}"
    before = chain.shown(far)
    chain.put(far, x={"key": f"d{LIMITS.hops_max - 1}"})
    assert chain.shown(far) == before
    chain.settle()
    assert chain.shown(f"d{LIMITS.hops_max + 1}")["x"] == {"key": far, "n": "b"}


@pytest.mark.parametrize(
    "transform",
    [{"x": "{{.x .x}}+"}, {"x": ["#.x .x", "#.n"]}, {"x": ["#.x .x @:", "{{.x .x}}"]}, {"x": {"x": "#.x .x"}}],
    ids=["a letter a hop", "a level a hop", "twice as long each hop", "an object a hop"],
)
def test_growth_round_a_cycle_of_documents_ends(transform: Any) -> None:
    world = OperationsPlatform()
    transforms.put(world.ports, PutTransformRequest.from_request("x", transform))
    for key, target in ("ab", "bc", "ca"):
        world.put(key, x={"key": target}, n=1)
    world.settle()
    first = [world.shown(key) for key in "abc"]
    world.put("b", x={"key": "c"}, n=2)
    world.settle()
    assert [world.shown(key)["n"] for key in "abc"] == [1, 2, 1]
    assert [world.shown(key) for key in "abc"] != first
