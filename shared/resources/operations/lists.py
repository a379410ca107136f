"""Pages of a resource's items: by Firestore's indexes or, of a small resource, sorted and filtered here.

Firestore serves conditions that are equalities, and one order without any, from indexes it keeps by itself. An order
beside a condition needs a composite index, and items are always found by a condition: the name of their resource. So
without that index all items are read, as long as they are few, and what is asked for is picked from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from shared.core.operations.ports import Ports
from shared.core.rules import page_tokens
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadQuery, NeedsIndex
from shared.documents.operations import documents as operations
from shared.documents.rules.documents import Content
from shared.documents.rules.queries import CountRequest, FindRequest
from shared.resources.rules import items, sorting
from shared.resources.rules.items import Item, Resource
from shared.resources.rules.lists import ListRequest


@dataclass(frozen=True, slots=True)
class ItemPage:
    """Items, the token of the next page (empty on the last), and how many there are in all, if that was asked."""

    items: list[Item]
    next_page_token: str = ""
    total: int | None = None


def list_items(ports: Ports, resource: Resource, request: ListRequest) -> ItemPage:
    """Return a page of items. Raises `NeedsIndex` for a query of a large resource that lacks its index."""
    if request.by_id_descending:
        refusal = BadQuery("Only a short list can be sorted by `id` from the last to the first.", field="_sort")
        return _sorted_here(ports, resource, request, refusal)
    try:
        return _indexed(ports, resource, request)
    except NeedsIndex as refusal:
        return _sorted_here(ports, resource, request, refusal)


def _indexed(ports: Ports, resource: Resource, request: ListRequest) -> ItemPage:
    total = operations.count(ports, CountRequest(request.where)) if request.wants_total else None
    after = _skipped(ports, request)
    if after is None or not request.limit:
        return ItemPage([], total=total)
    page = operations.find(ports, request.find(request.limit, after))
    return ItemPage(_items(resource, page.documents), page.next_page_token, total)


def _skipped(ports: Ports, request: ListRequest) -> tuple[object, ...] | None:
    """Return the place behind the items to skip; None if there are no more of them."""
    after, left = request.after, request.start
    while left:
        page = operations.find(ports, request.find(min(left, LIMITS.query_limit_max), after))
        left -= len(page.documents)
        if not page.next_page_token:
            return None
        after = request.cursor(page.next_page_token)
    return after


def _sorted_here(ports: Ports, resource: Resource, request: ListRequest, refusal: BadQuery) -> ItemPage:
    """Return a page picked from all items. Raises `refusal` if they are too many."""
    every = operations.find(ports, FindRequest(request.base, (), LIMITS.resource_sorted_max + 1))
    if every.next_page_token:
        raise refusal
    found = sorting.matching(every.documents, request)
    rest = sorting.behind(found, request) if request.after else found
    shown = rest[request.start : request.start + request.limit]
    is_last = len(rest) <= request.start + request.limit
    token = "" if is_last or not shown else _token(shown[-1], request)
    return ItemPage(_items(resource, shown), token, len(found) if request.wants_total else None)


def _token(document: Content, request: ListRequest) -> str:
    *values, key = sorting.place_of(document, request)
    return page_tokens.write(request.mark, values, key)


def _items(resource: Resource, found: Sequence[Content]) -> list[Item]:
    """Return the items of documents that a query has found."""
    contents = [(each["key"], {name: value for name, value in each.items() if name != "key"}) for each in found]
    read = (items.from_content(resource, key, content) for key, content in contents)
    return [each for each in read if each is not None]
