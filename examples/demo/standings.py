"""Stage 6: the largest cities yoke their countries; some change their minds, and some leave again.

The standings converge to exact values.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from examples.demo.measured_step import measured_step, poll_until
from examples.gazetteer.checks import Check
from examples.gazetteer.job import OnProgress, Result, Site
from examples.standings.data import Relation, cities, expected
from signalbox.client import Client

CITIES = 100
GONE_EACH, CHANGED_EACH = 7, 5
CALLERS = 8
SECONDS_MAX = 60.0
NUMBERS = ("count", "sum", "average", "min", "max", "pending")


def stage(run_id: str, count: int = CITIES) -> Callable[[Client, Site, OnProgress], Iterator[Result]]:
    """Return the stage on users and items named after the run."""

    def run(client: Client, site: Site, _: OnProgress) -> Iterator[Result]:
        named = [
            replace(each, user=f"{each.user}-{run_id}", item=f"{each.item}-{run_id}", attributes={})
            for each in cities(count)
        ]
        yield measured_step(
            "standings",
            f"{count} cities yoke their countries with their population; some twice, some no longer",
            site,
            lambda: yoke_all(client, named),
            lambda: [compare(client, named)],
        )

    return run


def yoke_all(client: Client, relations: Sequence[Relation]) -> Check:
    """Put yokes, change their values and delete some; return when all standings have no pending adjustments."""
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(lambda each: _yoke(client, *each), enumerate(relations)))
    return poll_until(f"exact within {SECONDS_MAX:g} s", SECONDS_MAX, lambda: not differing(client, relations))


def compare(client: Client, relations: Sequence[Relation]) -> Check:
    """Compare each standing with what plain Python adds up."""
    sentence = "each country's count, sum, average, smallest and largest city equal a recount"
    return Check(sentence, ", ".join(differing(client, relations)[:3]), len(_wanted(relations)))


def differing(client: Client, relations: Sequence[Relation]) -> list[str]:
    """Return the countries whose standing is not exact."""
    return [item for item, want in _wanted(relations).items() if _shown(client, item) != {**want, "pending": 0}]


def _yoke(client: Client, index: int, relation: Relation) -> None:
    path = f"yokes/{relation.user}/{relation.item}"
    for value in (relation.value // 2, relation.value) if index % CHANGED_EACH == 0 else (relation.value,):
        client.request("PUT", path, body={"value": value})
    if index % GONE_EACH == 0:
        client.request("DELETE", path)


def _wanted(relations: Sequence[Relation]) -> dict[str, dict[str, Any]]:
    return expected((each for index, each in enumerate(relations) if index % GONE_EACH), "item")


def _shown(client: Client, item: str) -> dict[str, Any]:
    shown = client.request("GET", f"standings/item/{item}")
    return {name: shown[name] for name in NUMBERS}
