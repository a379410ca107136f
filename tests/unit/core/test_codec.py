"""Values of annotated types as JSON, and back."""

import json
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass, field, make_dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from threading import Thread
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict, TypeVar
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbox.core.codec.annotations import codec_of, encode_unannotated, parse
from signalbox.core.codec.json_forms import WrongValue, decode, encode, is_plain
from signalbox.core.problems import BadArgument, Problem

OrderId = NewType("OrderId", str)
T = TypeVar("T")


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Extras(Flag):
    GIFT = 1
    FAST = 2


class Strange(Enum):
    HERE = object()


class Old(Enum):
    NEW = "new"

    @classmethod
    def _missing_(cls, value: object) -> "Old":
        return cls.NEW if value == "old" else {}[value]  # type: ignore[index] # a mistake of a user


@dataclass(frozen=True)
class Line:
    item: str
    price: float
    size: Size = Size.SMALL


@dataclass
class Order:
    id: OrderId
    lines: list[Line]
    placed_at: datetime
    notes: dict[str, str] = field(default_factory=dict)
    paid: bool | None = None


@dataclass
class Tree:
    name: str
    children: "list[Tree]" = field(default_factory=list)


class Address(TypedDict):
    street: str
    since: date
    floor: NotRequired[int]


@dataclass
class Paid:
    at: datetime
    kind: Literal["paid"] = "paid"


@dataclass
class Declined:
    why: str
    kind: Literal["declined"] = "declined"


@dataclass
class Positive:
    amount: int

    def __post_init__(self) -> None:
        if self.amount <= 0:
            raise Problem("The amount must be above 0.")
        self.double = {1: 2}.get(self.amount, 0)


@dataclass
class WithInit:
    seed: InitVar[int]


@dataclass
class Page(Generic[T]):
    items: list[T]


class Point(NamedTuple):
    x: int
    y: int


NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
ORDER = Order(OrderId("o"), [Line("tea", 2.5, Size.LARGE)], NOON)
ORDER_JSON: dict[str, Any] = {
    "id": "o",
    "lines": [{"item": "tea", "price": 2.5, "size": "l"}],
    "placed_at": "2026-01-31T12:00:00Z",
    "notes": {},
    "paid": None,
}


@pytest.mark.parametrize(
    ("annotation", "value", "written"),
    [
        (Order, ORDER, ORDER_JSON),
        (Tree, Tree("a", [Tree("b")]), {"name": "a", "children": [{"name": "b", "children": []}]}),
        (Address, {"street": "s", "since": date(2020, 2, 29)}, {"street": "s", "since": "2020-02-29"}),
        (OrderId, "o", "o"),
        (Annotated[Size, "chosen"], Size.LARGE, "l"),
        (Level, Level.HIGH, 2),
        (Extras, Extras.GIFT | Extras.FAST, 3),
        (datetime, NOON.astimezone(timezone(timedelta(hours=2))), "2026-01-31T12:00:00Z"),
        (UUID, UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Decimal, Decimal("9.90"), "9.90"),
        (Decimal, Decimal("1E+7"), "1E+7"),
        (bytes, b"\xff\xfe?", "__4_"),
        (tuple[int, Size], (1, Size.SMALL), [1, "s"]),
        (tuple[date, ...], (date(1, 1, 1),), ["0001-01-01"]),
        (tuple[()], (), []),
        (set[int], {10, 9}, [10, 9]),
        (frozenset[Size], frozenset({Size.SMALL, Size.LARGE}), ["l", "s"]),
        (dict[Size, list[bytes]], {Size.LARGE: [b""]}, {"l": [""]}),
        (dict[UUID, int], {UUID(int=0): 1}, {"00000000-0000-0000-0000-000000000000": 1}),
        (Optional[Order], None, None),  # noqa: UP045  both spellings are in use
        (Line | str | None, "x", "x"),
        (Paid | Declined, Declined("no"), {"why": "no", "kind": "declined"}),
        (list[Paid | Declined | None], [Paid(NOON), None], [{"at": "2026-01-31T12:00:00Z", "kind": "paid"}, None]),
        (int | datetime, NOON, "2026-01-31T12:00:00Z"),
    ],
)
def test_a_value_is_written_as_plain_json_and_read_again(annotation: Any, value: Any, written: Any) -> None:
    codec = codec_of(annotation, "x")
    assert encode(codec, value, "x") == written
    assert json.loads(json.dumps(written)) == written
    read = decode(codec, written, "x")
    assert read == value
    assert isinstance(read, type(value))
    assert decode(codec, written, "x") == read


@pytest.mark.parametrize(
    "annotation", [int, Any, object, list[dict[str, int | None]], Literal["a", 1, None], dict, str]
)
def test_json_itself_has_no_codec_of_its_own(annotation: Any) -> None:
    assert is_plain(codec_of(annotation, "x"))


@pytest.mark.parametrize(
    ("annotation", "said"),
    [
        (Thread, "x is a Thread, which JSON does not have: write a dataclass"),
        (set[Line], "a set of Line, has no order in JSON: write a `list` of them"),
        (set[Any], "has no order"),
        (Sequence[int], "write `list"),
        (Mapping[str, int], "write `dict"),
        (OrderedDict[str, int], "write `dict"),
        (dict[int, str], "keys of int"),
        (timedelta, "write the seconds as a `float`"),
        (time, "write a `str`"),
        (Point, "write a dataclass"),
        (Page[int], r"Page\[int\], which is generic"),
        (Page, "which is generic"),
        (T, "write the type itself"),
        (WithInit, "seed is an InitVar"),
        (Strange, "an enum whose values are not JSON"),
        (datetime | str, r"datetime \| str, and JSON does not say of which member a value is: write one"),
        (Line | Order, "give each class a field such as `kind: Literal"),
        (Line | dict[str, int], "does not say"),
        ("Order", "x is the text 'Order': write the type itself, without quotes"),
        (Optional["Order"], "x is the text 'Order'"),
        (list["Order"], "x, its items is the text 'Order'"),
        ([int], r"x is \[<class 'int'>\], which is not a type: write one, such as `list\[int\]`"),
        (Literal[b"x"], "which JSON does not have"),
        (list[Literal[Size.SMALL]], "which JSON does not have"),
        (dict[str, list[Thread]], "x, its values, its items is a Thread"),
        (make_dataclass("Shop", [("till", Thread)]), r"x, Shop\.till is a Thread"),
    ],
)
def test_a_type_without_a_codec_is_refused_with_what_to_write_instead(annotation: Any, said: str) -> None:
    for _ in range(2):
        with pytest.raises(TypeError, match=said):
            codec_of(annotation, "x")


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (Order, {**ORDER_JSON, "lines": [{"item": "tea", "price": "2"}]}, "x.lines[0].price must be float, not str"),
        (Order, {**ORDER_JSON, "lines": [{"item": "tea"}]}, "x.lines[0].price is missing"),
        (Order, {**ORDER_JSON, "pait": True}, "x.pait is not a field of Order"),
        (Order, [], "x must be an object with the fields of Order, not list"),
        (Line, {"item": "tea", "price": float("nan")}, "x.price is nan, which is not JSON"),
        (Positive, {"amount": 0}, "x is not a Positive: The amount must be above 0"),
        (Address, {"street": "s"}, "x.since is missing"),
        (
            Address,
            {"street": "s", "since": "2021-02-29"},
            "x.since must be a date such as 2026-01-31, not",
        ),
        (Size, "xl", "x must be one of 's', 'l'"),
        (Level, True, "x must be one of 1, 2"),
        (Old, "older", "x must be one of 'new'"),
        (datetime, "2026-01-31T12:00:00", "x must be a time such as 2026-01-31T09:30:00Z, not '2026-01-31T12:00:00'"),
        (datetime, 5, "x must be a time such as 2026-01-31T09:30:00Z, not int"),
        (datetime, "x" * 99, f"x must be a time such as 2026-01-31T09:30:00Z, not '{'x' * 60}…'"),
        (UUID, "{00000000-0000-0000-0000-000000000007}", "x must be a UUID"),
        (Decimal, "NaN", "x must be a decimal number"),
        (Decimal, "1_0", "x must be a decimal number"),
        (Decimal, 1, "x must be a decimal number"),
        (bytes, "a", "x must be base64url, not 'a'"),
        (bytes, "a+/b", "x must be base64url"),
        (tuple[int, str], [1], "x must have 2 items, not 1"),
        (tuple[int, Size], [1, "q"], "x[1] must be one of 's', 'l'"),
        (dict[Size, Line], {"q": {}}, "the key 'q' of x must be one of 's', 'l'"),
        (dict[str, Line], {"q": {"item": 1, "price": 1}}, "x.q.item must be str, not int"),
        (Line | None, 5, "x must be Line | None, not int"),
        (Line | None, {"item": 1, "price": 1}, "x.item must be str, not int"),
        (Paid | Declined, {"kind": "lost"}, "x must be Paid | Declined, not dict whose kind is of none of them"),
        (Paid | Declined, {"why": "no"}, "x must be Paid | Declined, not dict whose kind is of none of them"),
    ],
)
def test_wrong_json_is_refused_with_its_place(annotation: Any, value: Any, said: str) -> None:
    with pytest.raises(WrongValue) as error:
        decode(codec_of(annotation, "x"), value, "x")
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (Order, Order(OrderId("o"), [Line("tea", "2")], NOON), "x.lines[0].price must be float, not str"),  # type: ignore[arg-type] # the mistake
        (Order, ORDER_JSON, "x must be Order, not dict"),
        (Address, {"street": "s", "since": NOON}, "x.since must be date, not datetime"),
        (Address, {"street": "s", "since": date.min, "flor": 1}, "x.flor is not a field of Address"),
        (datetime, datetime(2026, 1, 1), "x is 2026-01-01 00:00:00: it needs a time zone"),  # noqa: DTZ001  the mistake
        (datetime, datetime.min.replace(tzinfo=timezone(timedelta(hours=1))), "x is 0001-01-01 00:00:00+01:00: "),
        (Decimal, Decimal("NaN"), "x is NaN, which is not a decimal number"),
        (Size, "s", "x must be Size, not str"),
        (tuple[int, ...], [1], "x must be tuple, not list"),
        (tuple[int, int], (1,), "x must have 2 items, not 1"),
        (set[int], {1, "a"}, "x["),
        (Line | None, Line(1, 1), "x.item must be str, not int"),  # type: ignore[arg-type] # the mistake
        (Any, ORDER, "x is of type Order, which is not JSON: annotate it with its type"),
    ],
)
def test_a_wrong_value_is_refused_where_it_is_sent(annotation: Any, value: Any, said: str) -> None:
    with pytest.raises(WrongValue) as error:
        encode(codec_of(annotation, "x"), value, "x")
    assert str(error.value).startswith(said)


def test_older_json_gets_the_defaults_of_new_fields_and_stored_json_loses_fields_that_are_gone() -> None:
    older = {name: item for name, item in ORDER_JSON.items() if name not in ("notes", "paid")}
    codec = codec_of(list[Order], "x")
    assert decode(codec, [older], "x") == [ORDER]
    assert decode(codec, [older | {"coupon": 1}], "x", stored=True) == [ORDER]
    with pytest.raises(WrongValue, match=r"x\[0\].coupon is not a field of Order"):
        decode(codec, [older | {"coupon": 1}], "x")


def test_what_was_read_may_change_and_the_json_does_not() -> None:
    for annotation in (Order, dict, Any, dict[str, Any]):
        stored: dict[str, Any] = json.loads(json.dumps(ORDER_JSON))
        read = decode(codec_of(annotation, "x"), stored, "x")
        (read.lines if annotation is Order else read["lines"]).append(None)
        assert stored == ORDER_JSON


def test_a_value_without_an_annotation_is_written_by_its_own_type() -> None:
    value = {"order": ORDER, "sizes": {Size.SMALL, Size.LARGE}, "at": (NOON, None, 1.5), Size.SMALL: True}
    assert encode_unannotated(value, "x") == {
        "order": ORDER_JSON,
        "sizes": ["l", "s"],
        "at": ["2026-01-31T12:00:00Z", None, 1.5],
        "s": True,
    }
    for wrong, said in ((Thread(), "x is a Thread"), ([float("inf")], r"x\[0\] is inf"), ({1: 2}, "the key 1")):
        with pytest.raises(WrongValue, match=said):
            encode_unannotated(wrong, "x")


def test_parse_raises_a_problem() -> None:
    assert parse(ORDER_JSON, Order) == ORDER
    with pytest.raises(BadArgument, match=r"value\.lines must be list, not int") as error:
        parse(ORDER_JSON | {"lines": 1}, Order)
    assert error.value.status == BadArgument.status


def test_json_that_is_nested_too_deeply_is_refused_and_so_is_a_cycle() -> None:
    deep: dict[str, Any] = {"name": "leaf"}
    plain: list[Any] = []
    for _ in range(5_000):
        deep, plain = {"name": "a", "children": [deep]}, [plain]
    for annotation, value in ((Tree, deep), (Any, plain)):
        with pytest.raises(WrongValue, match="x is nested too deeply"):
            decode(codec_of(annotation, "x"), value, "x")
    circle = Tree("a")
    circle.children.append(circle)
    with pytest.raises(WrongValue, match="x is nested too deeply"):
        encode(codec_of(Tree, "x"), circle, "x")


# --- any annotation, any JSON ---


Typed = tuple[Any, st.SearchStrategy[Any]]


@st.composite
def typed(draw: st.DrawFn, depth: int = 3) -> Typed:
    """Draw an annotation, with a strategy for its values."""
    zones = st.timezones()  # no imaginary time, and no repeated one: Python has them unequal to the same time in UTC
    whole = st.datetimes(timezones=zones, allow_imaginary=False)
    times = whole.filter(
        lambda time: time.year not in (1, 9999) and time.utcoffset() == time.replace(fold=1).utcoffset()
    )
    leaves: list[Typed] = [
        (str, st.text()),
        (int, st.integers()),
        (bool, st.booleans()),
        (float, st.floats(allow_nan=False, allow_infinity=False)),
        (datetime, times),
        (date, st.dates()),
        (UUID, st.uuids()),
        (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
        (bytes, st.binary()),
        (Size, st.sampled_from(Size)),
        (Level, st.sampled_from(Level)),
        (Literal["a", 3, None], st.sampled_from(["a", 3, None])),
    ]
    kind = draw(st.sampled_from(["leaf", "list", "dict", "tuple", "optional", "class"])) if depth else "leaf"
    if kind == "leaf":
        leaf: Typed = draw(st.sampled_from(leaves))
        return leaf
    if kind == "class":
        parts = draw(st.lists(typed(depth - 1), min_size=1, max_size=3))
        made = make_dataclass("Made", [(f"part{number}", part) for number, (part, _) in enumerate(parts)])
        return made, st.builds(made, *(values for _, values in parts))
    inner: Any
    inner, values = draw(typed(depth - 1))
    match kind:
        case "list":
            return list[inner], st.lists(values, max_size=3)
        case "dict":
            return dict[str, inner], st.dictionaries(st.text(), values, max_size=3)
        case "tuple":
            return tuple[inner, ...], st.lists(values, max_size=3).map(tuple)
    return inner | None, st.none() | values


@settings(max_examples=150, deadline=None)
@given(typed(), st.data())
def test_any_value_of_any_type_comes_back_as_it_was_sent(drawn: Typed, data: st.DataObject) -> None:
    annotation, values = drawn
    codec, value = codec_of(annotation, "x"), data.draw(values)
    written = encode(codec, value, "x")
    assert decode(codec, json.loads(json.dumps(written, allow_nan=False)), "x") == value
    if is_plain(codec):
        assert written is value


TYPES = [Order, Tree, Address, Paid | Declined | None, Positive, Old, Extras, dict[Size, Line], tuple[int, Decimal]]
TEXTS = st.sampled_from(["paid", "declined", "s", "2026-01-31", "2026-13-31T99:99:99Z", "1E999999", "=", "\ud800"])


@settings(max_examples=120, deadline=None)
@given(st.sampled_from([*TYPES, set[bytes], UUID, datetime, list[frozenset[date]]]), st.data())
def test_any_json_is_read_or_refused_and_raises_nothing_else(annotation: Any, data: st.DataObject) -> None:
    names = st.sampled_from(
        ["id", "lines", "placed_at", "name", "children", "kind", "at", "why", "amount", "s", "since"]
    )
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.text()
    value = data.draw(
        st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(names | st.text(), inner), max_leaves=12)
    )
    codec = codec_of(annotation, "x")
    try:
        read = decode(codec, value, "x", stored=data.draw(st.booleans()))
    except WrongValue:
        return
    assert decode(codec, encode(codec, read, "x"), "x") == read


# --- pydantic, which is not installed here ---


class Model:
    """What the codec uses of pydantic's `BaseModel`."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def model_dump(self, *, mode: str, by_alias: bool) -> dict[str, Any]:
        assert (mode, by_alias) == ("json", True)
        return dict(self.__dict__)

    @classmethod
    def model_validate_json(cls, text: str) -> "Model":
        fields = json.loads(text)
        if fields.get("amount", 0) < 0:
            raise WrongModel
        return cls(**fields)


class WrongModel(ValueError):
    def errors(self) -> list[dict[str, Any]]:
        return [{"loc": ("lines", 0, "amount"), "msg": "Input should be greater than 0"}]


def test_a_pydantic_model_reads_and_writes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic", SimpleNamespace(BaseModel=Model))
    codec = codec_of(type("Payment", (Model,), {}) | None, "x")
    read = decode(codec, {"amount": 1}, "x")
    assert encode(codec, read, "x") == {"amount": 1}
    with pytest.raises(WrongValue, match=r"x\.lines\[0\]\.amount: Input should be greater than 0"):
        decode(codec, {"amount": -1}, "x")
    read.amount = float("nan")
    with pytest.raises(WrongValue, match=r"x\.amount is nan"):
        encode(codec, read, "x")
