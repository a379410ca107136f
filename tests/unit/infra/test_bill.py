"""What a month costs is computed from the counted operations, and the counts are those of whole operations."""

import json
from dataclasses import replace

import pytest

from signalbox.catalogue.project import KIT
from signalbox.core import names
from signalbox.documents.machine.reactions import WRITERS
from signalbox_infra.costs.__main__ import main, money_range
from signalbox_infra.costs.bill import Usage, WrongUsage, bill_of, load_prices, load_rows, parts_of, total
from tests.unit.cost_table import FIGURES, row_cost
from tests.unit.cost_table import total as sum_of
from tests.unit.operations_platform import OperationsPlatform

ROWS = load_rows(KIT.root / "docs" / "costs.yaml")


@pytest.mark.parametrize("copies", [1, 10, 100])
def test_a_put_with_all_that_follows_costs_and_starts_what_the_bill_says(copies: int) -> None:
    world = OperationsPlatform()
    world.put("t", n=1)
    for number in range(copies):
        world.put(f"p{number:03}", a={"key": "t"})
    world.settle()
    world.put("t", n=2)
    world.settle()
    costs = [world.cost_of(lambda: world.put("t", n=3))]
    while world.tasks or world.events:
        costs.append(world.deliver() if world.events else world.work())
    [part] = parts_of(Usage(puts=1, copies=copies))
    assert sum_of(*costs) == row_cost("documents", "put", "followed", c=copies)
    assert (len(costs), part.requests, part.events) == (3 + copies, 3 + copies, 1 + copies)


def test_if_only_the_kit_writes_documents_a_put_starts_two_functions() -> None:
    with WRITERS.replaced(names.KIT):
        world = OperationsPlatform()
        world.put("t", n=1)
        for number in range(10):
            world.put(f"p{number}", a={"key": "t"})
        while world.tasks:
            world.work()
        costs = [world.cost_of(lambda: world.put("t", n=2))]
        while world.tasks:
            costs.append(world.work())
    [part] = parts_of(Usage(puts=1, copies=10, writers="kit"))
    assert sum_of(*costs) == row_cost("documents_of_the_kit", "put", "linked", "followed", c=10)
    assert len(costs) == part.requests == 2


def test_a_bill_is_the_sum_of_its_operations_and_proportional_to_their_number() -> None:
    usage = Usage(puts=1_000, copies=3, pairs=1_000, units=1_000, calls=1_000, steps=1_000)
    prices = load_prices()
    once, twice = (
        total(bill_of(each, prices, ROWS))
        for each in (usage, replace(usage, puts=2_000, pairs=2_000, units=2_000, calls=2_000, steps=2_000))
    )
    assert twice == pytest.approx((2 * once[0], 2 * once[1]))
    lines = bill_of(usage, prices, ROWS)
    assert total(lines) == pytest.approx(tuple(map(sum, zip(*(line.total for line in lines), strict=True))))
    [step] = bill_of(Usage(steps=1_000_000), prices, ROWS)
    assert step.firestore == pytest.approx(1 * 0.30 + 2 * 0.90 + 1 * 0.10)
    assert step.tasks == pytest.approx(2 * 0.40)
    assert bill_of(Usage(steps=1_000_000), prices, ROWS, multi_region=True)[0].firestore == 2 * step.firestore


def test_every_price_has_its_page_and_the_date_when_it_was_read() -> None:
    prices = load_prices()
    assert prices.pop("read") >= "2026-11"
    groups = [*(each for name, each in prices.items() if name != "rivals"), *prices["rivals"].values()]
    assert all(each["page"].startswith("https://") for each in groups)


@pytest.mark.parametrize(
    ("usage", "complaint"),
    [
        ({"puts": -1}, "puts is -1: it must not be negative"),
        ({"copies": 101}, "copies is 101: it must be at most 100"),
        ({"writers": "me"}, "writers is 'me': choose from anyone, kit"),
    ],
)
def test_numbers_that_cannot_be_are_refused(usage: dict[str, object], complaint: str) -> None:
    with pytest.raises(WrongUsage, match=complaint):
        Usage(**usage)  # type: ignore[arg-type]  # wrong on purpose


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--steps=1000000", "--puts=1000"]) == 0
    shown = capsys.readouterr().out
    assert "steps of flows" in shown
    assert main(["--steps=1000000", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert money_range(*answer["total"]) in shown
    assert main(["--copies=-3"]) == 2
    assert "must not be negative" in capsys.readouterr().err
    assert main([]) == 0
    assert "Name some:" in capsys.readouterr().out


def test_every_figure_of_a_row_is_priced() -> None:
    assert {"reads", "writes", "deletes", "tasks"} == set(FIGURES) - {"round_trips"}
