"""Copies on the real stack while events and tasks come twice and out of order."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from signalbox.core.ports import Query
from signalbox.core.records.queries import Condition
from signalbox.documents.machine import links
from signalbox.documents.machine.copies import Embedding
from signalbox.documents.model.contents import Content, Surveyed
from signalbox.documents.model.stamped_contents import COLLECTION
from signalbox_tools.local.stack import Stack
from tests.bench.bench_stack import TARGET, Stage, city, country, key_of
from tests.required_programs import EMULATOR

pytestmark = pytest.mark.slow

CHAOS = "twice=0.3,reorder=0.3"
DEEP = 5
MANY = 20_000
USERS = 8


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    EMULATOR.require()  # the events of Google's emulator are what is tested
    with (
        Stack(folder=tmp_path_factory.mktemp("fan-out"), chaos=CHAOS, store="emulator") as stack,
        Stage(stack) as stage,
    ):
        yield stage


@pytest.fixture(autouse=True)
def _empty(stage: Stage) -> None:
    with stage.events_held():
        stage.clear()


def shown(stage: Stage, keys: Iterable[str]) -> dict[str, Content]:
    """Get documents as a caller does, without their keys."""
    answers = {key: stage.http.get(f"documents/{key}").raise_for_status().json() for key in keys}
    return {key: {name: value for name, value in body.items() if name != "key"} for key, body in answers.items()}


def untrue(documents: dict[str, Content]) -> list[str]:
    """List the documents that are not what a put of them now would store, given all that they link to."""
    return [
        key
        for key, content in documents.items()
        if links.embed_links(key, Surveyed(content), Embedding(documents)).content != content
    ]


def put_all(stage: Stage, documents: dict[str, Content]) -> None:
    """Put documents, several at once, so that targets race with documents that embed them."""
    with ThreadPoolExecutor(USERS) as users:
        list(users.map(stage.put, documents, documents.values()))


def test_a_change_travels_through_a_chain_of_copies_five_deep(stage: Stage) -> None:
    chain: dict[str, Content] = {f"d{n}": {"n": 1, "to": {"key": f"d{n + 1}"}} for n in range(DEEP)}
    put_all(stage, {**chain, f"d{DEEP}": {"n": 1}})
    stage.put(f"d{DEEP}", {"n": 2, "new": True})
    stage.wait_until_idle()
    found = shown(stage, [*chain, f"d{DEEP}"])
    assert untrue(found) == []
    innermost: Any = found["d0"]
    for _ in range(DEEP):
        innermost = innermost["to"]
    assert innermost == {"key": f"d{DEEP}", "n": 2, "new": True}


def test_fan_outs_of_cycles_and_self_links_end_with_every_copy_up_to_date(stage: Stage) -> None:
    ring: dict[str, Content] = {
        "a": {"n": 1, "to": {"key": "b"}},
        "b": {"n": 1, "to": {"key": "c"}, "back": {"key": "a"}},
        "c": {"n": 1, "to": {"key": "a"}, "me": {"key": "c"}},
    }
    put_all(stage, ring)
    put_all(stage, {key: {**content, "n": 2} for key, content in ring.items()})
    stage.wait_until_idle()
    found = shown(stage, ring)
    assert untrue(found) == []
    assert found["c"]["me"] == {"key": "c", "link_cycle": True}
    assert (found["a"]["to"]["n"], found["a"]["to"]["to"]["n"]) == (2, 2)


@pytest.mark.parametrize("many", [40, pytest.param(200, marks=pytest.mark.marathon)])
def test_a_document_with_many_links_follows_all_of_them_while_they_change_vanish_and_come_back(
    stage: Stage, many: int
) -> None:
    targets: dict[str, Content] = {f"t{n}": {"n": 0} for n in range(many)}
    put_all(stage, targets)
    stage.put("hub", {"all": [{"key": key} for key in targets]})
    put_all(stage, {key: {"n": 1} for key in targets})
    for key in ("t7", "t8"):
        stage.http.delete(f"documents/{key}").raise_for_status()
    stage.put("t8", {"n": 2})
    stage.wait_until_idle()
    copies = {copy["key"]: copy for copy in shown(stage, ["hub"])["hub"]["all"]}
    expected = {key: {"key": key, "n": 1} for key in targets}
    expected |= {"t7": {"key": "t7", "link_missing": True}, "t8": {"key": "t8", "n": 2}}
    assert copies == expected


def test_no_users_write_is_lost_to_a_concurrent_fan_out(stage: Stage) -> None:
    follow_while_users_write(stage, copies=400, written=range(0, 400, 10))


@pytest.mark.marathon
@pytest.mark.timeout(900)
def test_20000_copies_follow_two_changes_and_no_users_write_is_lost(stage: Stage) -> None:
    follow_while_users_write(stage, copies=MANY, written=range(0, MANY, 400))


def follow_while_users_write(stage: Stage, copies: int, written: range) -> None:
    """Change a target twice while users put some of the documents that embed it; at the end both are in every copy."""
    with stage.events_held():
        stage.seed(country(1), copies)
    stage.put(TARGET, country(2))
    put_all(stage, {key_of(number): {**city(number), "visited": True} for number in written})
    stage.put(TARGET, country(3))
    stage.wait_until_idle()
    assert stage.store.count(Query(COLLECTION, (Condition((TARGET, "number"), "==", 3),))) == copies
    assert stage.store.count(Query(COLLECTION, (Condition(("visited",), "==", True),))) == len(written)
    assert untrue(shown(stage, [TARGET, key_of(0), *map(key_of, written), key_of(copies - 1)])) == []
