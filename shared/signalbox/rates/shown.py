"""The answers about rates."""

from datetime import datetime
from typing import Annotated, Literal, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described, Range, Text
from signalbox.rates.limits import LIMITS
from signalbox.rates.machine import free_to_acquire
from signalbox.rates.model import Acquired, RateView, State


@dataclass(frozen=True, slots=True)
class RateShown:
    """The rate as it is now."""

    name: str
    per_minute: float
    burst: Annotated[int, Range(1)]

    free: Annotated[int, Range(0)]
    """The permits that can be taken now; 0 while tasks wait, or while it is paused."""

    waiting: Annotated[int | None, Range(0)] = None
    """The number of waits."""

    paused_at: datetime | None = None
    """When it was paused; absent if it is not."""

    description: Annotated[str, Text(lambda: LIMITS.rate_description_characters_max)] = ""

    @classmethod
    def of(cls, view: RateView) -> Self:
        """Return a rate. The number of waits is absent if they were not counted."""
        rate, settings = view.rate, view.rate.settings
        return cls(
            name=view.name,
            per_minute=settings.per_minute,
            burst=settings.burst,
            free=free_to_acquire(rate, view.now),
            waiting=view.waiting,
            paused_at=rate.paused_at,
            description=settings.description,
        )


@dataclass(frozen=True, slots=True)
class RatesShown:
    """A page of rates."""

    rates: tuple[RateShown, ...]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class AcquiredShown:
    """Whether permits were granted; if not, when to try again."""

    granted: bool
    retry_after_seconds: Annotated[float | None, Described({"exclusiveMinimum": 0})] = None

    paused: Literal[True] | None = None
    """The rate is paused; otherwise absent."""

    @classmethod
    def of(cls, answer: Acquired) -> Self:
        if answer.granted:
            return cls(granted=True)
        return cls(False, answer.retry_after_seconds, True if answer.paused else None)


@dataclass(frozen=True, slots=True)
class RateWaitShown:
    """The wait, and whether its task is still waiting."""

    id: str
    state: State


@dataclass(frozen=True, slots=True)
class RateWaitCancelledShown:
    """Whether its task will not run."""

    cancelled: bool
