"""A dataclass whose methods are generated late behaves as one of `dataclasses`."""

import copy
import dataclasses
import inspect
import pickle
import pprint
from concurrent.futures import ThreadPoolExecutor
from dataclasses import InitVar, field
from pathlib import Path
from typing import Any, get_type_hints

import pytest

import signalbox
from signalbox.core.lazy_dataclasses import dataclass, lazy_dataclass, replaced


def place_class(dataclass: Any, **options: Any) -> Any:
    """Return a class with fields of each kind."""

    @dataclass(**{"frozen": True, "slots": True} | options)
    class Place:
        name: str
        count: int = 2
        tags: list[str] = field(default_factory=list)
        noted: str = field(default="", compare=False, repr=False)
        length: int = field(init=False, compare=False, default=0)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

        @property
        def doubled(self) -> int:
            return 2 * self.count

    return Place


def outcome(act: Any) -> Any:
    """Return what an act returns, or the type and text of what it raises."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001  the error is what is compared
        return type(error), str(error)


ACTS = {
    "made": lambda cls: (cls("a").count, cls("ab", 3).length, cls(name="a", tags=["x"]).tags, cls("a").doubled),
    "shown": lambda cls: repr(cls("a", 3, noted="n")),
    "equal": lambda cls: (cls("a") == cls("a", noted="n"), cls("a") == cls("b"), cls("a") == "a", cls("a") != cls("b")),
    "hashed": lambda cls: hash(cls("a", 3)),
    "in a set": lambda cls: len({cls("a", noted="x"), cls("a", noted="y")}),
    "sorted": lambda cls: [each.name for each in sorted([cls("b"), cls("a")])],
    "replaced": lambda cls: dataclasses.replace(cls("a"), count=9),
    "as a dict": lambda cls: dataclasses.asdict(cls("a")),
    "as a tuple": lambda cls: dataclasses.astuple(cls("a")),
    "fields": lambda cls: [each.name for each in dataclasses.fields(cls)],
    "matched": lambda cls: cls.__match_args__,
    "slots": lambda cls: cls.__slots__,
    "copied": lambda cls: copy.deepcopy(cls("a", 4, ["x"], "n")).noted,
    "too few": lambda cls: cls(),
    "too many": lambda cls: cls("a", 1, [], "", 0, 0),
    "unknown": lambda cls: cls("a", colour=1),
    "assigned": lambda cls: setattr(cls("a"), "count", 3),
    "deleted": lambda cls: delattr(cls("a"), "count"),
    "no such slot": lambda cls: getattr(cls("a"), "colour"),  # noqa: B009  a checker would see that there is none
    "named": lambda cls: (cls.__name__, cls.__qualname__, cls.__init__ is not object.__init__),
    "signature": lambda cls: str(inspect.signature(cls)),
    "hints": lambda cls: get_type_hints(cls.__init__),
    "module": lambda cls: cls.__init__.__module__,
    "options": lambda cls: repr(cls.__dataclass_params__),
    "printed": lambda cls: pprint.pformat(cls("a" * 60)),
}
OPTIONS = [{}, {"order": True}, {"kw_only": True}, {"eq": False}, {"frozen": False}, {"weakref_slot": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
def test_each_act_on_a_new_class_has_the_outcome_of_dataclasses(act: Any, options: dict[str, bool]) -> None:
    ours, theirs = (
        outcome(lambda made=made: act(place_class(made, **options))) for made in (lazy_dataclass, dataclasses.dataclass)
    )
    if options == {"eq": False} and act is ACTS["hashed"]:
        assert isinstance(ours, int)  # by identity
    else:
        assert repr(ours) == repr(theirs)


CHANGES: list[dict[str, Any]] = [{}, {"count": 9}, {"name": "bcd", "tags": ["x"]}, {"noted": "n", "count": None}]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("changes", CHANGES, ids=str)
def test_a_changed_copy_is_the_one_of_dataclasses(changes: dict[str, Any], options: dict[str, bool]) -> None:
    place = place_class(lazy_dataclass, **options)(name="a", count=3, tags=["t"])
    ours, theirs = replaced(place, **changes), dataclasses.replace(place, **changes)
    assert (repr(ours), ours.noted, ours.length) == (repr(theirs), theirs.noted, theirs.length)
    with pytest.raises(TypeError, match="colour"):
        replaced(place, colour="red")
    with pytest.raises(TypeError, match="length"):
        replaced(place, length=3)


def test_a_copy_of_a_subclass_has_its_fields() -> None:
    place = place_class(lazy_dataclass)

    @dataclasses.dataclass(frozen=True)
    class Port(place):  # type: ignore[misc, valid-type]  # a class that is a value
        ships: int = 0

    port = replaced(Port("p", ships=2), count=5)
    assert (type(port), port.count, port.ships) == (Port, 5, 2)


def test_a_class_inherits_fields() -> None:
    place = place_class(lazy_dataclass)

    @lazy_dataclass(frozen=True, slots=True)
    class Town(place):  # type: ignore[misc, valid-type]  # a class that is a value
        mayor: str = ""

    town = Town("a", mayor="m")
    assert (town.count, town.mayor, town == Town("a", mayor="m"), town == place("a")) == (2, "m", True, False)
    with pytest.raises(dataclasses.FrozenInstanceError):
        town.count = 3


def test_a_frozen_class_of_dataclasses_may_inherit_from_it() -> None:
    place = place_class(lazy_dataclass)

    @dataclasses.dataclass(frozen=True)
    class Port(place):  # type: ignore[misc, valid-type]  # a class that is a value
        ships: int = 0

    assert Port("p", ships=2).count == 2
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.dataclass(type("Buoy", (place,), {}))


def test_a_subclass_that_is_no_dataclass_may_have_attributes_of_its_own() -> None:
    place = place_class(lazy_dataclass)

    class Village(place):  # type: ignore[misc, valid-type]  # a class that is a value
        pass

    village = Village("v")
    village.priest = "p"
    with pytest.raises(dataclasses.FrozenInstanceError):
        village.count = 3
    assert (village.priest, place("v") == village) == ("p", False)


@dataclass(frozen=True, slots=True)
class Sent:
    name: str
    parts: tuple[int, ...] = ()


def test_a_frozen_value_is_pickled() -> None:
    assert pickle.loads(pickle.dumps(Sent("a", (1, 2)))) == Sent("a", (1, 2))  # noqa: S301  what this test wrote


def test_no_method_is_generated_before_it_is_looked_up() -> None:
    place = place_class(lazy_dataclass)
    assert not callable(vars(place)["__init__"])
    place("a")
    assert callable(vars(place)["__init__"])
    assert not callable(vars(place)["__eq__"])
    assert place("a") == place("a")
    assert callable(vars(place)["__eq__"])


def test_a_method_that_is_held_before_the_first_use_is_the_generated_one() -> None:
    place = place_class(lazy_dataclass)
    held = place.__repr__
    assert held(place("a")) == repr(place("a"))
    assert held is place.__repr__


@pytest.mark.parametrize("made", [lazy_dataclass, dataclasses.dataclass])
def test_a_field_without_a_default_after_one_with_a_default_is_refused_where_the_class_is_made(made: Any) -> None:
    with pytest.raises(TypeError, match="default"):

        @made(frozen=True)
        class Town(place_class(made)):  # type: ignore[misc]  # a class that is a value
            mayor: str

    @made(frozen=True)
    class Port(place_class(made)):  # type: ignore[misc]  # a class that is a value
        ships: int = field(kw_only=True)
        drawn: int = field(init=False)

    assert Port("p", ships=2).ships == 2


def test_a_field_may_be_called_self() -> None:
    @lazy_dataclass(frozen=True, slots=True)
    class Person:
        self: str

    assert Person(self="a").self == "a"  # type: ignore[call-arg]  # mypy takes the field for the instance


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("frozen_base", [True, False])
@pytest.mark.parametrize("made", [lazy_dataclass, dataclasses.dataclass])
def test_a_subclass_is_frozen_if_and_only_if_its_base_is(made: Any, frozen_base: bool, frozen: bool) -> None:
    def mayor_of(base: Any) -> Any:
        @made(frozen=frozen)
        class Town(base):  # type: ignore[misc]  # a class that is a value
            mayor: str = ""

        return Town("a", mayor="m").mayor

    ours, theirs = (
        outcome(lambda made=made: mayor_of(place_class(made, frozen=frozen_base)))
        for made in (lazy_dataclass, dataclasses.dataclass)
    )
    assert ours == theirs


def test_a_copy_has_the_attributes_that_a_subclass_adds() -> None:
    place = place_class(lazy_dataclass, slots=False)

    class Village(place):  # type: ignore[misc, valid-type]  # a class that is a value
        pass

    village = Village("v")
    village.priest = "p"
    assert copy.copy(village).priest == "p"


def test_threads_that_use_a_new_class_at_once_get_equal_values() -> None:
    for _ in range(20):
        place = place_class(lazy_dataclass)
        with ThreadPoolExecutor(8) as pool:
            assert {each == place("a") for each in pool.map(lambda _, place=place: place("a"), range(8))} == {True}


def test_every_dataclass_of_the_package_is_generated_late() -> None:
    own = Path(str(signalbox.__file__)).parent
    eager = [
        str(path.relative_to(own))
        for path in own.rglob("*.py")
        if any(
            "from dataclasses import" in line and "dataclass" in line.split("import", 1)[1].replace(",", " ").split()
            for line in path.read_text("utf-8").splitlines()
        )
    ]
    assert eager == ["core/lazy_dataclasses.py"]


# --- the class's own methods and variables ---


def test_a_class_with_an_init_variable_is_refused_at_its_definition() -> None:
    with pytest.raises(TypeError, match=r"Place\.count is an InitVar"):

        @dataclass(slots=True)
        class Place:
            name: str
            count: InitVar[int] = 2


def test_a_class_with_a_method_that_an_option_generates_is_refused_at_its_definition() -> None:
    with pytest.raises(TypeError, match="Place has a method __setattr__"):

        @dataclass(frozen=True)
        class Place:
            def __setattr__(self, name: str, value: object) -> None: ...

    with pytest.raises(TypeError, match="Other has a method __lt__"):

        @dataclass(order=True)
        class Other:
            def __lt__(self, other: object) -> bool:  # type: ignore[misc]  # mypy refuses it, too
                return False


def test_a_class_keeps_its_own_way_to_be_copied() -> None:
    @dataclass(frozen=True, slots=True)
    class Place:
        name: str

        def __getstate__(self) -> str:
            return self.name.upper()

        def __setstate__(self, state: str) -> None:
            object.__setattr__(self, "name", state)

    assert copy.copy(Place("a")).name == "A"


def test_a_class_that_is_not_hashable_stays_so() -> None:
    @dataclass(frozen=True)
    class Place:
        name: str
        __hash__ = None  # type: ignore[assignment]  # how a class is made unhashable

    with pytest.raises(TypeError, match="unhashable"):
        hash(Place("a"))
