"""Compute what operations cost in a month, from the rows of docs/costs.yaml and the prices of ``prices.yaml``.

    usage = Usage(puts=10_000_000, copies=10)
    bill_of(usage, PRICES, rows).total            # (low, high) in dollars

An operation is a list of rows, the number of requests that they take, and the number of events among these. Computing
time is a range. Its low end is the processor time of the requests, as if instances were never idle. Its high end is
100 ms (the least that Cloud Run bills) for each request, as if each were alone in its instance.

A month's bill also has the costs of an idle deployment and of stored data. With `free_tier`, its last line subtracts
the free amounts, which Google grants once for a billing account, or for one database of a project.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

PRICES_FILE = Path(__file__).with_name("prices.yaml")
MILLION = 1_000_000
DAYS = 30
CPU_SECONDS = 0.004
"""Processor time of a request: 2 ms on one core of a laptop (`make bench NAME=batches`), doubled for a vCPU."""

GIB = 0.5
"""GiB of memory of an instance: the catalogue's default."""

LOG_BYTES = 700
"""Bytes of the log line of a handled request. Cloud Run's own line is excluded below WARNING."""

EVENT_BYTES = 2 * 1024
"""Billed bytes of an event of up to 1 KB, which is published and delivered."""

WRITERS = ("anyone", "kit")


class WrongUsage(ValueError):
    """A number of operations is invalid. The message names it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Operations in a month. `copies` are the documents that embed each put document.

    `payloads` are large values that are stored, and `payloads_gib` those that exist at once.
    `documents` are those that the database stores, which nightly verifications read. `per_task` units of a batch share
    a task. `writers` is that of the catalogue. `stored_gib` is what the database stores, with its indexes. `schedules`
    are those of the deployment; without any, there is no sweeper. `backups` are the copies that exist at once, and
    `recovery_gib` the old versions that point-in-time recovery stores. Each of the `exports` of a month reads as many
    records as there are `documents`; the bucket has `exports_kept` of them at once.
    """

    puts: int = 0
    copies: int = 0
    pairs: int = 0
    units: int = 0
    per_task: int = 1
    calls: int = 0
    steps: int = 0
    payloads: int = 0
    payloads_gib: float = 0.0
    documents: int = 0
    stored_gib: float = 0.0
    backups: int = 0
    recovery_gib: float = 0.0
    exports: int = 0
    exports_kept: int = 7
    writers: str = "anyone"
    schedules: int = 3

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if each.name != "writers" and value < 0:
                raise WrongUsage(f"{each.name} is {value}: it must not be negative")
        if self.copies > COPIES_MAX:
            raise WrongUsage(f"copies is {self.copies}: it must be at most {COPIES_MAX}, the copies of one page")
        if not 1 <= self.per_task <= PER_TASK_MAX:
            raise WrongUsage(f"per_task is {self.per_task}: it must be 1 to {PER_TASK_MAX}")
        if self.writers not in WRITERS:
            raise WrongUsage(f"writers is {self.writers!r}: choose from {', '.join(WRITERS)}")


NO_OTHERS: Mapping[str, int] = {}

COPIES_MAX = 100

PER_TASK_MAX = 100

NIGHTS_OF_A_CYCLE = 7
"""Nightly verifications that together read each document once, above `NIGHTLY_MIN` documents a night."""

NIGHTLY_MIN = 10_000

PAGE_OF_A_VERIFICATION = 300


@dataclass(frozen=True, slots=True)
class Part:
    """The cost of one operation: its rows in the table of a subject, and its requests; `events` of these are events.

    `shares` has the shares of rows that do not count whole, and `seconds` the processor time of a request.
    """

    name: str
    count: int
    subject: str
    rows: tuple[str, ...]
    requests: float
    events: float = 0
    variables: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
    seconds: float = CPU_SECONDS


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a bill: requests, and costs in dollars; `computing` and `other` have a low and a high end.

    `amounts` has the quantities that are partly free, in the units of the prices.
    """

    name: str
    count: int
    requests: float
    firestore: float
    tasks: float
    run: float
    computing: tuple[float, float]
    logs_and_events: float
    other: tuple[float, float] = (0.0, 0.0)
    amounts: Mapping[str, float] = field(default_factory=dict)

    @property
    def total(self) -> tuple[float, float]:
        """The low and the high end of the sum, in dollars."""
        fixed = self.firestore + self.tasks + self.run + self.logs_and_events
        return fixed + self.computing[0] + self.other[0], fixed + self.computing[1] + self.other[1]


def parts_of(usage: Usage) -> list[Part]:
    """Return the operations of a usage whose count is not 0. Each operation has its rows in the table of costs."""
    return [part for part in (_puts(usage), *_others(usage)) if part.count]


def _puts(usage: Usage) -> Part:
    copies = usage.copies
    name = f"puts with {copies} copies elsewhere" if copies else "puts"
    if usage.writers == "kit":
        rows = ("put", "linked", "followed") if copies else ("put",)
        return Part(name, usage.puts, "documents_of_the_kit", rows, 2 if copies else 1, 0, {"c": copies})
    if not copies:
        return Part(name, usage.puts, "documents", ("put",), 2, 1)
    return Part(name, usage.puts, "documents", ("put", "followed"), 3 + copies, 1 + copies, {"c": copies})


def _others(usage: Usage) -> list[Part]:
    return [
        Part("waits that are granted, with their task and signal", usage.pairs, "semaphores", PAIR, 3),
        _units(usage),
        Part("units removed with their batches", usage.units, "batches", ("removed",), 0),
        Part("calls of objects", usage.calls, "objects", ("call",), 1),
        Part("steps of flows", usage.steps, "flows", ("step",), 1),
        _verified(usage),
    ]


def _units(usage: Usage) -> Part:
    """Return the units of batches. The table has the rows of one unit a task and of 20; others lie on their line."""
    name = f"units of batches, {usage.per_task} in a task" if usage.per_task > 1 else "units of batches"
    alone = (1 / usage.per_task - 1 / 20) / (1 - 1 / 20)
    shares = {"unit": alone, "grouped": 1 - alone}
    seconds = CPU_SECONDS + (usage.per_task - 1) * UNIT_SECONDS
    rows = ("unit", "grouped")
    return Part(name, usage.units, "batches", rows, 0.015 + 1 / usage.per_task, shares=shares, seconds=seconds)


UNIT_SECONDS = 0.001
"""Processor time of a further unit of a task: half a millisecond on one core of a laptop, doubled for a vCPU."""


def _verified(usage: Usage) -> Part:
    """Return the documents that the nightly verifications of a month compare."""
    part = max(usage.documents / NIGHTS_OF_A_CYCLE, min(usage.documents, NIGHTLY_MIN))
    row = "verified_copy" if usage.copies else "verified"
    return Part("documents verified", round(DAYS * part), "verifications", (row,), 1 / PAGE_OF_A_VERIFICATION)


PAIR = ("wait", "claim", "signal")


def bill_of(
    usage: Usage, prices: Mapping[str, Any], rows: Mapping[str, Any], *, multi_region: bool = False
) -> list[Line]:
    """Return the lines of a month's bill in dollars, without free tiers."""
    return [_line(part, prices, rows, multi_region) for part in parts_of(usage)]


def month_of(
    usage: Usage,
    prices: Mapping[str, Any],
    rows: Mapping[str, Any],
    *,
    multi_region: bool = False,
    free_tier: bool = False,
    database: str = "",
    others: Mapping[str, int] = NO_OTHERS,
) -> list[Line]:
    """Return the lines of a month's bill: the operations, the idle deployment, stored data, and free amounts.

    `database` is empty for the first database of a project. `others` are the numbers of the schedules of further
    databases, by name: each is an idle deployment. What Firestore does not charge is that of the first database.
    """
    lines = [
        *bill_of(usage, prices, rows, multi_region=multi_region),
        _idle(usage.schedules, prices, rows, multi_region),
    ]
    if usage.stored_gib:
        gib, costs = usage.stored_gib, usage.stored_gib * _gib_month(prices, multi_region)
        stored = Line("stored, in GiB", round(gib), 0, costs, 0, 0, (0.0, 0.0), 0, amounts={"gib": gib})
        lines.append(stored)
    lines += [*_payloads(usage, prices, rows, multi_region), *_copies(usage, prices, multi_region)]
    lines = [_of_another_database(line) for line in lines] if database else lines
    for name, schedules in others.items():
        idle = _of_another_database(_idle(schedules, prices, rows, multi_region))
        lines.append(replace(idle, name=f"database {name}, {idle.name}"))
    return [*lines, _free(lines, prices, multi_region)] if free_tier else lines


def _of_another_database(line: Line) -> Line:
    """Return a line of a database whose operations and data Firestore charges from the first one."""
    return replace(line, amounts={name: amount for name, amount in line.amounts.items() if name not in OF_FIRESTORE})


OF_FIRESTORE = ("reads", "writes", "deletes", "gib")

IDLE = "idle: sweeps, schedules, alerts"

SWEEPS = DAYS * 24 * 60
METRIC_REFERENCES = 16
"""Metrics in the conditions of a deployment's alerts; a share of requests has two."""


def _idle(schedules: int, prices: Mapping[str, Any], rows: Mapping[str, Any], multi_region: bool) -> Line:
    """Return the line of an idle deployment: sweeps, schedules and alerts."""
    part = Part(IDLE, SWEEPS if schedules else 0, "sweeper", ("idle",), 1)
    sweeps = _line(part, prices, rows, multi_region)
    jobs, alerts = schedules * prices["schedules"]["job"], METRIC_REFERENCES * prices["alerts"]["metric_reference"]
    return replace(sweeps, count=1, other=(jobs, jobs + alerts), amounts={**sweeps.amounts, "jobs": schedules})


def _payloads(usage: Usage, prices: Mapping[str, Any], rows: Mapping[str, Any], multi_region: bool) -> Iterator[Line]:
    """Iterate over the line of large values: each is stored once and opened once, and the sweeper looks for them."""
    if usage.payloads or usage.payloads_gib:
        files = prices["files"]
        requests = usage.payloads / MILLION * (files["create"] + files["open"])
        costs = requests + usage.payloads_gib * files["gib_month"]
        sweeps = _line(Part("", SWEEPS, "payloads", ("sweep",), 0), prices, rows, multi_region)
        name = "large values, stored and opened once"
        yield Line(name, usage.payloads, 0, sweeps.firestore, 0, 0, (0.0, 0.0), 0, (costs, costs), sweeps.amounts)


def _gib_month(prices: Mapping[str, Any], multi_region: bool) -> float:
    return float(prices["firestore"]["gib_month_multi_region" if multi_region else "gib_month"])


def _copies(usage: Usage, prices: Mapping[str, Any], multi_region: bool) -> list[Line]:
    """Return the lines of the copies of the data. Nothing of them is free, and a backup is as large as the database."""
    store, gib = prices["firestore"], usage.stored_gib
    recovery = store["recovery_gib_month_multi_region" if multi_region else "recovery_gib_month"]
    read = store["read"] / MILLION * (store["multi_region"] if multi_region else 1)
    files = usage.exports_kept * gib * prices["files"]["gib_month"] + prices["schedules"]["job"]
    lines = (
        Line("backups", usage.backups, 0, usage.backups * gib * store["backup_gib_month"], 0, 0, (0.0, 0.0), 0),
        Line(
            "old versions, in GiB", math.ceil(usage.recovery_gib), 0, usage.recovery_gib * recovery, 0, 0, (0.0, 0.0), 0
        ),
        Line("exports", usage.exports, 0, usage.exports * usage.documents * read, 0, 0, (0.0, 0.0), 0, (files, files)),
    )
    return [line for line in lines if line.count]


def _free(lines: Sequence[Line], prices: Mapping[str, Any], multi_region: bool) -> Line:
    """Return a line of negative amounts: the free part of these lines."""

    def off(name: str, free: float, price: float) -> float:
        return -min(sum(line.amounts.get(name, 0.0) for line in lines), free) * price

    store, run = prices["firestore"], prices["run"]
    factor = store["multi_region"] if multi_region else 1
    daily, monthly = store["free_a_day"], run["free_a_month"]
    operations = sum(off(f"{each}s", DAYS * daily[each], factor * store[each] / MILLION) for each in daily)
    low, high = (
        off(f"vcpu_seconds_{end}", monthly["vcpu_seconds"], run["vcpu_second"])
        + off(f"gib_seconds_{end}", monthly["gib_seconds"], run["gib_second"])
        for end in ("low", "high")
    )
    jobs = off("jobs", prices["schedules"]["free_jobs"], prices["schedules"]["job"])
    return Line(
        name="free of charge",
        count=1,
        requests=0,
        firestore=operations + off("gib", store["free_gib"], _gib_month(prices, multi_region)),
        tasks=off("task_operations", prices["tasks"]["free_a_month"], prices["tasks"]["million"] / MILLION),
        run=off("requests", monthly["requests"], run["requests_million"] / MILLION),
        computing=(low, high),
        logs_and_events=off("log_gib", prices["logs"]["free_gib"], prices["logs"]["gib"]),
        other=(jobs, jobs),
    )


def _line(part: Part, prices: Mapping[str, Any], rows: Mapping[str, Any], multi_region: bool) -> Line:
    taken = {name: sum(_share(part, rows, row, name) for row in part.rows) for name in TAKEN}
    store, run = prices["firestore"], prices["run"]
    factor = store["multi_region"] if multi_region else 1
    requests = part.count * part.requests
    operations = sum(taken[f"{each}s"] * store[each] for each in ("read", "write", "delete"))
    second = run["vcpu_second"] + GIB * run["gib_second"]
    billed = run["rounded_up_to_seconds"]
    low, high = requests * part.seconds, requests * billed * math.ceil(part.seconds / billed)
    task_operations = part.count * taken["tasks"] * prices["tasks"]["operations_a_task"]
    log_gib = requests * LOG_BYTES / 2**30
    return Line(
        name=part.name,
        count=part.count,
        requests=requests,
        firestore=part.count / MILLION * factor * operations,
        tasks=task_operations / MILLION * prices["tasks"]["million"],
        run=requests / MILLION * run["requests_million"],
        computing=(low * second, high * second),
        logs_and_events=log_gib * prices["logs"]["gib"]
        + part.count * part.events * EVENT_BYTES / 2**40 * prices["events"]["tib"],
        amounts={
            **{f"{each}s": part.count * taken[f"{each}s"] for each in ("read", "write", "delete")},
            "task_operations": task_operations,
            "requests": requests,
            "log_gib": log_gib,
            **{f"vcpu_seconds_{end}": seconds for end, seconds in (("low", low), ("high", high))},
            **{f"gib_seconds_{end}": GIB * seconds for end, seconds in (("low", low), ("high", high))},
        },
    )


TAKEN = ("reads", "writes", "deletes", "tasks")


def _share(part: Part, rows: Mapping[str, Any], row: str, name: str) -> float:
    return part.shares.get(row, 1.0) * _figure(rows[part.subject][row], name, part.variables)


def _figure(row: Mapping[str, Any], name: str, variables: Mapping[str, int]) -> float:
    text = str(row.get(name, 0)).removeprefix("<").strip()
    return float(eval(text, {"max": max, "min": min}, dict(variables)))  # noqa: S307  an expression of the project's own table


def total(lines: list[Line]) -> tuple[float, float]:
    """Return the low and the high end of a bill, in dollars."""
    return sum(line.total[0] for line in lines), sum(line.total[1] for line in lines)


CENTS_BELOW = 10
"""Amounts of this many dollars or more are shown without cents."""


def dollars(amount: float) -> str:
    """Return an amount of dollars as text, with cents below `CENTS_BELOW`."""
    sign, size = "-" if amount <= -0.005 else "", abs(amount)
    return f"{sign}${size:,.2f}" if size < CENTS_BELOW else f"{sign}${size:,.0f}"


def money_range(low: float, high: float) -> str:
    """Return a range of two amounts, or one amount if they read the same."""
    first, last = dollars(low), dollars(high)
    if first == last:
        return first
    return f"{first} to {last}" if low < 0 else f"{first}–{last.removeprefix('$')}"


def load_prices() -> dict[str, Any]:
    """Return the content of ``prices.yaml``."""
    read: dict[str, Any] = yaml.safe_load(PRICES_FILE.read_text("utf-8"))
    return read


def load_rows(file: Path) -> dict[str, Any]:
    """Return the rows of a table of costs, by subject and row."""
    return {part["subject"]: part["rows"] for part in yaml.safe_load(file.read_text("utf-8"))}
