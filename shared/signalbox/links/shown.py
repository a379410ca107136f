"""The answers about verifications."""

from datetime import datetime
from typing import Annotated, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range
from signalbox.links.limits import LIMITS
from signalbox.links.model import Verification

Count = Annotated[int, Range(0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationShown:
    """The report of a verification, so far or in the end."""

    run: str
    state: Literal["running", "ended"]
    begun_at: datetime
    ended_at: datetime | None = None

    part: Annotated[int, Range(1)] | None = None
    """The number of this nightly verification among those that together compare all documents; none if this one
    compares all of them.
    """

    pages: Count

    looked: Count
    """Documents compared."""

    drifted: Count
    """Differences that nothing else would have repaired."""

    moving: Count
    """Differences in documents written lately."""

    refused: Count
    """Documents that another client wrote and a put would refuse."""

    repaired: Count

    @classmethod
    def of(cls, walk: Verification) -> Self:
        found = walk.found
        return cls(
            run=walk.run,
            state="running" if walk.ended_at is None else "ended",
            begun_at=walk.begun_at,
            ended_at=walk.ended_at,
            part=None if walk.is_whole else walk.part,
            pages=walk.pages,
            looked=found.looked,
            drifted=found.drifted,
            moving=found.moving,
            refused=found.refused,
            repaired=found.drifted + found.moving - found.refused,
        )


@dataclass(frozen=True, slots=True)
class VerificationsShown:
    """The last verifications, newest first."""

    verifications: Annotated[tuple[VerificationShown, ...], Described({"maxItems": LIMITS.verifications_listed_max})]
