"""The versions of the atlas on the real stack: a deletion that cascades is a version of all that goes, and undone."""

from typing import Any

import pytest

from examples.gazetteer.client import Documents
from tests.emulator.waiting import eventually

pytestmark = pytest.mark.slow

ITEMS: dict[str, dict[str, Any]] = {
    "continents/EU": {"name": "Europe"},
    "countries/FR": {"name": "France", "continent": "EU"},
    "cities/paris": {"name": "Paris", "latitude": 48.9, "longitude": 2.4, "country": "FR"},
}


def test_an_item_is_renamed_restored_deleted_with_what_refers_to_it_and_all_are_brought_back(client: Documents) -> None:
    for at, item in ITEMS.items():
        client.call("PUT", f"atlas/{at}", json=item)
    client.call("PUT", "atlas/continents/EU", json={"name": "Europa"})
    _eventually_named(client, "Europa")

    latest, first = _versions(client, "continents/EU")
    assert {each["author"] for each in (latest, first)} == {"function:atlas"}
    changes = client.call("GET", f"{_document('continents/EU')}/versions/{first['version']}/changes").json()
    assert changes["to"] == latest["version"]
    assert {"op": "replace", "path": "/name", "value": "Europa"} in changes["patch"]
    _restore(client, "continents/EU", first)
    _eventually_named(client, "Europe")
    assert len(_versions(client, "cities/paris")) == 1

    client.call("DELETE", "atlas/continents/EU")
    assert [_versions(client, at)[0]["action"] for at in ITEMS] == ["delete"] * 3
    for at in ITEMS:
        _restore(client, at, _versions(client, at)[1])
    _eventually_named(client, "Europe")
    assert [_versions(client, at)[0]["action"] for at in ITEMS] == ["restore"] * 3
    client.call("DELETE", "atlas/continents/EU")  # other tests on this stack find documents by such names


def _document(at: str) -> str:
    return f"documents/{at.replace('/', '~')}"


def _versions(client: Documents, at: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.call("GET", f"{_document(at)}/versions").json()["versions"]
    return found


def _restore(client: Documents, at: str, version: dict[str, Any]) -> None:
    client.call("POST", f"{_document(at)}/versions/{version['version']}/restore")


def _eventually_named(client: Documents, continent: str) -> None:
    """Wait until the copy of the continent in the city's copy of the country shows this name."""

    def shown() -> bool:
        paris = client.call("GET", "atlas/cities/paris").json()
        return bool(paris["country"]["name"] == "France" and paris["country"]["continent"]["name"] == continent)

    eventually(shown)
