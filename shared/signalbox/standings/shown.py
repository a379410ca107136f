"""The answers about yokes and standings."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Range
from signalbox.standings.model.aggregates import Standing, StandingView
from signalbox.standings.model.declarations import Declaration, StandingField
from signalbox.standings.model.yokes import Attribute, StandingKey, Yoke


@dataclass(frozen=True, slots=True)
class YokeShown:
    """A relation between a user and an item."""

    user: str
    item: str
    value: float | None
    attributes: Mapping[str, Attribute]

    created_at: datetime | None = None
    updated_at: datetime | None = None

    @classmethod
    def of(cls, yoke: Yoke, created_at: datetime | None = None, updated_at: datetime | None = None) -> Self:
        return cls(yoke.key.user, yoke.key.item, yoke.value, dict(yoke.attributes), created_at, updated_at)


@dataclass(frozen=True, slots=True)
class ListedYokeShown:
    """A yoke in a list, as it is counted."""

    user: str
    item: str
    value: float | None
    created_at: datetime


@dataclass(frozen=True, slots=True)
class YokesShown:
    """A page."""

    yokes: tuple[ListedYokeShown, ...]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class StandingShown:
    """The numbers of a standing."""

    kind: str
    id: str
    count: int
    sum: float
    average: float | None
    min: float | None
    max: float | None

    @classmethod
    def of(cls, key: StandingKey, standing: Standing) -> Self:
        return cls(key.kind, key.id, **standing.numbers())


@dataclass(frozen=True, slots=True)
class CurrentStandingShown(StandingShown):
    """The standing."""

    pending: Annotated[int, Range(0)]
    """The number of changes that are committed and not added yet; 0 means that the numbers are exact."""

    @classmethod
    def of_view(cls, view: StandingView) -> Self:
        return cls(view.key.kind, view.key.id, **view.standing.numbers(), pending=view.pending)


@dataclass(frozen=True, slots=True)
class LeaderboardShown:
    """A page."""

    standings: tuple[StandingShown, ...]
    next_page_token: str = ""


@dataclass(frozen=True, slots=True)
class RankShown:
    """The rank, from 1."""

    rank: Annotated[int, Range(1)]
    standing: StandingShown
    above: tuple[StandingShown, ...] | None = None
    below: tuple[StandingShown, ...] | None = None


@dataclass(frozen=True, slots=True)
class ContinuationShown:
    """A task that runs once for each standing."""

    function: str
    task: str


@dataclass(frozen=True, slots=True)
class ThresholdShown:
    """A number of a standing, the value that it must reach, and the task that then runs."""

    field: StandingField
    reaches: float
    continuation: ContinuationShown


@dataclass(frozen=True, slots=True)
class DeclarationShown:
    """The parts of the ids of a kind of standings, and its thresholds."""

    by: tuple[str, ...]
    on_threshold: tuple[ThresholdShown, ...]

    @classmethod
    def of(cls, declaration: Declaration) -> Self:
        return cls(declaration.by, _thresholds(declaration))


@dataclass(frozen=True, slots=True)
class DeclaredKindShown:
    """It is declared."""

    kind: str
    by: tuple[str, ...]
    on_threshold: tuple[ThresholdShown, ...]

    @classmethod
    def of(cls, kind: str, declaration: Declaration) -> Self:
        return cls(kind, declaration.by, _thresholds(declaration))


@dataclass(frozen=True, slots=True)
class KindsShown:
    """By name."""

    kinds: Mapping[str, DeclarationShown]


def _thresholds(declaration: Declaration) -> tuple[ThresholdShown, ...]:
    return tuple(
        ThresholdShown(each.field, each.reaches, ContinuationShown(each.call.function, each.call.task))
        for each in declaration.thresholds
    )
