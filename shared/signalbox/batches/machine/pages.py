"""The decisions about a page: its units, its beginning, and whether it may still be loaded.

A page has at most 100 units and 900,000 bytes. Its first index follows from the previous page.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from signalbox.batches.limits import LIMITS
from signalbox.batches.model.headers import Header
from signalbox.batches.model.pages import EndMark, Loaded, PageStart, digest
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.core.json_values import json_text
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import OtherBody


def cut(units: Iterable[Any]) -> list[Sequence[Any]]:
    """Cut payloads into pages of at most 100 units and 900,000 bytes. The same payloads give the same pages."""
    return list(cut_stream(units))


def cut_stream(units: Iterable[Any]) -> Iterator[Sequence[Any]]:
    """Cut payloads into pages as they arrive, because there are too many to hold in memory."""
    page: list[Any] = []
    page_bytes = 0
    for unit in units:
        unit_bytes = min(len(json_text(unit)), CORE_LIMITS.task_bytes_max) + 1  # large arguments are not in the page
        if page and (len(page) == LIMITS.page_units_max or page_bytes + unit_bytes > LIMITS.page_bytes_max):
            yield page
            page, page_bytes = [], 0
        page.append(unit)
        page_bytes += unit_bytes
    if page:
        yield page


def takes_pages(header: Header, number: int) -> bool:
    """Return whether a call may add this page. If not, the call can only be a repeat."""
    return header.state == "open" and number >= header.first_pages


def page_start(header: Header, number: int, previous: Loaded) -> PageStart:
    """Return the beginning of a page; `previous` is the record stored under the number before.

    Raises `PageOutOfOrder` or `BatchSealed` if the page cannot follow.
    """
    if number < header.first_pages:
        raise PageOutOfOrder("This page belongs to the call that created the batch. Repeat that call.", field="page")
    if number == 0:
        return PageStart()
    if previous is None:
        raise PageOutOfOrder(f"Load page {number - 1} first.", field="page")
    if isinstance(previous, EndMark):
        raise BatchSealed(f"The batch was sealed at {number - 1} pages.", field="page")
    return previous.end


def not_loaded(header: Header) -> BatchSealed:
    """Return the refusal of a page that a batch does not have and no longer takes (`takes_pages`)."""
    if header.ended:
        return BatchSealed(f"The batch has ended: it is {header.state} and takes no more units.", field="page")
    if header.pages is not None:
        return BatchSealed(f"The batch was sealed at {header.pages} pages.", field="page")
    return BatchSealed("The call that created the batch still loads this page. Repeat that call.", field="page")


def check_repeat(held: Loaded, number: int, units: Sequence[Any]) -> None:
    """Check that the page stored under this number has the same units. Raises `OtherBody` or `BatchSealed`."""
    if isinstance(held, EndMark):
        raise BatchSealed(f"The batch was sealed at {number} pages.", field="page")
    if held is None or held.digest != digest(list(units)):
        raise OtherBody(f"Page {number} was loaded with other units. Add these as a later page.", field="page")
