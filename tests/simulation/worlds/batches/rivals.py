"""A caller that reads the ids of the batches that the kit makes, and tries to take them or to change these batches.

It reads `b` and the list of batches. Then it creates a batch under an id that it has read, adds a page to such a batch,
seals it, completes one of its units, or cancels it. Its requests pass the checks of the routes (`requests.py`). Only
the last two have an effect, after which every property still holds.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from signalbox.batches import requests
from signalbox.batches.model.units import succeeded
from signalbox.batches.requests import BatchesQuery, BatchSpec, PageRequest, SealRequest
from signalbox.batches.service import lifecycle, lists, pages, population
from signalbox.batches.service import units as batches_units
from signalbox.core.problems import Problem
from tests.simulation.reached_counts import REACHED, RIVALS
from tests.simulation.world import World
from tests.simulation.worlds.batches.callers import Callers

RIVAL_RATE = 0.4
"""The share of worlds with a rival, of those in which the kit makes a batch, without limiters, purges and people."""

ATTEMPTS_MAX = 8


def has_rival(seed: int) -> bool:
    """Return whether a world has a rival."""
    return Random(f"rival {seed}").random() < RIVAL_RATE


class Rival:
    """A caller that reads the ids of the batch that follows `b`, and of sub-batches as soon as they exist."""

    def __init__(self, world: World, callers: Callers, seed: int) -> None:
        self._world, self._callers = world, callers
        self._random = Random(f"attempts of a rival {seed}")

    def beginnings(self) -> list[Callable[[], None]]:
        """Return the rival's processes."""
        return [self._start for _ in range(self._random.randint(1, 3))]

    def _start(self) -> None:
        self._world.start("rival", self._attempt_all)

    def _attempt_all(self) -> None:
        """Attempt something several times; a refusal ends only its attempt."""
        for _ in range(self._random.randint(1, ATTEMPTS_MAX)):
            try:
                self._attempt()
            except Problem as refused:
                REACHED[RIVALS] += 1
                self._world.log(f"refused: {refused.detail}")

    def _attempt(self) -> None:
        ports, named = self._world.ports, self._named()
        if not named:
            return
        id_ = self._random.choice(named)
        match self._random.choice(("create", "create", "page", "seal", "complete", "cancel")):
            case "create":
                population.populate(ports, requests.check_chosen_id(id_), BatchSpec(sealed=True))
            case "page":
                page = PageRequest(self._next_page(id_), [{"n": -1}])
                pages.add_page(ports, requests.check_is_of_callers(id_), page)
            case "seal":
                request = SealRequest(self._next_page(id_))
                lifecycle.seal(ports, requests.check_is_of_callers(id_), request)
            case "complete":
                outcome = succeeded({"result": self._callers.next_result()})
                batches_units.complete_by_index(ports, id_, self._random.randint(0, 2), outcome)
            case "cancel":
                lifecycle.cancel(ports, id_)

    def _next_page(self, id_: str) -> int:
        """Return the number of a batch's next page as its status shows it. Raises `NotFound`."""
        return lifecycle.get(self._world.ports, id_).pages or 0

    def _named(self) -> list[str]:
        """Return the ids that a caller can read, except that of `b` itself."""
        listed = lists.find(self._world.ports, BatchesQuery.from_request({}))
        follows = [header for id_, header in listed.headers.items() if id_ == "b"]
        named = [id_ for id_ in listed.headers if id_ != "b"]
        return named + ([lifecycle.get(self._world.ports, "b").then] if follows and follows[0].then else [])
