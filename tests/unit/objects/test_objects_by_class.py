"""Objects that are addressed by their class, so that methods and results have their types."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from signalbox import Function, batch, flows, objects, read_only
from signalbox.core.problems import TooLarge
from signalbox.objects.api import Object
from signalbox.objects.machine.classes import OF_EVERY_OBJECT, ObjectClass
from signalbox.objects.problems import BadObjectCall
from signalbox.testing import Harness

app = Function("desk")
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@dataclass
class Note:
    text: str
    at: datetime = NOON


@app.object
class Bike:
    notes: list[Note] = []  # noqa: RUF012  an object starts with a copy

    def note(self, note: Note, count: int = 1) -> Note:
        self.notes += [note] * count
        return note

    @read_only
    def last(self) -> Note | None:
        return self.notes[-1] if self.notes else None

    @read_only
    def texts(self) -> list[str]:
        return [note.text for note in self.notes]

    def size(self, letters: int) -> str:
        return "x" * letters


@app.flow
async def noted() -> Any:
    note = await objects(Bike, "1")(Bike.note, Note("by the flow"), count=2)
    return [note.text, note.at == NOON]


@app.http("POST", "/work")
def work(_: Any) -> Any:
    placeholder = objects(Bike, "1")(Bike.note, Note("a"))
    last = objects(Bike, "1")(Bike.last).result()
    return [placeholder.result() == Note("a"), last == Note("a")]


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(app)
        yield harness


def test_methods_of_a_class_are_called_and_return_values_of_their_types(harness: Harness) -> None:
    assert harness.post("/desk/work", json={}).json == [True, True]
    flows("noted", "1").start()
    harness.run()
    assert flows("noted", "1").status().result == ["by the flow", True]
    batch("notes").populate([objects(Bike, "1").call(Bike.note, Note("task"))])
    once = objects(Bike, "1").with_(id="once", delay_seconds=5)
    for _ in range(2):
        once(Bike.note, note=Note("late"))
    harness.travel(10)
    assert harness.post("/desk/objects/Bike/1/texts", json={}).json["result"] == [
        *["a", "by the flow", "by the flow", "task", "late"]
    ]
    objects(Bike, "1").delete()
    harness.run()
    assert harness.get("/desk/objects/Bike/1").json["exists"] is False


def test_a_wrong_call_by_class_is_refused_where_it_is_made(harness: Harness) -> None:
    bike: Any = objects(Bike, "1")
    with pytest.raises(TypeError, match="missing a required argument: 'note'"):
        bike(Bike.note)
    with pytest.raises(TypeError, match=r"upper is not a method of Bike: write `Bike\.METHOD`"):
        bike(str.upper)
    with pytest.raises(BadObjectCall, match="Only the code of a flow can await"):
        bike(Bike.note, Note("a")).__await__()
    harness.run()


@pytest.mark.parametrize("name", sorted(OF_EVERY_OBJECT))
def test_a_method_whose_calls_would_not_reach_it_is_refused_with_its_class(name: str) -> None:
    with pytest.raises(TypeError, match=f"Wrong.{name}: every object has `{name}` already. Choose another name"):
        ObjectClass.from_class(type("Wrong", (), {name: lambda self: self}))


def test_the_reserved_names_are_those_of_an_object() -> None:
    assert {name for name in dir(Object) if not name.startswith("_")} == OF_EVERY_OBJECT


def test_the_limit_of_a_result_counts_the_result(harness: Harness) -> None:
    letters = 100 * 1024 - 2  # and its two quotes
    assert harness.post("/desk/objects/Bike/1/size", json={"letters": letters}).status == 200
    assert harness.post("/desk/objects/Bike/1/size", json={"letters": letters + 1}).status == TooLarge.status
