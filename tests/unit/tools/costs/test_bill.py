"""What a month costs is computed from the counted operations, and the counts are those of whole operations."""

import json
from dataclasses import replace
from typing import Any

import pytest

from signalbox.catalogue.project import KIT
from signalbox.catalogue.reading import load
from signalbox.core import kit_names
from signalbox.documents.machine.reactions import WRITERS
from signalbox.links.limits import LIMITS as LINKS
from signalbox_tools.costs import __main__ as costs_command
from signalbox_tools.costs import bill
from signalbox_tools.costs.__main__ import main
from signalbox_tools.costs.bill import (
    METRIC_REFERENCES,
    Usage,
    WrongUsage,
    bill_of,
    load_prices,
    load_rows,
    money_range,
    month_of,
    parts_of,
    total,
)
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
    with WRITERS.replaced(kit_names.KIT):
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


def test_units_that_share_a_task_cost_a_third() -> None:
    """The table has rows of one unit a task and of 20; a task of 10 lies between them."""
    prices = load_prices()
    bills = [bill_of(Usage(units=10_000_000, per_task=each), prices, ROWS)[0] for each in (1, 10, 20)]
    assert [line.firestore for line in bills] == pytest.approx([19.75, 11.58, 11.12], abs=0.05)
    assert bills[0].requests == pytest.approx(10_150_000)
    assert bills[2].requests == pytest.approx(650_000)
    assert total(bills[2:])[0] < total(bills[:1])[0] * 0.36


@pytest.mark.parametrize(
    ("documents", "copies", "reads"),
    [(0, 0, 0), (5_000, 0, 30 * 5_000 * 1.03), (7_000_000, 0, 30 * 1_000_000 * 1.03), (7_000_000, 10, 30e6 * 2.03)],
)
def test_stored_documents_cost_the_reads_of_nightly_verifications(documents: int, copies: int, reads: float) -> None:
    lines = bill_of(Usage(documents=documents, copies=copies), load_prices(), ROWS)
    assert sum(line.amounts["reads"] for line in lines) == pytest.approx(reads)


def test_the_bill_has_the_limits_of_verifications_and_groups() -> None:
    assert (LINKS.verify_parts, LINKS.verify_part_documents_min) == (bill.NIGHTS_OF_A_CYCLE, bill.NIGHTLY_MIN)
    assert LINKS.verify_page_documents_max == bill.PAGE_OF_A_VERIFICATION


def test_the_command_takes_the_writers_that_the_catalogue_declares(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = replace(load(), document_writers="kit")
    monkeypatch.setattr(costs_command, "load_all", lambda: [declared])
    assert costs_command.main(["--puts=1000000", "--copies=10", "--json"]) == 0
    by_default = capsys.readouterr().out
    assert costs_command.main(["--puts=1000000", "--copies=10", "--written-by=kit", "--json"]) == 0
    assert by_default == capsys.readouterr().out


def test_each_database_of_the_catalogue_has_its_idle_deployment_and_the_bill_says_what_it_counts_for_the_first_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, payments = load(), replace(load(), database="payments")
    monkeypatch.setattr(costs_command, "load_all", lambda: [first, payments])
    assert main(["--puts=1000000", "--free-tier", "--json"]) == 0
    bill = json.loads(capsys.readouterr().out)
    lines = {line["name"]: line for line in bill["lines"]}
    idle, other = lines["idle: sweeps, schedules, alerts"], lines["database payments, idle: sweeps, schedules, alerts"]
    assert (idle["firestore"], idle["amounts"]["jobs"]) == (other["firestore"], other["amounts"]["jobs"])
    assert idle["amounts"]["jobs"] == len(first.schedules), "and not those of both"
    assert "reads" not in other["amounts"], "Firestore is free for one database of a project"
    assert bill["total"][0] == pytest.approx(sum(line["total"][0] for line in bill["lines"]))
    assert "--database payments" in bill["notes"][0]
    assert main([]) == 0
    table = capsys.readouterr().out
    assert "counted as those of the first database; of the others, the\nbill has the idle deployment alone" in table
    assert "No operations were given." in table
    assert main(["--puts=1000000", "--database=payments", "--free-tier", "--json"]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert [line["name"] for line in alone["lines"]] == ["puts", "idle: sweeps, schedules, alerts", "free of charge"]
    assert (alone["lines"][2]["firestore"], "notes" in alone) == (0, False)
    assert main(["--database=cards"]) == 2
    assert capsys.readouterr().err == "database is 'cards': the catalogue has payments\n"


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
        ({"per_task": 0}, "per_task is 0: it must be 1 to 100"),
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
    assert main(["--steps=1000000", "--puts=1000", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert money_range(*answer["total"]) in shown
    assert main(["--copies=-3"]) == 2
    assert "must not be negative" in capsys.readouterr().err
    assert main([]) == 0
    idle = capsys.readouterr().out
    assert "Name some:" in idle
    assert "idle: sweeps, schedules, alerts" in idle
    assert main(["--steps=1000000", "--stored-gib=2.5", "--free-tier"]) == 0
    assert "free of charge" in capsys.readouterr().out


def test_a_month_has_what_is_idle_and_stored() -> None:
    prices = load_prices()
    idle, stored = month_of(Usage(stored_gib=10), prices, ROWS)
    sweeps = 30 * 24 * 60
    assert idle.firestore == pytest.approx(sweeps * ROWS["sweeper"]["idle"]["reads"] * 0.30 / 1e6)
    assert idle.requests == sweeps
    assert idle.other == pytest.approx((0.30, 0.30 + METRIC_REFERENCES * 0.35))
    assert len(load().schedules) == Usage().schedules
    [nothing] = month_of(Usage(schedules=0), prices, ROWS)
    assert (nothing.firestore, nothing.requests, nothing.other[0]) == (0, 0, 0)
    assert stored.total == pytest.approx((1.5, 1.5))
    assert month_of(Usage(stored_gib=10), prices, ROWS, multi_region=True)[1].firestore == pytest.approx(1.8)


@pytest.mark.parametrize(
    ("copies", "name", "region", "multi_region"),
    [
        ({"backups": 21}, "backups", 21 * 10 * 0.03, 21 * 10 * 0.03),
        ({"recovery_gib": 3.5}, "old versions, in GiB", 3.5 * 0.15, 3.5 * 0.18),
        (
            {"exports": 30, "documents": 5_000_000},
            "exports",
            30 * 5 * 0.30 + 7 * 10 * 0.02 + 0.10,
            30 * 5 * 0.60 + 7 * 10 * 0.02 + 0.10,
        ),
        (
            {"exports": 4, "documents": 5_000_000, "exports_kept": 1},
            "exports",
            4 * 5 * 0.30 + 10 * 0.02 + 0.10,
            4 * 5 * 0.60 + 10 * 0.02 + 0.10,
        ),
    ],
)
def test_copies_of_the_data_cost_their_storage_and_exports_also_a_read_of_each_record(
    copies: dict[str, Any], name: str, region: float, multi_region: float
) -> None:
    usage = replace(Usage(stored_gib=10), **copies)
    for is_multi, expected in ((False, region), (True, multi_region)):
        lines = month_of(usage, load_prices(), ROWS, multi_region=is_multi)
        [line] = [each for each in lines if each.name == name]
        assert line.total == pytest.approx((expected, expected))
        paid = month_of(usage, load_prices(), ROWS, multi_region=is_multi, free_tier=True)
        assert [each.total for each in paid if each.name == name] == [line.total]
    assert name not in [each.name for each in month_of(Usage(stored_gib=10), load_prices(), ROWS)]


def test_the_free_tier_is_subtracted_up_to_the_usage() -> None:
    prices = load_prices()
    *_, free = month_of(Usage(stored_gib=10), prices, ROWS, free_tier=True)
    assert free.tasks == 0
    assert free.other == pytest.approx((-0.30, -0.30))
    assert total(month_of(Usage(), prices, ROWS, free_tier=True))[0] == pytest.approx(0, abs=1e-6)
    usage = Usage(steps=100_000_000, stored_gib=10)
    *_, free = month_of(usage, prices, ROWS, free_tier=True)
    operations = 30 * (50_000 * 0.30 + 20_000 * 0.90 + 20_000 * 0.10) / 1e6
    assert free.firestore == pytest.approx(-(operations + 1 * 0.15))
    assert (free.tasks, free.run) == pytest.approx((-0.40, -0.80))
    seconds = 100_000_000 * 0.004, 100_000_000 * 0.1
    vcpu, memory = (
        (min(each, 180_000) * 0.000024 for each in seconds),
        (min(each / 2, 360_000) * 2.5e-6 for each in seconds),
    )
    assert free.computing == pytest.approx(tuple(-a - b for a, b in zip(vcpu, memory, strict=True)), rel=0.01)


def test_every_figure_of_a_row_is_priced() -> None:
    assert {"reads", "writes", "deletes", "tasks"} == set(FIGURES) - {"round_trips"}


def test_large_values_are_billed_by_their_requests_their_size_and_the_sweeps_that_look_for_them() -> None:
    usage = Usage(payloads=2_000_000, payloads_gib=50)
    [line] = [each for each in month_of(usage, load_prices(), ROWS) if each.name.startswith("large values")]
    assert list(line.other) == pytest.approx([2 * 5.40 + 50 * 0.02] * 2)
    assert line.firestore == pytest.approx(2 * 43_200 * 0.30 / 1_000_000)
    assert not [each for each in month_of(Usage(), load_prices(), ROWS) if each.name.startswith("large values")]
