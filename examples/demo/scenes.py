"""What the last two acts have in common: begin something, wait until it is over, then compare."""

import time
from collections.abc import Callable, Sequence

from examples.gazetteer.checks import Check
from examples.gazetteer.job import Result, Site
from examples.gazetteer.ledger import Counts, Spent
from examples.gazetteer.steps import Step

POLL_SECONDS = 0.2


def scene(
    name: str, story: str, site: Site, begin: Callable[[], Check], compare: Callable[[], Sequence[Check]]
) -> Result:
    """Carry out a step that changes no document of ours. `begin` returns when what it began is over."""
    started = _spent(site)
    begun = begin()
    changed = _spent(site)
    checks = compare()
    return Result(Step(name, story, {}, {}), 0, (begun, *checks), changed - started, _spent(site) - changed)


def until(sentence: str, seconds_max: float, over: Callable[[], bool]) -> Check:
    """Ask until it is over."""
    give_up_at = time.monotonic() + seconds_max
    while not over():
        if time.monotonic() > give_up_at:
            return Check(sentence, f"not within {seconds_max:g} s")
        time.sleep(POLL_SECONDS)
    return Check(sentence)


def _spent(site: Site) -> Spent:
    return Spent(time.monotonic(), Counts.of(site.counts()))
