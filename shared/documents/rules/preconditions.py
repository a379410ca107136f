"""Conditions of a request on the entity tag of what it is about (RFC 9110, section 13).

``If-Match`` holds a write to the state that its caller has seen, and ``If-None-Match: *`` to there being nothing yet.
Whoever decides on them commits under a guard of the same read, so they hold when the write lands, not only before.
"""

from dataclasses import dataclass

from shared.core.rules.problems import PreconditionFailed


@dataclass(frozen=True, slots=True)
class Tags:
    """The entity tags that a header lists, with their quotes and without ``W/``; or ``*``, which is `every`."""

    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    every: bool = False

    def matches(self, etag: str | None, *, weakly: bool) -> bool:
        """Tell whether a strong tag is among them; None stands for nothing at all, which matches nothing."""
        if etag is None:
            return False
        return self.every or etag in self.strong or (weakly and etag in self.weak)


@dataclass(frozen=True, slots=True)
class Precondition:
    """What a request asks to hold; None: it does not ask."""

    if_match: Tags | None = None
    if_none_match: Tags | None = None

    def check_match(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless `If-Match` holds, which compares strongly."""
        if self.if_match is not None and not self.if_match.matches(etag, weakly=False):
            raise PreconditionFailed(f"If-Match does not hold: {_standing(etag)}.")

    def seen(self, etag: str | None) -> bool:
        """Tell whether `If-None-Match`, which compares weakly, names what is there: a reader has it already."""
        return self.if_none_match is not None and self.if_none_match.matches(etag, weakly=True)

    def check_write(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless a write may go on."""
        self.check_match(etag)
        if self.seen(etag):
            raise PreconditionFailed(f"If-None-Match does not hold: {_standing(etag)}.")


UNCONDITIONAL = Precondition()


def _standing(etag: str | None) -> str:
    return "there is nothing under that key" if etag is None else f"the entity tag is {etag}"
