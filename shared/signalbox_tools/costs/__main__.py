"""Print what operations cost in a month (``signalbox cost --puts 10000000 --copies 10 --steps 1000000``).

The exit status is 2 for an invalid number.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields

from signalbox.catalogue.catalogue_errors import CatalogueError
from signalbox.catalogue.project import KIT, NotAProject
from signalbox.catalogue.reading import load_all
from signalbox_tools.costs.bill import (
    IDLE,
    Line,
    Usage,
    WrongUsage,
    dollars,
    load_prices,
    load_rows,
    money_range,
    month_of,
    total,
)

HELP = {
    "puts": "puts of documents",
    "copies": "documents that embed each put document (at most 100)",
    "pairs": "waits on semaphores that are granted, with their task and signal",
    "units": "units of batches",
    "per_task": "units of a batch that share a task (per_task)",
    "calls": "calls of objects",
    "steps": "steps of flows",
    "payloads": "large values of flows, each stored once and read once by another process",
    "payloads_gib": "GiB of large values that exist at once",
    "documents": "documents in the database, which nightly verifications read once a week",
    "stored_gib": "GiB in the database, with its indexes",
    "backups": "backups that exist at once: 21 with `backups` in the environment's file, as in prod's",
    "recovery_gib": "GiB of old versions for point-in-time recovery (Cloud Monitoring: storage/pitr_storage_bytes)",
    "exports": "exports to a bucket in a month, each of which reads as many records as there are documents",
    "exports_kept": "exports that the bucket has at once",
    "schedules": "schedules; those of the database in the catalogue by default",
    "writers": "anyone, or kit, as documents.written_by in the catalogue; the catalogue's own by default",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    of_database = argparse.ArgumentParser(add_help=False)
    of_database.add_argument("--database", default="", help="the bill of another database of the catalogue alone")
    try:
        declared, others = _declared(of_database.parse_known_args(arguments)[0].database)
    except WrongUsage as error:
        sys.stderr.write(f"{error}\n")
        return 2
    parser = argparse.ArgumentParser(prog="signalbox cost", description=__doc__, parents=[of_database])
    for field in fields(Usage):
        option = f"--{field.name.replace('_', '-')}"
        default = getattr(declared, field.name)
        names = (option, "--written-by") if field.name == "writers" else (option,)
        parser.add_argument(*names, dest=field.name, type=type(field.default), default=default, help=HELP[field.name])
    parser.add_argument("--multi-region", action="store_true", help="a database in a multi-region, at twice the price")
    parser.add_argument("--free-tier", action="store_true", help="subtract the free tiers, as for a separate project")
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = vars(parser.parse_args(arguments))
    choices = {name: given.pop(name) for name in ("multi_region", "free_tier", "database")}
    as_json = given.pop("json")
    try:
        rows = load_rows(KIT.root / "docs" / "costs.yaml")
        lines = month_of(Usage(**given), load_prices(), rows, **choices, others=others)
    except WrongUsage as error:
        sys.stderr.write(f"{error}\n")
        return 2
    notes = [of_the_first(others)] if others else []
    sys.stdout.write(json.dumps(_json(lines, notes), indent=1) + "\n" if as_json else table(lines, notes))
    return 0


def _declared(database: str) -> tuple[Usage, Mapping[str, int]]:
    """Return no operations, with what the project's catalogue declares of a database, or defaults if it is unreadable.

    With the first database, also return the numbers of the schedules of the others, by name. Raises `WrongUsage` for a
    database that the catalogue does not have.
    """
    try:
        catalogues = {each.database: each for each in load_all()}
    except (CatalogueError, NotAProject, OSError) as error:
        if database:
            raise WrongUsage(f"database is {database!r}, but there is no catalogue: {error}") from error
        return Usage(), {}
    if database not in catalogues:
        known = ", ".join(name for name in catalogues if name) or "none but the first"
        raise WrongUsage(f"database is {database!r}: the catalogue has {known}")
    chosen, others = catalogues[database], catalogues if not database else {}
    schedules = {name: len(other.schedules) for name, other in others.items() if name}
    return Usage(writers=chosen.document_writers, schedules=len(chosen.schedules)), schedules


def of_the_first(others: Mapping[str, int]) -> str:
    """Return what a bill does not have of the databases that are not the first one."""
    commands = ", ".join(f"--database {name}" for name in others)
    return (
        "Operations, stored data, backups and exports are counted as those of the first database; of the others, the\n"
        f"bill has the idle deployment alone. For their operations and data: {commands}."
    )


def table(lines: list[Line], notes: Sequence[str] = ()) -> str:
    """Return a bill as text: a row for each of its lines, the sum, and what is not included."""
    rows = [HEAD, *map(_row, lines)]
    low, high = total(lines)
    rows.append(("total", *[""] * (len(HEAD) - 2), money_range(low, high)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    text = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    has_operations = any(not line.name.endswith(IDLE) for line in lines)
    return "\n".join([*text, "", NOTE, *notes, *([] if has_operations else [EXAMPLE])]) + "\n"


HEAD = (
    *("operation", "count", "requests", "Firestore", "tasks", "requests $", "computing", "logs, events"),
    *("other", "total"),
)
EXAMPLE = "No operations were given. Name some: signalbox cost --puts 1000000 --copies 10 --stored-gib 5"
NOTE = (
    f"Dollars a month at the list prices of {load_prices()['read']}; --free-tier takes off what is free.\n"
    "Other: schedules, files of exports, large values, and the metrics of alerts, which are free until September\n"
    "2027. Restores, the transfer of exports to another location and images are not included.\n"
    "Computing: from the processor time of the requests to 100 ms for each, alone in its instance. The time of your\n"
    "own code is not included."
)


def _row(line: Line) -> tuple[str, ...]:
    money = (line.firestore, line.tasks, line.run)
    computing, logs = money_range(*line.computing), dollars(line.logs_and_events)
    counts = (f"{line.count:,}", f"{line.requests:,.0f}")
    return (
        line.name,
        *counts,
        *map(dollars, money),
        computing,
        logs,
        *(money_range(*each) for each in (line.other, line.total)),
    )


def _json(lines: list[Line], notes: Sequence[str]) -> dict[str, object]:
    shown: dict[str, object] = {
        "lines": [{**asdict(line), "total": line.total} for line in lines],
        "total": total(lines),
    }
    return {**shown, "notes": notes} if notes else shown


if __name__ == "__main__":
    sys.exit(main())
