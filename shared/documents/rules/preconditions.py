"""Preconditions of a request on an entity tag (RFC 9110, section 13).

``If-Match`` makes a write conditional on the state that its caller has seen, ``If-None-Match: *`` on there being no
document yet. The commit is guarded by the read that the precondition was checked against, so it holds when the write
lands, not only before.
"""

from dataclasses import dataclass

from shared.core.rules.problems import PreconditionFailed


@dataclass(frozen=True, slots=True)
class Tags:
    """The entity tags of a header, with their quotes and without ``W/``; `every` stands for ``*``."""

    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    every: bool = False

    def matches(self, etag: str | None, *, weakly: bool) -> bool:
        """Return whether a strong tag is among them; None stands for no document, which matches nothing."""
        if etag is None:
            return False
        return self.every or etag in self.strong or (weakly and etag in self.weak)


@dataclass(frozen=True, slots=True)
class Precondition:
    """The preconditions of a request; None: the header is absent."""

    if_match: Tags | None = None
    if_none_match: Tags | None = None

    def check_match(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless `If-Match` holds, which compares strongly."""
        if self.if_match is not None and not self.if_match.matches(etag, weakly=False):
            raise PreconditionFailed(f"If-Match does not hold: {_state(etag)}.")

    def is_not_modified(self, etag: str | None) -> bool:
        """Return whether `If-None-Match`, which compares weakly, names this tag: the reader has it already."""
        return self.if_none_match is not None and self.if_none_match.matches(etag, weakly=True)

    def check_write(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless both headers allow a write."""
        self.check_match(etag)
        if self.is_not_modified(etag):
            raise PreconditionFailed(f"If-None-Match does not hold: {_state(etag)}.")


UNCONDITIONAL = Precondition()


def _state(etag: str | None) -> str:
    return "the document does not exist" if etag is None else f"the entity tag is {etag}"
