"""What the kit's own part of a user's task costs, as every handled call logs it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from shared.adapters import runtime
from shared.kit import Function, Lease, Unit, batch, semaphore
from tests.unit.kit.kit_town import Town

COUNTED = ("round_trips", "reads", "writes", "deletes", "tasks")


@pytest.fixture
def town() -> Iterator[Town]:
    created = Town()
    app = Function("kitchen")
    app.bind(created.store, created, created)

    @app.task
    def taste(unit: Unit) -> int:
        return unit.index

    @app.task
    def stir(lease: Lease) -> None: ...

    created.functions["kitchen"] = app.entry_point()
    batch("menu").populate(taste.call() for _ in range(10))
    semaphore("stove").ensure(permits=1)
    semaphore("stove").wait(stir.call(), release_on_return=True)
    yield created
    runtime.bind(None)


def costs(town: Town, task: str, capsys: pytest.CaptureFixture[str]) -> list[tuple[int, ...]]:
    """Deliver everything until all tasks of that name have run, and give what each has cost."""
    found = []
    while town.waiting:
        effect = town.waiting.pop(next(iter(town.waiting)))
        capsys.readouterr()
        assert town.deliver(effect) == 204
        said: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
        if effect.task == task:
            found.append(tuple(said[name] for name in COUNTED))
    return found


def test_a_unit_costs_one_round_trip_and_two_writes_and_its_batch_is_looked_up_once(
    town: Town, capsys: pytest.CaptureFixture[str]
) -> None:
    first, *others, last = costs(town, "taste", capsys)
    assert first == (2, 1, 2, 0, 0)
    assert set(others) == {(1, 0, 2, 0, 0)}
    assert last > others[0], "whoever fills a counter passes it on"


def test_a_continuation_costs_a_claim_and_a_signal(town: Town, capsys: pytest.CaptureFixture[str]) -> None:
    assert costs(town, "stir", capsys) == [(4, 2, 2, 0, 0)]
