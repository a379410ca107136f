"""Transforms through HTTP on the real stack: people at an address, whose line of text follows target and transform."""

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from signalbox_tools.local.stack import Stack

ADDRESS = {
    "type": "Address",
    "addr1": "1 thing st",
    "city": "stuffville",
    "zipcode": 54321,
    "tags": ["some", "tags"],
}
FULL = {"fulladdr": "{{.addr1}}, {{.city}} {{.zipcode}}"}
PATIENCE_SECONDS = 30


@pytest.fixture
def client(killable: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=killable.base_url, timeout=30) as client:
        yield client


def shown(client: httpx.Client, expected: object, key: str = "897654") -> Any:
    """Return the address of a person's document: as soon as it is the expected one, else after PATIENCE_SECONDS."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        copy = client.get(f"documents/{key}").json()["address"]
        if copy == expected or time.monotonic() > give_up:
            return copy
        time.sleep(0.05)


def test_copies_follow_their_target_and_the_transform_of_their_field(client: httpx.Client) -> None:
    stored = client.put("transforms/address", json=FULL)
    assert (stored.status_code, stored.json()) == (201, FULL)
    client.put("documents/1234567", json=ADDRESS)
    person = client.put("documents/897654", json={"type": "Person", "name": "Fred", "address": {"key": "1234567"}})
    full = {"key": "1234567", "fulladdr": "1 thing st, stuffville 54321"}
    assert (person.status_code, person.json()["address"]) == (201, full)
    for number in range(60):
        client.put(f"documents/neighbour{number}", json={"address": [{"key": "1234567"}]})

    client.put("documents/1234567", json=ADDRESS | {"addr1": "2 thing st"})
    full = {"key": "1234567", "fulladdr": "2 thing st, stuffville 54321"}
    assert shown(client, full) == full

    changed = client.put("transforms/address", json={"town": "#.city", "tags": ["#.tags @:"]})
    assert changed.status_code == 200
    assert changed.headers["ETag"] != stored.headers["ETag"]
    town = {"key": "1234567", "town": "stuffville", "tags": ["some", "tags"]}
    assert shown(client, town) == town
    assert shown(client, [town], "neighbour59") == [town]

    assert client.delete("transforms/address").status_code == 204
    assert client.get("transforms/address").status_code == 404
    plain = {"key": "1234567", **ADDRESS, "addr1": "2 thing st"}
    assert shown(client, plain) == plain


def test_a_put_is_refused_with_the_field_where_output_is_not_an_object(client: httpx.Client) -> None:
    never = client.put("transforms/part", json=["#.detail"])
    assert (never.status_code, never.json()["type"]) == (400, "urn:signalbox:problem:bad-transform")
    assert client.put("transforms/part", json="#.detail").status_code == 201
    assert client.get("transforms/part").json() == "#.detail"
    client.put("documents/t", json={"detail": 5})
    refused = client.put("documents/p", json={"part": {"key": "t"}})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:signalbox:problem:transform-failed")
    assert refused.json()["field"] == "part"
    assert client.get("documents/p").status_code == 404
    assert client.delete("transforms/unknown").status_code == 404
