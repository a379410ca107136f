"""Formats: which release can read a record or a task.

One number counts the formats of all kinds of records and tasks. A format of 2 or later is stored with the data: of a
record in its field ``format``, of a document in its reserved map, of a task in the member ``format`` of its envelope,
which is a member of the effect's context. Data without such a field has format 1, so format 1 costs nothing.

A shape that the previous release cannot read gets the next format. One release reads it, and still writes the one
before; the release after that writes it. So two consecutive releases can run at once, in either direction. Records that
only a new option writes have the new format from the beginning: before the option is used, no such record exists. A
process that nevertheless reads a newer format raises `NewerFormat`, which is retried until its function is deployed
again. Both stores, the events of documents and the deliveries of tasks check the format before other code sees the
data.
"""

from collections.abc import Collection, Mapping
from typing import Any

from signalbox.core.problems import NewerFormat

READS = 1
"""The newest format that this release reads."""

FORMAT = "format"

OPEN_RECORDS: Mapping[str, str | None] = {"documents": "_signalbox", "yokes": None}
"""Collections whose records other clients also write, mapped to the field of a record that belongs to the kit, if any.

All other fields of such a record belong to users, even a field that is called ``format``.
"""


def check_record(path: str, data: Mapping[str, Any]) -> None:
    """Raise `NewerFormat` for a record that this release cannot read."""
    collection = path.partition("/")[0]
    if collection not in OPEN_RECORDS:
        _check(data.get(FORMAT, 1), path)
    elif (kits := OPEN_RECORDS[collection]) and isinstance(held := data.get(kits), Mapping):
        _check(held.get(FORMAT, 1), path)


def check_task(name: str, context: Mapping[str, Any]) -> None:
    """Raise `NewerFormat` for a task that this release cannot run."""
    _check(context.get(FORMAT, 1), f"the task {name}")


def check_known(function: str, task: str, known: Collection[str]) -> None:
    """Raise `NewerFormat` for a task of the kit whose name this release does not have."""
    if task not in known:
        raise NewerFormat(
            f"{function} has no task {task!r}. If a newer release of signalbox enqueued it, deploy that release to "
            "this function, too."
        )


def _check(number: object, what: str) -> None:
    if isinstance(number, int) and number > READS:
        raise NewerFormat(
            f"A newer release of signalbox wrote {what}, in format {number}; the one deployed here reads formats up to "
            f"{READS}. Deploy the newer release to this function, too."
        )
