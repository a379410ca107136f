"""The versions of the atlas on the real stack: a deletion that cascades is a version of all that goes, and undone."""

from typing import Any

import pytest

from signalbox.client import Client
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

ITEMS: dict[str, dict[str, Any]] = {
    "continents/EU": {"name": "Europe"},
    "countries/FR": {"name": "France", "continent": "EU"},
    "cities/paris": {"name": "Paris", "latitude": 48.9, "longitude": 2.4, "country": "FR"},
}


def test_an_item_is_renamed_restored_deleted_with_what_refers_to_it_and_all_are_brought_back(client: Client) -> None:
    for at, item in ITEMS.items():
        client.request("PUT", f"atlas/{at}", body=item)
    client.request("PUT", "atlas/continents/EU", body={"name": "Europa"})
    _eventually_named(client, "Europa")

    latest, first = _versions(client, "continents/EU")
    assert {each["author"] for each in (latest, first)} == {"function:atlas"}
    changes = client.request("GET", f"{_document('continents/EU')}/versions/{first['version']}/changes")
    assert changes["to"] == latest["version"]
    assert {"op": "replace", "path": "/name", "value": "Europa"} in changes["patch"]
    _restore(client, "continents/EU", first)
    _eventually_named(client, "Europe")
    assert len(_versions(client, "cities/paris")) == 1

    client.request("DELETE", "atlas/continents/EU")
    assert [_versions(client, at)[0]["action"] for at in ITEMS] == ["delete"] * 3
    for at in ITEMS:
        _restore(client, at, _versions(client, at)[1])
    _eventually_named(client, "Europe")
    assert [_versions(client, at)[0]["action"] for at in ITEMS] == ["restore"] * 3
    client.request("DELETE", "atlas/continents/EU")  # other tests on this stack find documents by such names


def _document(at: str) -> str:
    return f"documents/{at.replace('/', '~')}"


def _versions(client: Client, at: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.request("GET", f"{_document(at)}/versions")["versions"]
    return found


def _restore(client: Client, at: str, version: dict[str, Any]) -> None:
    client.request("POST", f"{_document(at)}/versions/{version['version']}/restore")


def _eventually_named(client: Client, continent: str) -> None:
    """Wait until the copy of the continent in the city's copy of the country shows this name."""

    def shown() -> bool:
        paris = client.request("GET", "atlas/cities/paris")
        return bool(paris["country"]["name"] == "France" and paris["country"]["continent"]["name"] == continent)

    eventually(shown)
