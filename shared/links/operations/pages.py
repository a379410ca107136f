"""Go over the documents that must follow a change, a page a task: those that embed a key, or use a transform."""

from collections.abc import Iterator, Sequence

from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.core.rules import values
from shared.core.rules.limits import LIMITS
from shared.documents.rules import documents, links
from shared.documents.rules.documents import COLLECTION, RESERVED
from shared.links.operations import copies as link_copies
from shared.links.operations import marks as link_marks
from shared.links.operations import tasks as link_tasks

LINKERS = (RESERVED, "link_keys")
LINK_FIELDS = (RESERVED, "link_fields")


def page(ports: Ports, event_id: str, key: str, cursor: str, copies: int = LIMITS.page_copies_first) -> None:
    """Refresh the documents that embed a key and come after `cursor`, at most so many of them.

    The next page is enqueued first: from then on the chain does not depend on this page.
    """
    copies = min(copies, LIMITS.page_copies_max)
    found = ports.store.query(linkers(key, cursor, copies))
    if len(found) == copies:
        link_tasks.hand_on(ports, event_id, {"key": key, "cursor": found[-1].id}, copies=copies_after(found))
    for first in range(0, len(found), LIMITS.group_copies_max):
        group = found[first : first + LIMITS.group_copies_max]
        around = link_marks.make_known(ports, [key], link_copies.transforms_of(group, [key]))
        link_copies.refresh(ports, key, group, around)


def linkers(key: str, after: str, limit: int) -> Query:
    """Ask for the documents that embed a key, by their own keys."""
    return Query(COLLECTION, (Condition(LINKERS, "array_contains", key),), limit=limit, after=(after,) if after else ())


def copies_after(found: Sequence[Snapshot]) -> int:
    """Say how many documents the next page may have, if they are as large as these."""
    filled = sum(values.size_bytes(snapshot.data) for snapshot in found)
    return min(LIMITS.page_copies_max, LIMITS.page_copies_bytes * len(found) // filled)


def walk(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    """Refresh the documents that have links in a transform's field and come after `cursor`, one page of them."""
    holders = Condition(LINK_FIELDS, "array_contains", name)
    after = (cursor,) if cursor else ()
    found = ports.store.query(Query(COLLECTION, (holders,), limit=LIMITS.walk_documents_max, after=after))
    if len(found) == LIMITS.walk_documents_max:
        link_tasks.hand_on(ports, event_id, {"transform": name, "cursor": found[-1].id})
    for some, keys in _groups(found, name):
        around = link_marks.make_known(ports, keys, link_copies.transforms_of(some, keys))
        link_copies.refresh(ports, "", some, around)


def _groups(found: Sequence[Snapshot], name: str) -> Iterator[tuple[list[Snapshot], list[str]]]:
    """Put documents together as long as their links in a field go to few enough targets to be read at once."""
    group: list[Snapshot] = []
    keys: set[str] = set()
    for snapshot in found:
        more = {key for content in documents.contents_of([snapshot.data]) for key in links.keys_in(content, name)}
        if group and len(keys | more) > LIMITS.links_max:
            yield group, sorted(keys)
            group, keys = [], set()
        group.append(snapshot)
        keys |= more
    if group:
        yield group, sorted(keys)
