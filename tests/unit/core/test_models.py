"""Models of pydantic, and dataclasses whose own code runs when they are read: what is written can be read again."""

import json
import subprocess
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from signalbox.core.codec.annotations import codec_of, encode_unannotated
from signalbox.core.codec.json_forms import WrongValue, decode, encode

pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed: make setup installs it")
from pydantic import (  # noqa: E402  after the line that skips the module
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    SecretStr,
    computed_field,
    field_serializer,
    field_validator,
    model_validator,
)

SHARED = Path(__file__).parents[3] / "shared"


class Size(StrEnum):
    SMALL = "s"
    LARGE = "l"


class Line(BaseModel):
    item: str
    price: Decimal = Decimal(1)


class Gift(Line):
    card: str = "for you"


class Order(BaseModel):
    id: int
    at: datetime | None = None
    lines: list[Line] = []
    sizes: set[Size] = set()
    marks: dict[str, tuple[int, str]] = {}
    named: str = Field("x", alias="isNamed")
    tags: frozenset[str] = frozenset()

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know it on properties
    @property
    def count(self) -> int:
        return len(self.lines)


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")
    id: int

    @computed_field  # type: ignore[prop-decorator]  # mypy does not know it on properties
    @property
    def twice(self) -> int:
        return 2 * self.id


class ReadsOther(BaseModel):
    id: int = Field(validation_alias="identity")


class WritesOther(BaseModel):
    id: int = Field(0, serialization_alias="identity")


class Excluded(BaseModel):
    id: int = Field(exclude=True)


class Signed(BaseModel):
    token: SecretStr


class Shown(Signed):
    @field_serializer("token")
    def _shown(self, token: SecretStr) -> str:
        return token.get_secret_value()


class Raw(BaseModel):
    content: bytes


class Careless(BaseModel):
    id: int

    @field_serializer("id")
    def _fails(self, _: int) -> int:
        raise ZeroDivisionError("a bug")


class Nervous(BaseModel):
    id: int

    @model_validator(mode="after")
    def _checked(self) -> "Nervous":
        if self.id < 0:
            raise ValueError("not below zero")
        return self


class Anything(BaseModel):
    value: Any


class Names(RootModel[list[str]]):
    pass


@dataclass
class Positive:
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("not below zero")


@dataclass
class Hashed:
    word: str

    def __post_init__(self) -> None:
        self.word = f"hash of {self.word}"


@dataclass
class Opened:
    """Only what its constructor takes is sent."""

    name: str
    count: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.count = len(self.name)


class Array:
    """As of a library: a comparison is another array, which has no truth value."""

    def __init__(self, *items: int) -> None:
        self.items = items

    def __eq__(self, other: object) -> "Array":  # type: ignore[override]  # as libraries do
        return Array()

    __hash__ = None  # type: ignore[assignment]  # as libraries do

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Measured(BaseModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)
    values: Array
    weight: Decimal = Decimal(1)

    @field_serializer("values")
    def _listed(self, values: Array) -> list[int]:
        return [*values.items]

    @field_validator("values", mode="before")
    @classmethod
    def _read(cls, values: Any) -> Array:
        return values if isinstance(values, Array) else Array(*values)


def negative(kind: Any) -> Any:
    made = kind(amount=1) if kind is Positive else kind(id=1)
    setattr(made, "amount" if kind is Positive else "id", -1)
    return made


def ordered(line: Line) -> Order:
    return Order.model_validate({"id": 1, "lines": [line]})


def opened_often() -> Opened:
    opened = Opened("a")
    opened.count = 7
    return opened


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (Strict(id=1), "x could not be read again from the JSON that it writes (x.twice: Extra inputs"),
        (
            ReadsOther.model_validate({"identity": 1}),
            "x could not be read again from the JSON that it writes (x.identity: Field required",
        ),
        (WritesOther(id=1), "x.id would arrive as another value"),
        (Excluded(id=1), "x could not be read again"),
        (Signed(token=SecretStr("a")), "x.token is a secret, which is written as asterisks: pass its name"),
        (Raw(content=b"\xff"), "x cannot be written: 'utf-8' codec can't decode byte 0xff"),
        (Careless(id=1), "x cannot be written: Error calling function `_fails`: ZeroDivisionError: a bug"),
        (ordered(Gift(item="a")), "x.lines[0] is a Gift, and would arrive as a Line, without its own"),
        (Anything(value=(1, datetime(2026, 1, 31, tzinfo=UTC))), "x.value[1] would arrive as another value"),
        (negative(Nervous), "x could not be read again from the JSON that it writes (x: Value error, not below zero"),
        (negative(Positive), "x could not be read again from the JSON that it writes (x is not a Positive: not below"),
        (Hashed("a"), "x.word would arrive as another value"),
    ],
)
def test_a_value_that_would_not_arrive_as_it_is_is_refused_where_it_is_made(value: Any, said: str) -> None:
    for written in (lambda: encode(codec_of(type(value), "x"), value, "x"), lambda: encode_unannotated(value, "x")):
        with pytest.raises(WrongValue) as refused:
            written()
        assert str(refused.value).startswith(said)


@pytest.mark.parametrize(
    "value",
    [
        *[Shown(token=SecretStr("a")), Anything(value=(1, 2)), opened_often(), Raw(content=b"a")],
        Measured(values=Array(1, 2), weight=Decimal(2)),
    ],
)
def test_a_value_whose_class_reads_what_it_writes_arrives(value: Any) -> None:
    codec = codec_of(type(value), "x")
    back = decode(codec, json.loads(json.dumps(encode(codec, value, "x"))), "x")
    assert encode(codec, back, "x") == encode(codec, value, "x")


@pytest.mark.parametrize(("annotation", "said"), [(Names, "a RootModel: write its type itself"), (SecretStr, "name")])
def test_root_models_and_secrets_are_refused_with_what_to_write(annotation: Any, said: str) -> None:
    with pytest.raises(TypeError, match=said):
        codec_of(annotation, "x")


LINES: st.SearchStrategy[Line] = st.builds(
    Line, item=st.text(), price=st.decimals(allow_nan=False, allow_infinity=False, places=2)
)
ORDERS = st.builds(
    lambda **fields: Order.model_validate(fields),
    id=st.integers(-(2**53), 2**53),
    at=st.none() | st.datetimes(timezones=st.just(UTC)),
    lines=st.lists(LINES | st.builds(Gift, item=st.text()), max_size=3),
    sizes=st.sets(st.sampled_from(Size)),
    marks=st.dictionaries(st.text(), st.tuples(st.integers(-9, 9), st.text()), max_size=3),
    isNamed=st.text(),
    tags=st.frozensets(st.text()),
)


@settings(max_examples=60)
@given(order=ORDERS)
def test_a_model_arrives_equal_to_what_pydantic_itself_reads_or_is_refused(order: Order) -> None:
    codec = codec_of(Order, "x")
    oracle = Order.model_validate_json(order.model_dump_json(by_alias=True))
    if oracle != order:
        with pytest.raises(WrongValue, match=r"x\.lines\[\d\] is a Gift"):
            encode(codec, order, "x")
        return
    read = decode(codec, json.loads(json.dumps(encode(codec, order, "x"))), "x")
    assert read == oracle
    assert [*read.tags] == sorted(order.tags)
    assert [*read.sizes] == sorted(order.sizes)


ORDER_OF_SETS = """
import sys
from dataclasses import dataclass
from typing import Annotated, NamedTuple
from signalbox.core.codec.annotations import codec_of, parse
from signalbox.core.codec.json_forms import decode, encode
from pydantic import BaseModel, ConfigDict, RootModel, computed_field

@dataclass
class Basket:
    items: set[str]
    frozen: frozenset[str]

class Bag(BaseModel):
    items: set[str]
    deep: dict[str, list[frozenset[str]]]

words = "pear plum fig apple quince cherry".split()
basket = parse({"items": words, "frozen": words}, Basket)
bag = parse({"items": words, "deep": {"a": [words]}}, Bag)
left = basket.items - {"fig"} | {"date"}
left |= {"kiwi"}
print([*basket.items], [*basket.frozen], [*bag.items], [*bag.deep["a"][0]], [*left], left.pop(), left, {"a"} | left)
print(encode(codec_of(Bag, "x"), Bag(items=set(words), deep={"a": [frozenset(words)]}), "x"))

class Named(NamedTuple):
    words: set[str]

@dataclass(frozen=True)
class Frozen:
    letters: frozenset[str]

class Root(RootModel[set[str]]): ...

class Deep(BaseModel):
    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, set[str]]
    named: dict[str, Named]
    sets: set[frozenset[str]]
    pairs: set[tuple[int, frozenset[str]]]
    members: set[Frozen]
    root: Root

class Computed(BaseModel):
    text: str

    @computed_field(alias="allLetters")
    @property
    def letters(self) -> set[str]:
        return set(self.text)

class Noted(BaseModel):
    items: set[Annotated[str, {"a": "note without a hash"}]]

sets = {frozenset(word) for word in words}
deep = Deep(
    named={"a": Named(set(words))},
    sets=sets,
    pairs={(1, each) for each in sets},
    members={Frozen(each) for each in sets},
    root=Root(set(words)),
    more=set(words),
)
codec = codec_of(Deep, "x")
written = encode(codec, deep, "x")
read = decode(codec, written, "x")
assert read == deep
print(written, encode(codec, read, "x") == written)
print([*read.named["a"].words], [[*each] for each in read.sets], [[number, *each] for number, each in read.pairs])
print([[*each.letters] for each in read.members], [*read.root.root], [*read.more])
print(encode(codec_of(Computed, "x"), Computed(text="signalbox"), "x"))
print([*decode(codec_of(Noted, "x"), {"items": words}, "x").items])
"""


def test_sets_iterate_and_are_written_in_the_same_order_in_every_process() -> None:
    def printed(seed: str) -> str:
        run = [sys.executable, "-c", ORDER_OF_SETS]
        return subprocess.run(
            run, env={"PYTHONPATH": str(SHARED), "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout

    assert printed("1") == printed("2")


def test_a_set_that_was_read_is_a_set() -> None:
    read = decode(codec_of(set[int], "x"), [3, 1, 2], "x")
    assert (read, repr(read), isinstance(read, set)) == ({1, 2, 3}, "{1, 2, 3}", True)
    assert encode(codec_of(set[int], "x"), read | {4}, "x") == [1, 2, 3, 4]
    assert encode_unannotated(read, "x") == [1, 2, 3]
    read.add(0)
    assert read.pop() == 0
    read.clear()
    with pytest.raises(KeyError):
        read.pop()


class Checked(BaseModel):
    limits: ClassVar[int] = 3
    word: str

    @field_validator("word")
    @classmethod
    def _upper(cls, word: str) -> str:
        return word.upper()


def test_a_validator_that_changes_a_value_once_changes_nothing_more() -> None:
    codec = codec_of(Checked, "x")
    assert encode(codec, Checked(word="a"), "x") == {"word": "A"}
