"""The step that the stages on semaphores and batches share: start work, poll until it is done, then compare."""

import time
from collections.abc import Callable, Sequence

from examples.gazetteer.checks import Check
from examples.gazetteer.cost import Counts, Spent
from examples.gazetteer.job import Result, Site
from examples.gazetteer.steps import Step

POLL_SECONDS = 0.2


def measured_step(
    name: str, summary: str, site: Site, work: Callable[[], Check], compare: Callable[[], Sequence[Check]]
) -> Result:
    """Run a step that changes none of the job's documents. `work` returns when the work that it has started is done."""
    started = _spent(site)
    worked = work()
    changed = _spent(site)
    checks = compare()
    return Result(Step(name, summary, {}, {}), 0, (worked, *checks), changed - started, _spent(site) - changed)


def poll_until(sentence: str, seconds_max: float, is_done: Callable[[], bool]) -> Check:
    """Poll until the condition holds, for at most `seconds`. Return the sentence as a check."""
    give_up_at = time.monotonic() + seconds_max
    while not is_done():
        if time.monotonic() > give_up_at:
            return Check(sentence, f"not within {seconds_max:g} s")
        time.sleep(POLL_SECONDS)
    return Check(sentence)


def _spent(site: Site) -> Spent:
    return Spent(time.monotonic(), Counts.of(site.counts()))
