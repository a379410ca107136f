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
        state, page_token = query.get("state", ""), query.get("page_token", "")
        if state not in ("", "succeeded", "failed"):
            raise BadQuery("`state` must be succeeded or failed.", field="state")
        if page_token and not (page_token.isascii() and page_token.isdecimal() and len(page_token) < 10):
            raise BadQuery("Invalid page_token.", field="page_token")
        return cls(state, int(page_token) if page_token else None)
