"""The gazetteer's job must notice what a service gets wrong: held against a tiny service with planted faults."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import httpx
import pytest

from examples.gazetteer.data import Document, gazetteer, matching, shown
from examples.gazetteer.job import Job, Result
from examples.gazetteer.steps import READ_EVERY, plan, removal
from signalbox.client import Client

CITIES = 30


class Service:
    """Documents in memory, with their links filled at each read; `fault` may spoil a response."""

    def __init__(self, fault: Callable[[Document], Document | None]) -> None:
        self.documents: dict[str, Document] = {}
        self.fault = fault

    def __call__(self, request: httpx.Request) -> httpx.Response:
        key = request.url.path.removeprefix("/documents").removeprefix("/")
        if key == ":query":
            return self.find(json.loads(request.content))
        if request.method == "POST":
            return self.load([json.loads(line) for line in request.content.splitlines()])
        if request.method == "PUT":
            self.documents[key] = json.loads(request.content)
            return httpx.Response(200, json=shown(key, self.documents))
        if request.method == "DELETE":
            return httpx.Response(204 if self.documents.pop(key, None) else 404)
        answer = self.answer(key)
        return httpx.Response(200, json=answer) if answer else httpx.Response(404)

    def load(self, bodies: list[Document]) -> httpx.Response:
        keys = [body["key"] for body in bodies]
        self.documents |= {body.pop("key"): body for body in bodies}
        return httpx.Response(200, json={"results": [{"key": key, "status": 201} for key in keys]})

    def answer(self, key: str) -> Document | None:
        return self.fault(shown(key, self.documents)) if key in self.documents else None

    def find(self, asked: Mapping[str, Any]) -> httpx.Response:
        found = matching({field: value for field, _, value in asked["where"]}, self.answers())
        after, limit = asked.get("page_token", ""), int(asked["limit"])
        keys = [key for key in sorted(found) if key > after]
        more = {"next_page_token": keys[limit - 1]} if len(keys) > limit else {}
        return httpx.Response(200, json={"documents": [found[key] for key in keys[:limit]], **more})

    def answers(self) -> dict[str, Document]:
        return {key: answer for key in list(self.documents) if (answer := self.answer(key)) is not None}


class BlindSite:
    """A site of which nothing is to be seen, unless that it is busy."""

    def __init__(self, *, busy: bool = False) -> None:
        self.busy = busy

    def counts(self) -> Mapping[str, int]:
        return {}

    def wait_until_idle(self, seconds_max: float) -> None:
        if self.busy:
            raise TimeoutError(f"not idle after {seconds_max:g} s")


def run(fault: Callable[[Document], Document | None], *, busy: bool = False) -> dict[str, Result]:
    documents = gazetteer(CITIES)
    with Client("http://test/", transport=httpx.MockTransport(Service(fault))) as client:
        job = Job(client, BlindSite(busy=busy), lambda *_: None, settle_seconds_max=0)
        results = [*job.run(plan(documents)), job.perform(removal(documents))]
    return {result.step.name: result for result in results}


def failed(results: Mapping[str, Result]) -> set[str]:
    return {name for name, result in results.items() if result.faults}


def test_all_checks_hold_against_a_service_that_is_right() -> None:
    results = run(lambda document: document)
    assert failed(results) == set()
    assert list(results)[-2:] == ["verify all", "remove"]
    documents = gazetteer(CITIES)
    assert results["verify all"].compared == len(documents) + len(tuple(documents)[::READ_EVERY])


def lost_city(document: Document) -> Document | None:
    return None if document["key"] == "city-1850147" else document


def stale_copies(document: Document) -> Document:
    country = document.get("country", {})
    return document | {"country": country | {"name": "China"}} if country.get("key") == "country-CN" else document


def rounded(document: Document) -> Document:
    return document | {"population": float(document["population"])} if document["key"] == "continent-EU" else document


def never_missing(document: Document) -> Document:
    country = document.get("country", {})
    return document | {"country": {"key": country["key"]}} if country.get("link_missing") else document


@pytest.mark.parametrize(
    ("fault", "noticed_by"),
    [
        (lost_city, {"load", "rename a continent", "query by copies", "verify all"}),
        (stale_copies, {"rename a country", "rename a continent", "query by copies", "verify all"}),
        (rounded, {"load", "verify all"}),
        (never_missing, {"delete a country"}),
    ],
)
def test_a_planted_fault_is_noticed(fault: Callable[[Document], Document | None], noticed_by: set[str]) -> None:
    assert failed(run(fault)) == noticed_by


def test_copies_that_do_not_follow_in_time_are_named() -> None:
    fault = run(stale_copies)["rename a country"].faults[0]
    assert fault.sentence == "every copy followed within 0 s"
    assert fault.fault.endswith("still has country.name == 'China'")


def test_a_site_that_does_not_become_quiet_fails_every_step_that_changes_something() -> None:
    results = run(lambda document: document, busy=True)
    assert failed(results) == {name for name, result in results.items() if result.step.changes}
    assert results["load"].faults[0].fault == "not idle after 0 s"
