"""The measurement of a rename ends when the last copy has followed, whichever that is."""

from collections.abc import Callable

import httpx
import pytest

from examples.gazetteer import rename
from examples.gazetteer.data import Document, gazetteer
from examples.gazetteer.steps import plan
from signalbox.client import Client
from tests.unit.examples.test_gazetteer_job import Service

CITIES = 60


@pytest.mark.parametrize("order", [sorted, lambda keys: sorted(keys, reverse=True)])
def test_a_rename_is_seen_when_the_last_copy_has_followed(
    monkeypatch: pytest.MonkeyPatch, order: Callable[[list[str]], list[str]]
) -> None:
    monkeypatch.setattr(rename, "POLL_SECONDS", 0)
    steps = plan(gazetteer(CITIES))
    load, step = next(steps), next(steps)
    behind = order(step.affected())
    assert len(behind) > 1
    [change] = step.changes
    asked = 0

    def as_it_was(document: Document) -> Document:
        if document["key"] not in behind:
            return document
        return {**document, "country": {**document["country"], "name": step.before[change.key]["name"]}}

    service = Service(as_it_was)

    def one_more_follows(request: httpx.Request) -> httpx.Response:
        nonlocal asked
        if request.method == "GET":
            asked += 1
            del behind[:1]
            if asked == 1:
                return httpx.Response(503)
        return service(request)

    with Client("http://test/", transport=httpx.MockTransport(one_more_follows), retry_seconds=0) as client:
        rename.load(client, load)
        assert rename.rename(client, step) >= 0
    assert not behind
