"""Arguments of a task against its signature."""

from collections.abc import Callable
from typing import Any, Literal

import pytest

from signalbox.batches.model.units import Unit
from signalbox.core.codec.json_types import type_errors
from signalbox.core.problems import BadArgument
from signalbox.semaphores.model.leases import Lease
from signalbox.tasks.requests.signatures import Signature, WrongArguments

UNIT = Unit("b", 3)


def plain(
    dish: str,
    pot: int,
    salt: float = 0,
    hot: bool = False,
    names: list[str] | None = None,
    more: dict[str, Any] | None = None,
) -> None: ...


def picky(unit: Unit, how: Literal["raw", "done"], anything: Any, x: list[list[int]] | str = "") -> None: ...


@pytest.mark.parametrize(
    "given",
    [
        {"dish": "soup", "pot": 1},
        {"dish": "", "pot": -1, "salt": 1, "hot": True, "names": ["a"], "more": {"x": [[None]]}},
        {"dish": "", "pot": 1, "names": None, "salt": 0.5},
    ],
)
def test_valid_arguments_are_bound_unchanged(given: dict[str, Any]) -> None:
    assert Signature.from_function(plain).bind(given, None) == given


@pytest.mark.parametrize(
    ("given", "field", "said"),
    [
        ({"pot": 1}, "dish", "needs the argument 'dish'"),
        ({"dish": "soup"}, "pot", "needs the argument 'pot'"),
        ({"dish": 1, "pot": 1}, "dish", "must be str, not int"),
        ({"dish": "soup", "pot": "1"}, "pot", "must be int, not str"),
        ({"dish": "soup", "pot": True}, "pot", "must be int, not bool"),
        ({"dish": "soup", "pot": 1.0}, "pot", "must be int, not float"),
        ({"dish": "soup", "pot": 1, "salt": True}, "salt", "must be float, not bool"),
        ({"dish": "soup", "pot": 1, "salt": float("inf")}, "salt", "is not JSON"),
        ({"dish": "soup", "pot": 1, "hot": 1}, "hot", "must be bool"),
        ({"dish": "soup", "pot": 1, "names": "a"}, "names", "not str"),
        ({"dish": "soup", "pot": 1, "names": [1]}, "names", "names[0] must be str, not int"),
        ({"dish": "soup", "pot": 1, "more": {"x": {1}}}, "more", "more.x is of type set"),
        ({"dish": "soup", "pot": 1, "more": {1: 1}}, "more", "the key 1"),
        ({"dish": "soup", "pot": 1, "cup": 1}, "cup", "takes no argument 'cup'"),
    ],
)
def test_an_invalid_argument_is_named(given: dict[str, Any], field: str, said: str) -> None:
    signature = Signature.from_function(plain)
    with pytest.raises(WrongArguments) as error:
        signature.encode(given)
    assert (error.value.argument, said in str(error.value)) == (field, True)
    with pytest.raises(BadArgument) as refused:
        signature.bind(given, None)
    assert (refused.value.field, refused.value.detail) == (field, str(error.value))


def test_a_context_is_bound_by_its_type_and_is_not_an_argument() -> None:
    signature = Signature.from_function(picky)
    given = {"how": "raw", "anything": [[1]], "x": [[1], []]}
    assert signature.bind(given, UNIT) == given | {"unit": UNIT}
    wrong: dict[str, Any]
    for wrong in (given | {"unit": {}}, given | {"how": "burnt"}, given | {"x": [["1"]]}):
        with pytest.raises(WrongArguments):
            signature.encode(wrong)


def test_a_task_that_needs_a_lease_is_refused_without_one() -> None:
    def eat(lease: Lease) -> None: ...

    with pytest.raises(BadArgument, match="needs a Lease"):
        Signature.from_function(eat).bind({}, UNIT)


def gather(*dishes: str) -> None: ...


def spread(**dishes: str) -> None: ...


def by_place(dish: str, /) -> None: ...


def of_a_set(dishes: set[Any]) -> None: ...


def by_number(dishes: dict[int, str]) -> None: ...


@pytest.mark.parametrize("code", [gather, spread, by_place, of_a_set, by_number])
def test_a_parameter_that_no_json_value_fits_is_refused_when_the_task_is_declared(code: Callable[..., None]) -> None:
    with pytest.raises(TypeError, match="dish"):
        Signature.from_function(code)


@pytest.mark.parametrize(
    ("value", "annotation", "wrong"),
    [
        (["a"] * 1_000, list[str], []),
        ({"a": 1, "b": 2}, dict[str, int], []),
        ([], list[bool], []),
        ([1, True, "a"], list[int], ["x[1] must be int, not bool", "x[2] must be int, not str"]),
        ([True], list[int], ["x[0] must be int, not bool"]),
        ({"a": 1, 2: 3}, dict[str, int], ["x has the key 2, which is not a str"]),
        ({"a": "b"}, dict[str, int], ["x.a must be int, not str"]),
        ([float("inf")], list[float], ["x[0] is inf, which is not JSON"]),
    ],
)
def test_large_values_of_one_plain_type_and_mixed_ones_are_checked_alike(
    value: object, annotation: object, wrong: list[str]
) -> None:
    assert list(type_errors(value, annotation, "x")) == wrong
