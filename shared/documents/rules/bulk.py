"""Bulk put: which documents of a call can be put, and in which order, so that links among them resolve.

A document that links to another one of its call is written after it, in a later wave, and embeds what was stored.
Where they link in a cycle, or in a chain longer than the number of waves, some are written before their targets; the
targets' events refresh their copies, as whenever a target changes after a put.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import DuplicateKey, Problem, TooLarge
from shared.documents.rules import links
from shared.documents.rules.documents import Content
from shared.documents.rules.requests import PutRequest, own_key


@dataclass(frozen=True, slots=True)
class BulkEntry:
    """One document of a bulk put, or why it cannot be put; its key is None if it has no valid one."""

    key: str | None
    request: PutRequest | Problem


@dataclass(frozen=True, slots=True)
class BulkPutRequest:
    """The documents of one call, in its order."""

    entries: tuple[BulkEntry, ...]

    @classmethod
    def from_request(cls, bodies: Sequence[Any]) -> Self:
        """Check each body by itself, and that no key comes twice; a body may be the `Problem` with which it was read.

        Of several bodies with the same key the first is put. Raises `TooLarge` for more than one call takes.
        """
        if len(bodies) > LIMITS.bulk_puts_max:
            raise TooLarge(f"One call takes at most {LIMITS.bulk_puts_max} documents; this one has {len(bodies):,}.")
        places: dict[str, int] = {}
        return cls(tuple(_refuse_duplicate(_entry(body), places, place) for place, body in enumerate(bodies)))

    def contents(self) -> dict[str, Content]:
        """Return the contents to put, by key."""
        requests = [entry.request for entry in self.entries]
        return {request.key: request.content for request in requests if isinstance(request, PutRequest)}


def _entry(body: Any) -> BulkEntry:
    if isinstance(body, Problem):
        return BulkEntry(None, body)
    try:
        key = own_key(body)
    except Problem as problem:
        return BulkEntry(None, problem)
    try:
        request = PutRequest.from_request(key, body)
        links.check_count(request.content)
    except Problem as problem:
        return BulkEntry(key, problem)
    return BulkEntry(key, request)


def _refuse_duplicate(entry: BulkEntry, places: dict[str, int], place: int) -> BulkEntry:
    if entry.key is None:
        return entry
    first = places.setdefault(entry.key, place)
    if first == place:
        return entry
    return BulkEntry(entry.key, DuplicateKey(f"Document {first} of this call has the same key.", field="key"))


def waves(targets: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Iterate over waves of documents, given whom each links to: a wave links only to earlier ones, where possible."""
    waiting = dict(targets)
    for _ in range(LIMITS.bulk_waves_max - 1):
        ready = [key for key, linked in waiting.items() if not any(one in waiting for one in linked if one != key)]
        if not ready:
            break
        yield ready
        for key in ready:
            del waiting[key]
    if waiting:
        yield list(waiting)
