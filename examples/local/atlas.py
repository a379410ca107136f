"""Load the atlas with the world's cities, change it, and compare every answer with the input.

python -m examples.local.atlas [CITIES]
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from examples.gazetteer.data import CREDIT, gazetteer
from shared.testing import Harness

CITIES_DEFAULT = 300
RESOURCES = {"continent": "continents", "country": "countries", "city": "cities"}
FIELDS = {
    "continents": ("name", "population"),
    "countries": ("name", "capital", "population", "area_km2", "languages", "continent"),
    "cities": ("name", "population", "time_zone", "country"),
}
REFERS_TO = {"countries": ("continent", "continents"), "cities": ("country", "countries")}
PAGE = 50

Items = dict[str, dict[str, Any]]
World = Mapping[str, Items]
"""The bare items of each resource by id: a reference is an id."""


def world(cities_max: int) -> dict[str, Items]:
    """Return continents, countries and cities as a client sends them."""
    found: dict[str, Items] = {name: {} for name in RESOURCES.values()}
    for key, document in gazetteer(cities_max).items():
        kind, _, id_ = key.partition("-")
        found[RESOURCES[kind]][id_] = _item(RESOURCES[kind], document)
    return found


def _item(resource: str, document: Mapping[str, Any]) -> dict[str, Any]:
    item = {name: document[name] for name in FIELDS[resource]}
    if resource in REFERS_TO:
        field, _ = REFERS_TO[resource]
        item[field] = document[field]["key"].partition("-")[2]
    return item | (document["position"] if resource == "cities" else {})


def shown(held: World, resource: str, id_: str) -> dict[str, Any]:
    """Return an item as the resource must answer it."""
    item = {"id": id_, **held[resource][id_]}
    for name in ("area_km2", "latitude", "longitude"):
        item |= {name: float(item[name])} if name in item else {}
    if resource in REFERS_TO:
        field, target = REFERS_TO[resource]
        item[field] = shown(held, target, item[field])
    return item


def run(cities_max: int) -> list[str]:
    """Run all steps; return what differs from the input."""
    held = world(cities_max)
    with Harness() as harness:
        differing = list(_loaded(harness, held))
        differing += _listed(harness, held)
        differing += _renamed(harness, held)
        return differing + list(_deleted(harness, held))


def _loaded(harness: Harness, held: World) -> Iterator[str]:
    """Put everything, and read it back page by page. A country of a continent that is not there is refused."""
    first = next(iter(held["countries"].values()))
    if harness.put("atlas/countries/first", json=first).json.get("field") != "continent":
        yield "a reference to nothing was not refused"
    for resource, items in held.items():
        for id_, item in items.items():
            answer = harness.put(f"atlas/{resource}/{id_}", json=item)
            if (answer.status, answer.json) != (201, shown(held, resource, id_)):
                yield f"{resource}/{id_}: {answer.status} {answer.json}"
    harness.run()
    yield from _whole(harness, held, "after loading")


def _whole(harness: Harness, held: World, when: str) -> Iterator[str]:
    for resource, items in held.items():
        found = {item["id"]: item for item in _pages(harness, f"atlas/{resource}?_limit={PAGE}")}
        wanted = {id_: shown(held, resource, id_) for id_ in items}
        if found != wanted:
            yield f"{when}: {resource} differ in {[id_ for id_ in wanted if found.get(id_) != wanted[id_]][:5]}"
        if len(found) != len(wanted):
            yield f"{when}: {len(found)} {resource}, and expected {len(wanted)}"


def _pages(harness: Harness, at: str) -> Iterator[dict[str, Any]]:
    while at:
        answer = harness.get(at)
        yield from answer.json
        link = answer.headers.get("Link", "")
        at = f"{at.partition('?')[0]}{link[link.index('?') : link.index('>')]}" if link else ""


def _listed(harness: Harness, held: World) -> Iterator[str]:
    """Sort and filter the cities, by fields of copies too."""
    cities = [shown(held, "cities", id_) for id_ in held["cities"]]
    largest = max(cities, key=lambda each: each["population"])
    least = largest["population"] // 2
    chosen: list[tuple[dict[str, object], Callable[[dict[str, Any]], bool]]] = [
        ({}, lambda _: True),
        ({"population_gte": least}, lambda each: each["population"] >= least),
        ({"country": largest["country"]["id"]}, lambda each: each["country"] == largest["country"]),
        (
            {"country.continent.name": "Europe", "time_zone_ne": "Europe/London"},
            lambda each: each["country"]["continent"]["name"] == "Europe" and each["time_zone"] != "Europe/London",
        ),
    ]
    for query, holds in chosen:
        wanted = sorted(filter(holds, cities), key=lambda each: (-each["population"], each["name"]))
        asked = {**query, "_sort": "-population,name", "_start": 0, "_end": PAGE}
        answer = harness.get(f"atlas/cities?{urlencode(asked)}")
        if (answer.json, answer.headers["X-Total-Count"]) != (wanted[:PAGE], str(len(wanted))):
            yield f"{asked}: {answer.headers['X-Total-Count']} cities, and expected {len(wanted)}"


def _renamed(harness: Harness, held: World) -> Iterator[str]:
    """Rename a continent: its countries and all their cities must show it."""
    held["continents"]["AS"]["name"] = "Asia (renamed)"
    harness.put("atlas/continents/AS", json={"name": "Asia (renamed)"})
    harness.run()
    yield from _whole(harness, held, "after the continent's new name")


def _deleted(harness: Harness, held: World) -> Iterator[str]:
    """Delete a continent: its countries and all their cities must go with it, and nothing else."""
    while harness.delete("atlas/continents/AS").status == 503:
        pass  # more go along than one call deletes
    harness.run()
    countries = {id_: each for id_, each in held["countries"].items() if each["continent"] != "AS"}
    cities = {id_: each for id_, each in held["cities"].items() if each["country"] in countries}
    continents = {id_: each for id_, each in held["continents"].items() if id_ != "AS"}
    left = {"continents": continents, "countries": countries, "cities": cities}
    yield from _whole(harness, left, "after the continent's deletion")


def main() -> int:
    cities_max = int(sys.argv[1]) if len(sys.argv) > 1 else CITIES_DEFAULT
    differing = run(cities_max)
    sys.stdout.write("\n".join([CREDIT, *(differing or ["every answer equals the input"])]) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
