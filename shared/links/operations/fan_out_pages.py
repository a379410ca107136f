"""Pages of a fan-out: the documents that must follow a change, one task a page.

They are the documents that embed a key, or that have links in the field of a transform.
"""

from collections.abc import Iterator, Sequence

from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.core.operations.record_sizes import is_full, size_bytes
from shared.core.rules.limits import LIMITS
from shared.documents.rules import documents, links
from shared.documents.rules.documents import COLLECTION, RESERVED
from shared.links.operations import copies, marks, tasks

LINK_KEYS = (RESERVED, "link_keys")
LINK_FIELDS = (RESERVED, "link_fields")


def refresh_page(ports: Ports, event_id: str, key: str, cursor: str, limit: int = LIMITS.page_copies_first) -> None:
    """Refresh at most `limit` of the documents that embed a key and come after `cursor`.

    The next page is enqueued first: from then on the chain does not depend on this page.
    """
    query = linking_documents(key, cursor, min(limit, LIMITS.page_copies_max))
    found = ports.store.query(query)
    if is_full(query, found):
        tasks.enqueue(ports, event_id, {"key": key, "cursor": found[-1].id}, copies=next_limit(found))
    for first in range(0, len(found), LIMITS.group_copies_max):
        group = found[first : first + LIMITS.group_copies_max]
        inputs = marks.mark_linked(ports, [key], copies.transform_paths(group, [key]))
        copies.refresh(ports, key, group, inputs)


def linking_documents(key: str, after: str, limit: int) -> Query:
    """Return the query for the documents that embed a key, ordered by their own keys."""
    linking = Condition(LINK_KEYS, "array_contains", key)
    return Query(COLLECTION, (linking,), (), limit, (after,) if after else (), LIMITS.read_bytes_max)


def next_limit(found: Sequence[Snapshot]) -> int:
    """Return how many documents the next page may have, if they are as large as these."""
    total_bytes = sum(map(size_bytes, found))
    return max(1, min(LIMITS.page_copies_max, LIMITS.read_bytes_max * len(found) // total_bytes))


def walk_page(ports: Ports, event_id: str, name: str, cursor: str) -> None:
    """Refresh one page of the documents that have links in a transform's field and come after `cursor`."""
    linking = Condition(LINK_FIELDS, "array_contains", name)
    after = (cursor,) if cursor else ()
    query = Query(COLLECTION, (linking,), (), LIMITS.walk_documents_max, after, LIMITS.read_bytes_max)
    found = ports.store.query(query)
    if is_full(query, found):
        tasks.enqueue(ports, event_id, {"transform": name, "cursor": found[-1].id})
    for group, keys in _groups(found, name):
        for inputs in marks.marked_in_groups(ports, keys, copies.transform_paths(group, keys)):
            copies.refresh(ports, "", group, inputs)


def _groups(found: Sequence[Snapshot], name: str) -> Iterator[tuple[list[Snapshot], list[str]]]:
    """Iterate over groups of documents whose links in a field have few enough targets to be read at once."""
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
