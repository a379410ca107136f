"""How much a condition may compare with, to the byte: alike in both stores, where the emulator draws the line.

Firestore's indexes hold 1,500 bytes of a value, and it refuses a query for a value that may have been cut.
"""

from typing import Any, get_args

import pytest

from signalbox.adapters.firestore import store as adapters_store
from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.core.keys import valid_key
from signalbox.core.ports import Put, Query, Store
from signalbox.core.problems import BadQuery
from signalbox.core.records.queries import ID, Condition, Operator, Order
from signalbox.documents.model.stamped_contents import RESERVED
from signalbox.links.model import LINK_FIELDS, LINK_KEYS
from signalbox.links.storage import linking_documents

V = ("v",)

TAKEN: dict[str, Any] = {
    "a text": "k" * 1_499,
    "a text of two-byte letters": "é" * 749,
    "a list of a text": ["k" * 1_499],
    "a list of texts": ["k" * 749] * 2,
    "a list of integers": [2**60] * 187,
    "a list of nulls": [None] * 1_500,
    "a map": {"x": "k" * 1_497},
    "a map of one long name": {"x" * 1_491: 1},
    "maps in each other": {"x": {"y": {"z": "k" * 1_493}}},
}

REFUSED: dict[str, Any] = {
    "a text": "k" * 1_500,
    "a text of two-byte letters": "é" * 750,
    "a list of a text": ["k" * 1_500],
    "a list of texts": ["k" * 749, "k" * 750],
    "a list of integers": [1] * 188,
    "a list of nulls": [None] * 1_501,
    "a map": {"x": "k" * 1_498},
    "a map of one long name": {"x" * 1_492: 1},
    "maps in each other": {"x": {"y": {"z": "k" * 1_494}}},
}


def condition(operator: Operator, value: Any) -> Query:
    operand = ["short", value] if operator == "in" else value
    return Query("d", where=(Condition(V, operator, operand),))


@pytest.mark.parametrize("value", TAKEN.values(), ids=TAKEN)
def test_a_value_that_an_index_holds_is_found(store: Store, value: Any) -> None:
    store.commit([Put("d/a", {"v": value}), Put("d/b", {"v": [{"w": value}]}), Put("d/c", {"v": "short"})])
    assert [one.id for one in store.query(condition("==", value))] == ["a"]
    assert [one.id for one in store.query(condition("in", value))] == ["a", "c"]
    assert store.count(condition("==", value)) == 1


@pytest.mark.parametrize("operator", get_args(Operator))
@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_a_value_that_an_index_would_cut_is_a_bad_query(store: Store, operator: Operator, value: Any) -> None:
    for call in (store.query, store.count):
        with pytest.raises(BadQuery) as refused:
            call(condition(operator, value))
        assert refused.value.field == "v"


@pytest.mark.parametrize("operator", get_args(Operator))
@pytest.mark.parametrize("value", REFUSED.values(), ids=REFUSED)
def test_the_emulator_refuses_it_too(
    firestore: FirestoreStore, monkeypatch: pytest.MonkeyPatch, operator: Operator, value: Any
) -> None:
    monkeypatch.setattr(adapters_store, "check_query", lambda _: None)
    with pytest.raises(BadQuery):
        firestore.query(condition(operator, value))


def test_a_cursor_and_an_id_may_be_longer(store: Store) -> None:
    store.commit([Put("d/a", {"v": "k" * 3_000}), Put("d/" + "b" * 1_500, {"v": "m"})])
    assert [one.data for one in store.query(Query("d", order_by=(Order(V),), after=("k" * 3_000, "a")))] == [{"v": "m"}]
    assert [one.data for one in store.query(Query("d", where=(Condition(ID, "==", "b" * 1_500),)))] == [{"v": "m"}]


def test_a_document_is_found_by_its_links_whatever_their_keys_and_fields(store: Store) -> None:
    longest = next("k" * length for length in range(1_500, 0, -1) if valid_key("k" * length))
    store.commit([Put("documents/p", {RESERVED: {"link_keys": [longest], "link_fields": [longest]}})])
    assert [one.id for one in store.query(linking_documents(longest, "", 10))] == ["p"]
    walk = Query("documents", (Condition(LINK_FIELDS, "array_contains", longest),))
    assert [one.id for one in store.query(walk)] == ["p"]
    assert LINK_KEYS != LINK_FIELDS
