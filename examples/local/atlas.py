"""Load the atlas with the world's cities, change it, and compare every answer with the input.

python -m examples.local.atlas [CITIES]
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

from examples.gazetteer.data import CREDIT, gazetteer
from signalbox.testing import Harness

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
    """Run all steps; return the differences from the input."""
    held = world(cities_max)
    with Harness() as harness:
        differing = list(_loaded(harness, held))
        differing += _listed(harness, held)
        differing += _renamed(harness, held)
        differing += _named_as_before(harness, held)
        differing += _deleted(harness, held)
        return differing + list(_brought_back(harness, held))


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
    """Sort and filter the cities, also by fields of copies."""
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
    """Rename a continent. Its countries and all their cities must show the new name."""
    held["continents"]["AS"]["name"] = "Asia (renamed)"
    harness.put("atlas/continents/AS", json={"name": "Asia (renamed)"})
    harness.run()
    yield from _whole(harness, held, "after the continent's new name")


def _named_as_before(harness: Harness, held: World) -> Iterator[str]:
    """Compare the continent's two versions, and restore the first.

    A refresh of the copies in its countries makes no versions of them.
    """
    [latest, first] = _versions(harness, "continents", "AS")
    at = f"documents/continents~AS/versions/{first['version']}"
    name = harness.get(at).json["document"]["name"]
    patch = harness.get(f"{at}/changes?to={latest['version']}").json["patch"]
    if {"op": "replace", "path": "/name", "value": "Asia (renamed)"} not in patch:
        yield f"the new name is not among the changes: {patch}"
    harness.post(f"{at}/restore")
    harness.run()
    held["continents"]["AS"]["name"] = name
    yield from _whole(harness, held, "after restoring the continent's first version")
    yield from (
        f"countries/{id_} has a version that no user made"
        for id_ in held["countries"]
        if len(_versions(harness, "countries", id_)) != 1
    )


def _deleted(harness: Harness, held: World) -> Iterator[str]:
    """Delete a continent.

    Its countries and all their cities must be deleted with it, each as a version, and nothing else.
    """
    while harness.delete("atlas/continents/AS").status == 503:
        pass  # more go along than one call deletes
    harness.run()
    gone = _of_asia(held)
    left = {name: {id_: item for id_, item in held[name].items() if id_ not in gone[name]} for name in held}
    yield from _whole(harness, left, "after the continent's deletion")
    for resource, items in held.items():
        for id_ in items:
            if (_versions(harness, resource, id_)[0]["action"] == "delete") != (id_ in gone[resource]):
                yield f"{resource}/{id_}: its versions do not say whether it is deleted"


def _brought_back(harness: Harness, held: World) -> Iterator[str]:
    """Restore the deleted items, level by level, from the versions before the deletions. All must be as before."""
    for resource, ids in _of_asia(held).items():
        for id_ in sorted(ids):
            before = _versions(harness, resource, id_)[1]["version"]
            harness.post(f"documents/{resource}~{id_}/versions/{before}/restore")
    harness.run()
    yield from _whole(harness, held, "after restoring the continent")


def _of_asia(held: World) -> dict[str, set[str]]:
    """Return the ids of the items that are deleted with the continent, by resource."""
    countries = {id_ for id_, each in held["countries"].items() if each["continent"] == "AS"}
    cities = {id_ for id_, each in held["cities"].items() if each["country"] in countries}
    return {"continents": {"AS"}, "countries": countries, "cities": cities}


def _versions(harness: Harness, resource: str, id_: str) -> list[dict[str, Any]]:
    """Return the versions of an item's document, the latest first."""
    found: list[dict[str, Any]] = harness.get(f"documents/{resource}~{id_}/versions").json["versions"]
    return found


def main() -> int:
    cities_max = int(sys.argv[1]) if len(sys.argv) > 1 else CITIES_DEFAULT
    differing = run(cities_max)
    sys.stdout.write("\n".join([CREDIT, *(differing or ["every answer equals the input"])]) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
