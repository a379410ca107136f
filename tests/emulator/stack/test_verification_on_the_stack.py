"""Another client writes past the kit, on the real stack: events mend what they see, a verification the rest."""

from collections.abc import Iterator
from typing import Any

import pytest

from examples.gazetteer.data import terms
from signalbox.client import ApiError, Client
from signalbox.core.ports import REMOVE, Change, Put, Store
from signalbox.documents.model.contents import digest_of
from signalbox.documents.model.stamped_contents import RESERVED
from signalbox_tools.local.stack import Stack
from tests.emulator.other_clients import another_client

pytestmark = pytest.mark.slow

QUIET_SECONDS = 30


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with Stack(folder=tmp_path_factory.mktemp("stack")) as stack:
        yield stack


@pytest.fixture
def client(stack: Stack) -> Iterator[Client]:
    with Client(stack.base_url) as asking:
        yield asking


@pytest.fixture
def other(stack: Stack) -> Iterator[Store]:
    """A client of the same database that knows nothing of the kit."""
    with another_client(stack) as store:
        yield store


def test_a_plain_set_of_another_client_is_normalized_by_its_event(stack: Stack, client: Client, other: Store) -> None:
    client.documents.put("t", {"n": 1})
    other.commit([Put("documents/p", {"a": {"key": "t"}, "raw": {"__bytes__": "AAE="}})])
    stack.wait_until_idle(QUIET_SECONDS)
    assert client.documents.get("p") == {"key": "p", "a": {"key": "t", "n": 1}, "raw": {"__bytes__": "AAE="}}
    other.commit([Put("documents/t", {"n": 2})])
    stack.wait_until_idle(QUIET_SECONDS)
    assert list(client.documents.find(*terms({"a.n": 2}))) == [
        {"key": "p", "a": {"key": "t", "n": 2}, "raw": {"__bytes__": "AAE="}},
    ]


def test_a_verification_repairs_what_lost_events_left(stack: Stack, client: Client, other: Store) -> None:
    client.documents.put("s", {"n": 1})
    client.documents.put("q", {"a": {"key": "s"}})
    client.documents.put("r", {"a": {"key": "s"}})
    client.documents.put("s", {"n": 2})
    stack.wait_until_idle(QUIET_SECONDS)
    forge(other, "q", {"a": {"key": "s", "n": 7}})
    other.commit([Change("documents/r", {(RESERVED, "link_keys"): REMOVE})])
    other.commit([Change("documents/s", {(RESERVED, "linked"): False})])
    stack.wait_until_idle(QUIET_SECONDS)
    assert client.documents.get("q") == {"key": "q", "a": {"key": "s", "n": 7}}
    run = client.verifications.begin()["run"]
    stack.wait_until_idle(QUIET_SECONDS)
    report = client.verifications.get(run)
    assert (report["state"], report["drifted"] + report["moving"]) == ("ended", report["repaired"])
    assert report["repaired"] >= 2
    assert client.documents.get("q") == {"key": "q", "a": {"key": "s", "n": 2}}
    client.documents.put("s", {"n": 3})
    stack.wait_until_idle(QUIET_SECONDS)
    assert [client.documents.get(key) for key in "qr"] == [{"key": key, "a": {"key": "s", "n": 3}} for key in "qr"]
    assert client.verifications.list()[0]["run"] == run


def test_the_stack_refuses_a_query_whose_index_the_catalogue_does_not_declare(client: Client) -> None:
    with pytest.raises(ApiError) as refused:
        client.documents.page("a.n==1", order_by="-name")
    assert refused.value.slug == "needs-index"
    assert 'documents-a-n-name: {collection: documents, fields: ["a.n", "-name"]}' in refused.value.detail


def forge(other: Store, key: str, content: dict[str, Any]) -> None:
    """Alter a copy as if the kit itself had written it: its event has nothing to say."""
    [held] = other.read(f"documents/{key}")
    assert held.data is not None
    stamp = held.data[RESERVED]
    assert stamp["author"] == "refresh"
    other.commit([Put(held.path, {**content, RESERVED: stamp | {"digest": digest_of(content)}})])
