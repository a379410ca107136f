"""The measurement of a rename ends when every copy shows the new name."""

import time
from collections.abc import Callable

import httpx
import pytest

from examples.gazetteer import rename
from examples.gazetteer.data import Document, gazetteer
from examples.gazetteer.steps import plan
from signalbox.client import Client
from tests.unit.examples.test_gazetteer_job import Service

CITIES = 60
READ_SECONDS = 0.05


@pytest.mark.parametrize("order", [sorted, lambda keys: sorted(keys, reverse=True)], ids=["in order", "reversed"])
def test_a_rename_ends_after_the_last_copy_and_queries_only_after_the_last_key(
    monkeypatch: pytest.MonkeyPatch, order: Callable[[list[str]], list[str]]
) -> None:
    monkeypatch.setattr(rename, "POLL_SECONDS", 0)
    monkeypatch.setattr(rename, "SECONDS_MAX", 10)
    steps = plan(gazetteer(CITIES))
    load, step = next(steps), next(steps)
    stale = order(step.affected())
    last = max(stale)
    assert len(stale) > 1
    [change] = step.changes
    reads = 0

    def with_old_name(document: Document) -> Document:
        if document["key"] not in stale:
            return document
        return {**document, "country": {**document["country"], "name": step.before[change.key]["name"]}}

    service = Service(with_old_name)

    def one_more_follows(request: httpx.Request) -> httpx.Response:
        nonlocal reads
        assert request.url.path != "/documents/:query" or last not in stale
        if request.method == "GET":
            reads += 1
            del stale[:1]
            if reads == 1:
                time.sleep(READ_SECONDS)
                return httpx.Response(503)
        return service(request)

    with Client("http://test/", transport=httpx.MockTransport(one_more_follows), retry_seconds=0) as client:
        rename.load(client, load)
        assert rename.rename(client, step) >= READ_SECONDS
    assert not stale
