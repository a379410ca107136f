"""The queries of batches and of their units, as HTTP builds them. Each type checks itself."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.listings import Listing
from shared.core.rules.problems import BadQuery

STATES = ("open", "sealed", "completed", "cancelled")
"""Of the batches that people see: one that is being removed is none."""


@dataclass(frozen=True, slots=True)
class BatchesQuery:
    """A page of the batches by id: those in `state`, or all."""

    state: str
    listing: Listing

    @classmethod
    def from_request(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=``, ``limit=`` and ``page_token=``. Raises `BadQuery`."""
        state = query.get("state", "")
        if state not in ("", *STATES):
            raise BadQuery(f"`state` must be one of {', '.join(STATES)}.", field="state")
        return cls(state, Listing.from_request(query, f"batches {state}", LIMITS.batches_listed_max))


@dataclass(frozen=True, slots=True)
class UnitsQuery:
    """The units with an outcome to list: those in `state`, or all; those behind one in the
    order of the records' ids, or from the first."""

    state: str = ""
    after: int | None = None

    @classmethod
    def from_request(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=`` and ``page_token=``. Raises `BadQuery`."""
        return cls(_state(query), _index(query, "page_token"))

    @classmethod
    def of_results(cls, query: Mapping[str, str]) -> Self:
        """Parse ``state=`` and ``after=``, the index of the last line received. Raises `BadQuery`."""
        return cls(_state(query), _index(query, "after"))


def first_page_of(query: Mapping[str, str]) -> int:
    """Parse ``page=``, the number of the first page to load. Raises `BadQuery`."""
    return _index(query, "page") or 0


def _state(query: Mapping[str, str]) -> str:
    state = query.get("state", "")
    if state not in ("", "succeeded", "failed"):
        raise BadQuery("`state` must be succeeded or failed.", field="state")
    return state


def _index(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise BadQuery(f"Invalid {name}.", field=name)
    return int(text) if text else None
