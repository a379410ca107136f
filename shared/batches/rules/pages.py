"""The pages of a batch: how units are cut into pages, and whether a page or the seal may follow.

Pages are loaded in the order of their numbers, so each page's first index follows from the previous page. The seal is
an end mark under the next number: a page and the seal compete for one record.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from shared.batches.rules.chains import first_runs
from shared.batches.rules.header import Header
from shared.batches.rules.units import PlacedUnit
from shared.core.rules import values
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BatchSealed, OtherBody, PageOutOfOrder


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its record holds it. `first` is the index of its first unit; `text` is its payloads as JSON.

    `task`, `concurrency` and `queues` are the header's, so that an expansion need not read it.
    """

    first: int
    size: int
    text: str
    digest: str
    task: Call | None
    concurrency: int | None = None
    queues: tuple[str, ...] = ()

    @classmethod
    def holding(cls, units: Sequence[Any], first: int, header: Header) -> Self:
        """Return the page of these units."""
        text = json_text(list(units))
        return cls(first, len(units), text, digest(list(units)), header.task, header.concurrency, header.queues)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """Read what `to_record` returned."""
        task = record["task"] and Call.from_record(record["task"])
        queues = tuple(record.get("queues", ()))
        return cls(
            record["first"], record["size"], record["units"], record["digest"], task, record.get("concurrency"), queues
        )

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {
            "first": self.first,
            "size": self.size,
            "units": self.text,
            "digest": self.digest,
            "task": self.task and self.task.to_record(),
            "concurrency": self.concurrency,
            "queues": list(self.queues),
        }

    def holds(self, index: int) -> bool:
        """Return whether the unit with this index is on this page."""
        return self.first <= index < self.first + self.size

    def call_of(self, index: int) -> Call | None:
        """Return the call that executes a unit: through the page's queues in turn, if it names some."""
        if self.task is None or not self.queues:
            return self.task
        return replace(self.task, queue=self.queues[index % len(self.queues)])

    def payloads(self) -> list[Any]:
        """Return the payloads of the page's units."""
        payloads: list[Any] = json.loads(self.text)
        return payloads

    def units(self, batch: str, incarnation: str, number: int) -> list[PlacedUnit]:
        """Return the page's units with their places, in the order of their indexes."""
        chain = first_runs(self.concurrency)
        return [
            PlacedUnit(batch, incarnation, self.first + offset, 0, number, offset, self.size, chain)
            for offset in range(self.size)
        ]


@dataclass(frozen=True, slots=True)
class EndMark:
    """The seal's record, under the number after the last page."""

    def to_record(self) -> dict[str, Any]:
        """Return the record's data."""
        return {"end": True}


Loaded = Page | EndMark | None
"""What is under a page's number; None: nothing."""


def loaded(record: Mapping[str, Any] | None) -> Loaded:
    """Read the record under a page's number."""
    if record is None:
        return None
    return EndMark() if record.get("end") else Page.from_record(record)


def digest(*parts: Any) -> str:
    """Return a hash of a request, by which its repeat is recognized."""
    return hashlib.sha256(values.canonical(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def json_text(value: Any) -> str:
    """Return a value as a page's record holds it: ASCII, so its length is its size in bytes."""
    return json.dumps(value, separators=(",", ":"))


def cut(units: Sequence[Any]) -> list[Sequence[Any]]:
    """Cut units into pages of at most 100 units and 900,000 bytes; the same units give the same pages."""
    pages: list[list[Any]] = []
    page_bytes = 0
    for unit in units:
        unit_bytes = len(json_text(unit)) + 1
        if not pages or len(pages[-1]) == LIMITS.page_units_max or page_bytes + unit_bytes > LIMITS.page_bytes_max:
            pages.append([])
            page_bytes = 0
        pages[-1].append(unit)
        page_bytes += unit_bytes
    return list(pages)


# --- what may follow ---


def takes_pages(header: Header, number: int) -> bool:
    """Return whether a call may add this page; if not, the call can only be a repeat."""
    return header.state == "open" and number >= header.first_pages


def first_index(header: Header, number: int, previous: Loaded) -> int:
    """Return the index of a page's first unit; `previous` is what is under the number before.

    Raises `PageOutOfOrder` or `BatchSealed` if the page cannot follow.
    """
    if number < header.first_pages:
        raise PageOutOfOrder("This page belongs to the call that created the batch. Repeat that call.", field="page")
    if number == 0:
        return 0
    if previous is None:
        raise PageOutOfOrder(f"Load page {number - 1} first.", field="page")
    if isinstance(previous, EndMark):
        raise BatchSealed(f"The batch was sealed at {number - 1} pages.", field="page")
    return previous.first + previous.size


def check_repeat(held: Loaded, number: int, units: Sequence[Any]) -> None:
    """Check that the page under this number holds the same units. Raises `OtherBody` or `BatchSealed`."""
    if isinstance(held, EndMark):
        raise BatchSealed(f"The batch was sealed at {number} pages.", field="page")
    if held is None or held.digest != digest(list(units)):
        raise OtherBody(f"Page {number} holds other units.", field="page")


def check_sealed_alike(header: Header, pages: int) -> None:
    """Check that a sealed or ended batch has this number of pages: the seal is a repeat. Raises `BatchSealed`."""
    if header.pages != pages:
        raise BatchSealed("The batch has ended, or was sealed at another number of pages.", field="pages")


def size_at_seal(header: Header, pages: int, end: Loaded, last: Loaded) -> int:
    """Return the number of units of a batch that is sealed at `pages` pages. Raises `PageOutOfOrder` or `BatchSealed`.

    `end` is what is under the number of the end mark, `last` what is under the one before.
    """
    if end is not None:
        raise PageOutOfOrder(f"Page {pages} is loaded: the batch has more than {pages} pages.", field="pages")
    if pages:
        return first_index(header, pages, last)
    if header.first_pages:
        raise PageOutOfOrder(f"The batch was created with {header.first_pages} pages.", field="pages")
    return 0
