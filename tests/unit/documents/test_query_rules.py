"""Query parameters of a URL, and the query they are parsed into."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox.core.problems import BadQuery
from signalbox.core.records import queries
from signalbox.core.records.queries import Condition, Order
from signalbox.core.surface.paging import wants_count
from signalbox.documents.requests import CountRequest, FindRequest


def search(*where: str, order_by: tuple[str, ...] = (), limit: str = "", page_token: str = "") -> FindRequest:
    return FindRequest.from_request(where, order_by, limit, page_token)


def condition(text: str) -> Condition:
    [only] = search(text).where
    return only


def refusal(*where: str, **more: Any) -> str | None:
    with pytest.raises(BadQuery) as refused:
        search(*where, **more)
    assert refused.value.status == 400
    return refused.value.field


def token_of(place: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("n==1", "==", 1),
        ("n!=1", "!=", 1),
        ("n<1", "<", 1),
        ("n<=1", "<=", 1),
        ("n>1", ">", 1),
        ("n>=1", ">=", 1),
        ("n in [1,2]", "in", [1, 2]),
        ("n contains 1", "array_contains", 1),
        ("n == 1", "==", 1),
        ("n===", "==", "="),
        ("n==a<b", "==", "a<b"),
        ("n==", "==", ""),
    ],
)
def test_each_operator_is_read(text: str, operator: str, value: object) -> None:
    assert condition(text) == Condition(("n",), operator, value)  # type: ignore[arg-type]  # an operator, from the table above


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("54321", 54321),
        ("-1.5", -1.5),
        ("1.0", 1.0),
        ("true", True),
        ("null", None),
        ('"54321"', "54321"),
        ("stuffville", "stuffville"),
        ("1 thing st", "1 thing st"),
        ("NaN", "NaN"),
        ("Infinity", "Infinity"),
        ('{"a": 1}', {"a": 1}),
        ("[1", "[1"),
        ("9" * 5_000, "9" * 5_000),
        ("[" * 100_000, "[" * 100_000),
        ("a\nb", "a\nb"),
    ],
)
def test_a_value_is_json_where_it_is_json_and_text_where_not(text: str, value: object) -> None:
    found = condition(f"n=={text}").value
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("n==[[1]]", [{"[]": [1]}]),
        ('n=={"[]": 1}', {"[][]": 1}),
        ("n in [[[1]], 2]", [[{"[]": [1]}], 2]),
        ("n contains [1]", {"[]": [1]}),
    ],
)
def test_a_value_is_looked_for_as_it_is_stored(text: str, value: object) -> None:
    assert condition(text).value == value


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("address.zipcode==1", ("address", "zipcode")),
        ("address.key==1", ("address", "key")),
        ("within==1", ("within",)),
        ("in in [1]", ("in",)),
        ("contains contains 1", ("contains",)),
        ("é.a-b==1", ("é", "a-b")),
    ],
)
def test_a_field_is_a_path_of_names(text: str, field: queries.Field) -> None:
    assert condition(text).field == field


@pytest.mark.parametrize(
    "text", ["", "n", "n=1", "==1", "n within [1]", "a..b==1", ".a==1", "a.==1", "n in 1", "n in []", "n in x"]
)
def test_an_invalid_condition_is_refused(text: str) -> None:
    assert refusal(text) == "where"


def test_in_takes_30_values_and_no_more() -> None:
    assert len(condition(f"n in {list(range(30))}").value) == 30
    assert refusal(f"n in {list(range(31))}") == "where"


@pytest.mark.parametrize(
    ("text", "operator", "value"),
    [
        ("key==a", "==", "a"),
        ("key==54321", "==", "54321"),
        ('key=="54321"', "==", "54321"),
        ("key==true", "==", "true"),
        ("key>=a b", ">=", "a b"),
        ("key<b", "<", "b"),
        ("key!=b", "!=", "b"),
        ('key in ["a", "b"]', "in", ["a", "b"]),
    ],
)
def test_a_key_is_compared_as_a_text(text: str, operator: str, value: object) -> None:
    assert condition(text) == Condition(queries.ID, operator, value)  # type: ignore[arg-type]  # an operator, from the table above


@pytest.mark.parametrize("text", ["key==", "key==a/b", "key in [1]", "key contains a", "key in []", "key==__a__"])
def test_a_value_that_cannot_be_a_key_is_not_compared_with_one(text: str) -> None:
    assert refusal(text) == "where"


@pytest.mark.parametrize(
    ("where", "order_by", "order"),
    [
        ((), ("key",), ()),
        (("key>a",), (), ()),
        (("key>a",), ("key",), ()),
        ((), ("n", "key"), (Order(("n",)),)),
        ((), ("-n", "-key"), (Order(("n",), True),)),
    ],
)
def test_the_key_is_the_last_order_whether_named_or_not(
    where: tuple[str, ...], order_by: tuple[str, ...], order: tuple[Order, ...]
) -> None:
    assert search(*where, order_by=order_by).order_by == order


@pytest.mark.parametrize(
    ("where", "order_by"), [((), ("-key",)), ((), ("-n", "key")), ((), ("key", "n")), (("n>1",), ("key",))]
)
def test_an_order_by_key_that_firestore_keeps_no_index_of_is_refused(
    where: tuple[str, ...], order_by: tuple[str, ...]
) -> None:
    assert refusal(*where, order_by=order_by) == "order_by"


@pytest.mark.parametrize(("text", "wanted"), [("", False), ("true", True)])
def test_count_is_true_or_absent(text: str, wanted: bool) -> None:
    assert wants_count(text) is wanted


def test_a_count_that_is_neither_true_nor_left_out_is_refused() -> None:
    with pytest.raises(BadQuery) as refused:
        wants_count("yes")
    assert refused.value.field == "count"


def test_a_count_takes_conditions_and_nothing_else() -> None:
    assert CountRequest.from_request(["n==1"], ()).where == (Condition(("n",), "==", 1),)
    with pytest.raises(BadQuery) as refused:
        CountRequest.from_request(["n==1"], {"limit"})
    assert refused.value.field == "limit"


@pytest.mark.parametrize("field", ["key.a", "_signalbox", "_signalbox.linked", "__name__"])
def test_what_no_record_holds_for_people_is_refused_and_not_simply_not_found(field: str) -> None:
    assert refusal(f"{field}==a") == "where"
    assert refusal(order_by=(field,)) == "order_by"


def test_orders_are_read_with_their_direction() -> None:
    assert search(order_by=("a.b", "-c")).order_by == (Order(("a", "b")), Order(("c",), descending=True))


@pytest.mark.parametrize("order", ["", "-", "a..b", "-.a"])
def test_an_order_by_no_field_is_refused(order: str) -> None:
    assert refusal(order_by=(order,)) == "order_by"


@pytest.mark.parametrize(
    ("where", "order_by", "order"),
    [
        (("n>1",), (), (Order(("n",)),)),
        (("n>1", "n<5"), (), (Order(("n",)),)),
        (("n==1", "l contains 1", "m in [1]"), (), ()),
        (("n!=1", "m<=1"), (), (Order(("m",)), Order(("n",)))),
        (("n>1",), ("m",), (Order(("m",)), Order(("n",)))),
        (("n>1",), ("m", "-o"), (Order(("m",)), Order(("o",), True), Order(("n",), True))),
        (("n>1",), ("-n",), (Order(("n",), True),)),
    ],
)
def test_a_field_that_is_compared_by_size_is_part_of_the_order(
    where: tuple[str, ...], order_by: tuple[str, ...], order: tuple[Order, ...]
) -> None:
    assert search(*where, order_by=order_by).order_by == order


@pytest.mark.parametrize(("limit", "number"), [("", 100), ("1", 1), ("1000", 1_000), ("0007", 7)])
def test_a_limit_is_1_to_1_000_and_100_if_not_given(limit: str, number: int) -> None:
    assert search(limit=limit).limit == number


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "1.5", "many", " 1", "1e2", "²", "9" * 5_000])
def test_another_limit_is_refused(limit: str) -> None:
    assert refusal(limit=limit) == "limit"


@pytest.mark.parametrize("value", [1, 1.5, "é", None, True, [1, {"a": 2}], {"m": {}}, datetime(2026, 1, 1, tzinfo=UTC)])
def test_a_page_token_names_the_place_after_which_to_continue(value: object) -> None:
    asked = search(order_by=("a.b", "-n"))
    token = asked.page_token("k é", {"a": {"b": value}, "n": 2})
    assert search(order_by=("a.b", "-n"), page_token=token).after == (value, 2, "k é")


def test_without_an_order_a_page_token_names_the_key() -> None:
    token = search().page_token("k", {})
    assert token == token_of([search().mark, "k"])
    assert search(page_token=token).after == ("k",)


@pytest.mark.parametrize("id_", ["k" * 1_500, "a\nb"])
def test_a_page_token_names_any_id_under_which_another_client_has_stored_a_document(id_: str) -> None:
    assert search(page_token=search().page_token(id_, {})).after == (id_,)


ORDERED = search(order_by=("n",))


def test_a_page_token_holds_for_another_limit_and_for_its_conditions_in_another_order() -> None:
    token = search("a==1", "b==2", limit="5").page_token("k", {})
    assert search("b==2", "a==1", limit="7", page_token=token).after == ("k",)


@pytest.mark.parametrize(
    "token",
    [
        "x",
        "é",
        "!!!!",
        token_of("k"),
        token_of({"k": 1}),
        token_of([]),
        token_of([ORDERED.mark, "k"]),
        token_of([ORDERED.mark, 1, 2]),
        token_of([ORDERED.mark, 1, 2, "k"]),
        token_of([ORDERED.mark, 1, "a/b"]),
        token_of([ORDERED.mark, {"__time__": "noon"}, "k"]),
        token_of([[], 1, "k"]),
        token_of([search(order_by=("m",)).mark, 1, "k"]),
        token_of([search(order_by=("-n",)).mark, 1, "k"]),
        token_of([search("a==1", order_by=("n",)).mark, 1, "k"]),
        base64.urlsafe_b64encode(b"[" * 100_000).decode(),
        base64.urlsafe_b64encode(b"\xff\xfe[]").decode(),
    ],
)
def test_a_page_token_of_another_query_is_refused(token: str) -> None:
    assert refusal(order_by=("n",), page_token=token) == "page_token"
