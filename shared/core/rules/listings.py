"""Lists in pages, in the order of the records' ids: the limit and the place that a request names.

A page begins behind the last record of the page before, so what is written in between repeats nothing and leaves out
nothing that was there all along.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from shared.core.rules import page_tokens
from shared.core.rules.problems import BadQuery

PARAMETERS = ("limit", "page_token")


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of a list: at most `limit` records behind `after`. `mark` names the list in its page tokens."""

    mark: str
    limit: int
    after: tuple[Any, ...] = ()

    @classmethod
    def from_request(cls, query: Mapping[str, str], mark: str, limit_max: int) -> Self:
        """Parse ``limit=`` and ``page_token=``. Raises `BadQuery` naming the parameter."""
        listing = cls(mark, parse_limit(query.get("limit", ""), limit_max, limit_max))
        page_token = query.get("page_token", "")
        return replace(listing, after=page_tokens.read(page_token, mark, 0)) if page_token else listing

    def next_page(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the token of the page behind these records, as the answer holds it; empty behind the last page."""
        return {"next_page_token": page_tokens.write(self.mark, [], ids[-1])} if len(ids) == self.limit else {}


def parse_limit(text: str, default: int, most: int) -> int:
    """Return the number of a parameter `limit`. Raises `BadQuery`."""
    if not text:
        return default
    if not (text.isdecimal() and len(text) <= len(str(most)) and 1 <= int(text) <= most):
        raise BadQuery(f"`limit` must be an integer from 1 to {most:,}.", field="limit")
    return int(text)
