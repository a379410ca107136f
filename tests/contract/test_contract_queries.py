"""Queries find what Firestore finds, in its order."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.core.ports import Put, Query, Store
from signalbox.core.problems import BadKey, BadQuery, BadValue
from signalbox.core.records.queries import ID, Condition, Field, Operator, Order

VALUES: dict[str, Any] = {
    "null": None,
    "false": False,
    "true": True,
    "nan": float("nan"),
    "low": float("-inf"),
    "zero": 0,
    "zero_f": 0.0,
    "one": 1,
    "one_f": 1.0,
    "two": 2,
    "time": datetime(2020, 1, 1, tzinfo=UTC),
    "text_": "",
    "text_A": "A",
    "text_a": "a",
    "text_u": "\uffff",
    "text_x": "😀",
    "list_": [],
    "list_1": [1],
    "list_12": [1, 2],
    "map_": {},
    "map_a": {"a": 1},
    "map_az": {"a": 1, "z": 0},
    "map_b": {"b": 0},
}
IN_ORDER = list(VALUES)
IN_VALUE: Field = ("m", "odd.key", "v")


@pytest.fixture
def shelf(store: Store) -> Store:
    """A store with one record for each value, two that have none, and neighbours that must not be found."""
    store.commit([Put(f"d/{id_}", {"m": {"odd.key": {"v": value}}, "g": 1}) for id_, value in VALUES.items()])
    store.commit([Put("d/without", {"m": {}}), Put("d/flat", {"m": 1}), Put("d/one/d/below", {"g": 1})])
    store.commit([Put("dd/a", {"g": 1}), Put("e/a/d/b", {"g": 1})])
    return store


def ids(store: Store, query: Query) -> list[str]:
    return [snapshot.id for snapshot in store.query(query)]


def found(store: Store, operator: Operator, value: object) -> list[str]:
    return ids(store, Query("d", where=(Condition(IN_VALUE, operator, value),)))


def test_a_whole_collection_comes_in_the_order_of_ids_without_its_neighbours(shelf: Store) -> None:
    assert ids(shelf, Query("d")) == sorted([*VALUES, "without", "flat"])
    assert ids(shelf, Query("d/one/d")) == ["below"]
    assert ids(shelf, Query("nothing")) == []


def test_values_of_all_kinds_have_one_order_and_ties_go_by_id(shelf: Store) -> None:
    assert ids(shelf, Query("d", order_by=(Order(IN_VALUE),))) == IN_ORDER
    assert ids(shelf, Query("d", order_by=(Order(IN_VALUE, descending=True),))) == IN_ORDER[::-1]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1, ["one", "one_f"]),
        (-0.0, ["zero", "zero_f"]),
        (True, ["true"]),
        (None, ["null"]),
        (float("nan"), ["nan"]),
        ("", ["text_"]),
        ([1.0], ["list_1"]),
        ({"a": 1}, ["map_a"]),
        ({}, ["map_"]),
        (datetime(2020, 1, 1, tzinfo=UTC), ["time"]),
        (3, []),
    ],
)
def test_equal_finds_equal_values_and_not_equal_the_others_but_null(
    shelf: Store, value: object, wanted: list[str]
) -> None:
    assert found(shelf, "==", value) == wanted
    assert found(shelf, "!=", value) == [id_ for id_ in IN_ORDER if id_ not in wanted and id_ != "null"]


@pytest.mark.parametrize(
    ("operator", "value", "wanted"),
    [
        ("<", 1, ["low", "zero", "zero_f"]),
        ("<=", 1, ["low", "zero", "zero_f", "one", "one_f"]),
        (">", 0, ["one", "one_f", "two"]),
        (">=", 1.0, ["one", "one_f", "two"]),
        ("<", True, ["false"]),
        (">", "A", ["text_a", "text_u", "text_x"]),
        ("<=", "A", ["text_", "text_A"]),
        (">=", [1], ["list_1", "list_12"]),
        ("<", {"b": 0}, ["map_", "map_a", "map_az"]),
        (">", datetime(2019, 1, 1, tzinfo=UTC), ["time"]),
        (">", datetime(2020, 1, 1, tzinfo=UTC), []),
        ("in", [1, "a", True], ["one", "one_f", "text_a", "true"]),
        ("in", [None, float("nan"), [1]], ["list_1"]),
        ("array_contains", 1, ["list_1", "list_12"]),
        ("array_contains", "1", []),
    ],
)
def test_a_condition_holds_among_values_of_its_kind(
    shelf: Store, operator: Operator, value: object, wanted: list[str]
) -> None:
    assert found(shelf, operator, value) == wanted


def test_conditions_hold_together(shelf: Store) -> None:
    between = (Condition(IN_VALUE, ">=", 0), Condition(IN_VALUE, "<", 2), Condition(("g",), "==", 1))
    assert ids(shelf, Query("d", where=between)) == ["zero", "zero_f", "one", "one_f"]


def test_a_record_without_the_field_to_order_by_is_not_found(shelf: Store) -> None:
    assert set(VALUES) == set(ids(shelf, Query("d", order_by=(Order(("g",)),))))


def test_a_limit_cuts_the_answer_and_not_the_count(shelf: Store) -> None:
    query = Query("d", order_by=(Order(IN_VALUE),), limit=3, after=(1, "one"))
    assert ids(shelf, query) == ["one_f", "two", "time"]
    assert shelf.count(query) == len(VALUES)


def test_counts_are_whole_numbers_and_nothing_counts_zero(shelf: Store) -> None:
    counts = [
        shelf.count(Query("d")),
        shelf.count(Query("d", where=(Condition(IN_VALUE, "array_contains", 1),))),
        shelf.count(Query("d", where=(Condition(IN_VALUE, "==", "nowhere"),))),
        shelf.count(Query("nothing")),
    ]
    assert [(count, type(count)) for count in counts] == [(len(VALUES) + 2, int), (2, int), (0, int), (0, int)]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("limit", [1, 4, 100])
def test_pages_by_cursor_return_each_record_once_in_order(shelf: Store, limit: int, descending: bool) -> None:
    seen: list[str] = []
    after: tuple[Any, ...] = ()
    order = Order(IN_VALUE, descending)
    while page := ids(shelf, Query("d", order_by=(order,), limit=limit, after=after)):
        seen += page
        after = (VALUES[page[-1]], page[-1])
    assert seen == (IN_ORDER[::-1] if descending else IN_ORDER)


def test_a_cursor_by_id_continues_behind_an_id_that_is_gone(shelf: Store) -> None:
    everything = sorted([*VALUES, "without", "flat"])
    assert ids(shelf, Query("d", after=("list_1!",))) == [id_ for id_ in everything if id_ > "list_1!"]


def test_a_query_with_an_inequality_is_ordered_by_its_field_and_pages_by_it(shelf: Store) -> None:
    above = Condition(IN_VALUE, ">", 0)
    assert ids(shelf, Query("d", where=(above,), after=(1, "one"))) == ["one_f", "two"]
    with pytest.raises(BadQuery):
        shelf.query(Query("d", where=(above,), after=("one",)))


def test_two_orders_sort_each_in_its_direction(store: Store) -> None:
    store.commit([Put(f"d/{a}{b}{n}", {"a": a, "b": b}) for a in (1, 2) for b in (1, 2) for n in "xy"])
    orders = (Order(("a",), descending=True), Order(("b",)))
    everything = ["21x", "21y", "22x", "22y", "11x", "11y", "12x", "12y"]
    assert ids(store, Query("d", order_by=orders)) == everything
    assert ids(store, Query("d", order_by=orders, after=(2, 2, "22x"))) == everything[3:]
    assert ids(store, Query("d", order_by=orders[::-1])) == ["21y", "21x", "11y", "11x", "22y", "22x", "12y", "12x"]


@pytest.mark.parametrize(
    ("operator", "value", "wanted"),
    [
        ("==", "b", ["b"]),
        ("!=", "b", ["B", "a", "é", "😀"]),
        ("<", "b", ["B", "a"]),
        ("<=", "b", ["B", "a", "b"]),
        (">", "b", ["é", "😀"]),
        (">=", "b", ["b", "é", "😀"]),
        ("in", ["b", "nobody", "B"], ["B", "b"]),
    ],
)
def test_records_are_found_by_id_which_is_ordered_by_code_points(
    store: Store, operator: Operator, value: object, wanted: list[str]
) -> None:
    store.commit([Put(f"d/{id_}", {"g": id_ != "é"}) for id_ in ("b", "a", "é", "B", "😀")])
    by_id = Condition(ID, operator, value)
    assert ids(store, Query("d", (by_id,))) == wanted
    assert store.count(Query("d", (by_id,))) == len(wanted)
    even = Condition(("g",), "==", True)
    assert ids(store, Query("d", (even, by_id))) == [id_ for id_ in wanted if id_ != "é"]
    assert ids(store, Query("d", (by_id,), limit=1, after=(wanted[0],))) == wanted[1:2]


@pytest.mark.parametrize(
    "condition", [Condition(("g",), "==", 1), Condition(("g",), "in", [1, 2])], ids=lambda one: str(one.operator)
)
def test_records_with_one_of_some_values_are_paged_by_id(store: Store, condition: Condition) -> None:
    store.commit([Put(f"d/{id_}", {"g": g}) for id_, g in (("d", 1), ("b", 1), ("c", 3), ("a", 1))])
    assert ids(store, Query("d", (condition,), limit=2)) == ["a", "b"]
    assert ids(store, Query("d", (condition,), limit=2, after=("b",))) == ["d"]


def test_ids_are_compared_behind_another_order_and_below_a_record(store: Store) -> None:
    store.commit([Put(f"d/x/e/{id_}", {"n": n}) for id_, n in (("a", 3), ("b", 2), ("c", 1))])
    behind = Query("d/x/e", (Condition(ID, ">", "a"),), (Order(("n",), descending=True),))
    assert ids(store, behind) == ["b", "c"]


def test_found_snapshots_are_whole(store: Store) -> None:
    committed = store.commit([Put("d/a", {"n": 1, "m": {"x": [1]}})])
    (snapshot,) = store.query(Query("d", where=(Condition(("n",), "==", 1),)))
    assert (snapshot.path, snapshot.data) == ("d/a", {"n": 1, "m": {"x": [1]}})
    assert snapshot.update_time == snapshot.create_time == committed.commit_time <= snapshot.read_time


def test_a_group_is_all_collections_of_a_name_at_any_depth_and_no_others(store: Store) -> None:
    places = {"e": 3, "d/a/e": 1, "d/b/e": 2, "x/y/d/a/e": 5, "d/a/ee": 4}
    store.commit([Put(f"{collection}/one", {"n": n}) for collection, n in places.items()])
    store.commit([Put("d/a/e/without", {"m": 0})])
    n: Field = ("n",)
    every = Query("e", order_by=(Order(n),), group=True)
    assert [one.path for one in store.query(every)] == ["d/a/e/one", "d/b/e/one", "e/one", "x/y/d/a/e/one"]
    assert store.count(every) == 4
    between = Query("e", (Condition(n, ">=", 2), Condition(n, "<", 5)), (Order(n),), limit=1, group=True)
    assert [one.path for one in store.query(between)] == ["d/b/e/one"]
    assert [one.path for one in store.query(Query("e", order_by=(Order(n),)))] == ["e/one"]


def test_equal_values_of_a_group_are_ordered_by_path_id_by_id(store: Store) -> None:
    """So "a" is before "a!", although "!" is before "/"."""
    paths = ["p/a/d/x", "p/a/d/x!", "p/a/e/z/d/x", "p/a\0/d/x", "p/a\0\1/d/x", "p/a!/d/x", "p/a-b/d/x", "p/é/d/x"]
    store.commit([Put(path, {"v": 1}) for path in reversed(paths)])
    plain = Query("d", group=True)
    for query in (
        plain,
        replace(plain, where=(Condition(("v",), "==", 1),)),
        replace(plain, order_by=(Order(("v",)),)),
    ):
        assert [each.path for each in store.query(query)] == paths
    backward = replace(plain, order_by=(Order(("v",), descending=True),))
    assert [each.path for each in store.query(backward)] == paths[::-1]


def test_ids_are_looked_up_only_with_equalities_of_fields_or_inequalities_of_ids(store: Store) -> None:
    store.commit([Put("d/a", {"v": 1})])
    above: Condition = Condition(("v",), ">", 0)
    for wanted in (Condition(ID, "==", "a"), Condition(ID, "in", ["a", "b"])):
        with pytest.raises(BadQuery):
            store.query(Query("d", (wanted, above)))
        with pytest.raises(BadQuery):
            store.count(Query("d", (wanted, above)))
        assert store.count(Query("d", (wanted, above, Condition(ID, ">", "A")))) == 1
        assert store.count(Query("d", (wanted, Condition(("v",), "==", 1)), order_by=(Order(("v",)),))) == 1


def test_a_time_of_a_class_derived_from_datetime_is_compared_as_a_time(store: Store) -> None:
    class Exact(datetime):
        pass

    moment = Exact(2020, 1, 1, tzinfo=UTC)
    store.commit([Put("d/a", {"v": moment})])
    for operator in ("==", ">=", "in"):
        value: object = [moment] if operator == "in" else moment
        assert store.count(Query("d", (Condition(("v",), operator, value),))) == 1


V: Field = ("v",)


@pytest.mark.parametrize(
    "query",
    [
        Query("d", where=(Condition(V, "<", None),)),
        Query("d", where=(Condition(V, ">=", float("nan")),)),
        Query("d", where=(Condition(V, "array_contains", None),)),
        Query("d", where=(Condition(V, "in", []),)),
        Query("d", where=(Condition(ID, "array_contains", "a"),)),
        Query("d", where=(Condition(ID, "==", 1),)),
        Query("d", where=(Condition(ID, "in", []),)),
        Query("d", where=tuple(Condition((f"n{n}",), ">", 1) for n in range(11))),
        Query("d", where=(Condition(V, "in", "text"),)),
        Query("d", where=(Condition(V, "in", list(range(31))),)),
        Query("d", where=(Condition(V, "in", list(range(6))), Condition(("w",), "in", list(range(6))))),
        Query("d", where=(Condition(V, "array_contains", 1), Condition(V, "array_contains", 2))),
        Query("d", where=(Condition(V, "!=", 1), Condition(V, "!=", 2))),
        Query("d", order_by=(Order(V), Order(V))),
        Query("d", limit=0),
        Query("d", after=(1, "a")),
        Query("d", after=(1,)),
        Query("d", order_by=(Order(V),), after=("a",)),
        Query("d", after=("a",), group=True),
        Query("d", where=(Condition(ID, "==", "a"),), group=True),
    ],
    ids=repr,
)
def test_what_firestore_would_not_answer_is_a_bad_query(store: Store, query: Query) -> None:
    with pytest.raises(BadQuery):
        store.query(query)


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        (Query("d/a"), BadKey),
        (Query(""), BadKey),
        (Query("d", after=("a/b",)), BadKey),
        (Query("d", where=(Condition(ID, "==", "a/b"),)), BadKey),
        (Query("d", where=(Condition(V, "==", [[1]]),)), BadValue),
        (Query("d", where=(Condition(V, "==", (1,)),)), BadValue),
        (Query("d", where=(Condition((), "==", 1),)), BadValue),
        (Query("d", order_by=(Order(("__name__",)),)), BadValue),
        (Query("d", order_by=(Order(V),), after=({1}, "a")), BadValue),
    ],
    ids=repr,
)
def test_what_no_record_holds_cannot_be_queried(store: Store, query: Query, problem: type[Exception]) -> None:
    with pytest.raises(problem):
        store.query(query)
