"""Documents that come many in one call: which of them can be put, and in which order, so that links among them resolve.

A document that links to another one of its call is written after it, in a later wave, and embeds what was really
stored. Where they link in a circle, or in a longer chain than there are waves, some are written before what they link
to; the events of these writes mend that, as they do whenever a target changes after a put.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shared.core.rules import keys
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, DuplicateKey, KeyRequired, NotAnObject, Problem, TooLarge
from shared.documents.rules import documents, links
from shared.documents.rules.documents import Content


@dataclass(frozen=True, slots=True)
class Entry:
    """One document of a call, or why it cannot be put; its key is None where none can be told."""

    key: str | None
    content: Content
    refusal: Problem | None = None


def entries(bodies: Sequence[Any]) -> list[Entry]:
    """Check each body by itself, and that no key comes twice; a body that could not be read is its own problem.

    Of several with the same key the first is put. Raises `TooLarge` for more than a call may bring.
    """
    if len(bodies) > LIMITS.bulk_puts_max:
        raise TooLarge(f"One call brings at most {LIMITS.bulk_puts_max} documents; this one has {len(bodies):,}.")
    places: dict[str, int] = {}
    return [_first_of_its_key(_entry(body), places, place) for place, body in enumerate(bodies)]


def own_key(body: Any) -> str:
    """Give the key that a document which comes without an address holds itself. Raises `BadKey`, `NotAnObject`."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    key = body.get("key")
    if key is None or key == "":
        raise KeyRequired("A document without a key in its URL needs a non-empty `key`.", field="key")
    if not isinstance(key, str):
        raise BadKey("`key` must be a string.", field="key")
    return keys.check_key(key)


def _entry(body: Any) -> Entry:
    if isinstance(body, Problem):
        return Entry(None, {}, body)
    try:
        key = own_key(body)
    except Problem as problem:
        return Entry(None, {}, problem)
    try:
        return Entry(key, links.check_count(documents.check_body(key, body)))
    except Problem as problem:
        return Entry(key, {}, problem)


def _first_of_its_key(entry: Entry, places: dict[str, int], place: int) -> Entry:
    if entry.key is None:
        return entry
    first = places.setdefault(entry.key, place)
    if first == place:
        return entry
    return Entry(
        entry.key, {}, DuplicateKey(f"The document at index {first} of this call has the same key.", field="key")
    )


def waves(targets: Mapping[str, Collection[str]]) -> Iterator[list[str]]:
    """Part documents into waves, by whom they link to: each wave links only to earlier ones, as far as that can be."""
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
