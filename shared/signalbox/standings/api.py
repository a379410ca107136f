"""`yokes`, `standings` and `standing_changed`, as users import them from `signalbox`.

    yokes.put("ann", "film-7", 4.5, {"category": "drama"})
    standings("item", "film-7").get()["average"]

Every call can be repeated: a yoke that is put again counts once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, Protocol, TypeVar

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import check_deployed
from signalbox.adapters.http.json_bodies import json_of
from signalbox.core.calls import Call
from signalbox.core.effects import Json
from signalbox.core.kit_names import TASKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.declarations import Declaration, StandingField, Threshold
from signalbox.standings.model.yokes import StandingKey, Yoke, YokeKey, join
from signalbox.standings.requests import BoardRequest, ListRequest, RankRequest
from signalbox.standings.service.declarations import declare
from signalbox.standings.service.ranks import leaderboard, rank
from signalbox.standings.service.reads import get_standing
from signalbox.standings.service.yokes import delete_yoke, get_yoke, put_yoke, yokes_of_standing
from signalbox.standings.shown import CurrentStandingShown
from signalbox.tasks.api import Task

P = ParamSpec("P")
R = TypeVar("R")

Value = int | float | None


class Yokes:
    """Relations between users and items, each with a value and attributes."""

    def put(self, user: str, item: str, value: Value = None, attributes: Mapping[str, Json] | None = None) -> bool:
        """Write a yoke, or replace its value and attributes. Return whether it is new.

        Raises `BadKey`, `BadValue` or `Unavailable`.
        """
        body = {"value": value, "attributes": dict(attributes or {})}
        yoke = Yoke.from_request(YokeKey.from_request(user, item), body)
        return put_yoke(runtime.ports(), yoke)

    def get(self, user: str, item: str) -> dict[str, Any]:
        """Return a yoke as JSON. Raises `NotFound` or `BadKey`."""
        found: dict[str, Any] = json_of(get_yoke(runtime.ports(), YokeKey.from_request(user, item)))
        return found

    def delete(self, user: str, item: str) -> None:
        """Delete a yoke; succeed if it does not exist. Raises `BadKey`."""
        delete_yoke(runtime.ports(), YokeKey.from_request(user, item))

    def find(
        self,
        *,
        user: str | None = None,
        item: str | None = None,
        order_by: str = "time",
        limit: int = LIMITS.leaderboard_limit_default,
        page_token: str = "",
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of the yokes of a user or an item, at most `limit`, and the token of the next page or None.

        Raises `BadQuery`.
        """
        asked = _query(user=user, item=item, order_by=order_by, limit=limit, page_token=page_token)
        page = yokes_of_standing(runtime.ports(), ListRequest.from_request(asked))
        return json_of(page.yokes), page.next_page_token or None


yokes = Yokes()


@dataclass(frozen=True, slots=True)
class Standings:
    """The standings of a kind, or one of them if `id` is not None."""

    kind: str
    id: str | None = None

    def declare(self, by: Iterable[str] | None = None, on_threshold: Iterable["StandingTask[..., Any]"] = ()) -> None:
        """Declare the kind by the parts of its ids, and count the existing yokes for it. Idempotent.

        `on_threshold` are tasks that `standing_changed` returned. Raises `BadStanding` or `BadCall`.
        """
        parts = [self.kind] if by is None else list(by)
        declaration = Declaration.from_request(self.kind, {"by": parts})
        thresholds = tuple(task.threshold for task in on_threshold)
        for threshold in thresholds:
            check_deployed(on_threshold=threshold.call_with({}))
        declare(runtime.ports(), self.kind, Declaration(declaration.by, thresholds))

    def get(self) -> dict[str, Any]:
        """Return the standing's numbers; they are exact if `pending` is 0. Raises `NotFound` for an unknown kind."""
        found: dict[str, Any] = json_of(CurrentStandingShown.of_view(get_standing(runtime.ports(), self._key())))
        return found

    def rank(self, order_by: str = "count", neighbours: int = 0) -> dict[str, Any]:
        """Return the standing's rank, from 1, and its `neighbours` on each side. Raises `NotFound` or `BadQuery`."""
        asked = RankRequest.from_request(self._key(), _query(order_by=order_by, neighbours=neighbours))
        found: dict[str, Any] = json_of(rank(runtime.ports(), asked))
        return found

    def top(
        self, order_by: str = "count", limit: int = LIMITS.leaderboard_limit_default, page_token: str = ""
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of the kind's leaderboard, at most `limit`, and the token of the next page or None.

        Raises `NotFound` or `BadQuery`.
        """
        asked = _query(order_by=order_by, limit=limit, page_token=page_token)
        board = leaderboard(runtime.ports(), BoardRequest.from_request(self.kind, asked))
        return json_of(board.standings), board.next_page_token or None

    def _key(self) -> StandingKey:
        if self.id is None:
            raise ValueError(f'this names a kind of standings; name one standing: standings("{self.kind}", ID)')
        return StandingKey(self.kind, self.id)


def standings(kind: str, *parts: str) -> Standings:
    """Return the standings of a kind or, with `parts`, the standing whose id has these parts."""
    return Standings(kind, join(parts) if parts else None)


class StandingTask(Task[P, R]):
    """A task that runs when a standing reaches a threshold."""

    def __init__(self, task: Task[P, R], function: str, field: StandingField, reaches: float) -> None:
        vars(self).update(vars(task))
        call = Call(function, task.name, {}, task.queue).checked(task.name)
        self.threshold = Threshold(field, reaches, call)


class App(Protocol):
    """The part of a `Function` that a threshold needs: its name, and its tasks."""

    name: str

    def task(self, *, queue: str) -> Callable[[Callable[P, R]], Task[P, R]]:
        """Register a task that uses a queue."""


def standing_changed(
    app: App, field: StandingField, at_least: float, queue: str = TASKS_QUEUE
) -> Callable[[Callable[P, R]], StandingTask[P, R]]:
    """Register a task of `app` that runs once for each standing whose `field` reaches `at_least`.

    Its code has one parameter, `standing`: a dict of the numbers at that time. Pass the task to a kind's
    `declare`.
    """

    def register(code: Callable[P, R]) -> StandingTask[P, R]:
        return StandingTask(app.task(queue=queue)(code), app.name, field, at_least)

    return register


def _query(**values: str | float | None) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value is not None}
