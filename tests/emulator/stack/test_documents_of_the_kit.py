"""A stack whose catalogue says that only the kit writes documents: copies follow without an event."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from signalbox.catalogue import reading as catalogues
from signalbox.client import Client
from signalbox.core.ports import Put
from signalbox_tools.local.stack import Stack
from tests.emulator.other_clients import another_client

pytestmark = pytest.mark.slow

QUIET_SECONDS = 30


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("kit")
    content: dict[str, Any] = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    content["documents"] = {"written_by": "kit"}
    catalogue = folder / "catalogue.yaml"
    catalogue.write_text(yaml.safe_dump(content), "utf-8")
    with Stack(folder=folder, catalogue=catalogue) as stack:
        yield stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.base_url) as asking:
        yield asking


def shown(client: Client, key: str) -> Any:
    """Return the copy in a document."""
    document = client.documents.get(key)
    assert document
    return document["a"]


def test_copies_follow_over_two_links_and_a_deletion(stack: Stack, client: Client) -> None:
    client.documents.put("q", {"a": {"key": "p"}})
    client.documents.put("p", {"a": {"key": "t"}})
    client.documents.put("t", {"n": 1})
    stack.wait_until_idle(QUIET_SECONDS)
    assert shown(client, "q")["a"] == {"key": "t", "n": 1}
    client.documents.put("t", {"n": 2})
    stack.wait_until_idle(QUIET_SECONDS)
    assert shown(client, "q")["a"] == {"key": "t", "n": 2}
    client.documents.delete("t")
    stack.wait_until_idle(QUIET_SECONDS)
    assert shown(client, "q")["a"] == {"key": "t", "link_missing": True}


def test_another_clients_write_has_no_event(stack: Stack, client: Client) -> None:
    client.documents.put("source", {"n": 1})
    client.documents.put("shown", {"a": {"key": "source"}})
    stack.wait_until_idle(QUIET_SECONDS)
    with another_client(stack) as store:
        store.commit([Put("documents/source", {"n": 7})])
    stack.wait_until_idle(QUIET_SECONDS)
    assert shown(client, "shown")["n"] == 1
