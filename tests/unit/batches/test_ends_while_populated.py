"""A batch that ends while it is populated: the call that makes it answers with its end."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from signalbox import Call, Function, Problem, batch
from signalbox.batches.limits import LIMITS
from signalbox.batches.problems import BatchSealed
from signalbox.batches.requests import PageRequest, SealRequest
from signalbox.batches.service import lifecycle, pages, population
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced


@pytest.fixture
def project() -> Iterator[Harness]:
    with Harness() as entered:
        app = Function("painter")

        @app.task
        def paint(n: int) -> int:
            raise Problem(f"no paint for {n}")

        entered.add(app)
        yield entered


def calls(count: int) -> list[Call[Any]]:
    return [Call("painter", "paint", {"n": n}) for n in range(count)]


def after_page(project: Harness, monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[], Any]) -> None:
    """Let `then` happen once, right after the page `number` was loaded."""
    load, happened = pages.load_page, list[int]()

    def load_page(ports: Any, run: Any, header: Any, page: int, *what: Any) -> bool:
        created = load(ports, run, header, page, *what)
        if page == number and not happened:
            happened.append(page)
            then()
        return created

    monkeypatch.setattr(pages, "load_page", load_page)
    monkeypatch.setattr(population, "load_page", load_page)


def body(count: int, **more: Any) -> dict[str, Any]:
    task = {"function": "painter", "task": "paint"}
    return {"id": "b", "task": task, "units": [{"n": n} for n in range(count)], "sealed": True, **more}


def test_a_request_whose_batch_fails_meanwhile_answers_with_its_end(
    project: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_page(project, monkeypatch, 1, lambda: project.run(raise_errors=False))
    first = project.post("batches", json=body(300, failures_max=2))
    again = project.post("batches", json=body(300, failures_max=2))
    assert (first.status, first.json["state"], first.json["reason"]) == (201, "cancelled", "failures")
    assert (again.status, again.json["state"]) == (200, "cancelled")


@pytest.mark.parametrize("units", [300, LIMITS.call_units_max + 1])
def test_populate_returns_the_end_of_a_batch_that_is_cancelled_meanwhile(
    project: Harness, monkeypatch: pytest.MonkeyPatch, units: int
) -> None:
    with replaced(call_units_max=400):
        after_page(project, monkeypatch, 1, lambda: batch("b").cancel())
        count = min(units, 900)
        assert batch("b").populate(calls(count))["state"] == "cancelled"
        assert batch("b").populate(calls(count))["state"] == "cancelled"


def test_the_load_of_a_large_batch_ends_soon_after_its_cancel(
    project: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Call[Any]] = []

    def arriving() -> Iterator[Call[Any]]:
        for call in calls(100):
            taken.append(call)
            yield call

    monkeypatch.setattr(pages, "PAGES_A_LOOK", 3)
    with replaced(call_units_max=10, page_units_max=5):
        after_page(project, monkeypatch, 1, lambda: batch("b").cancel())
        assert batch("b").populate(arriving())["state"] == "cancelled"
    assert len(taken) <= 5 * 5


def test_other_units_for_an_ended_batch_are_refused(project: Harness) -> None:
    with replaced(call_units_max=100):
        batch("b").populate(calls(200))
        batch("b").cancel()
        with pytest.raises(BatchSealed):
            batch("b").populate(calls(300))


def test_a_caller_who_loads_page_by_page_is_told_the_end(project: Harness) -> None:
    project.post("batches", json={"id": "b"})
    lines = project.post("batches/b/units", json={"page": 0, "units": [1, 2]})
    batch("b").cancel()
    assert (lines.status, project.post("batches/b/units", json={"page": 0, "units": [1, 2]}).status) == (201, 200)
    page = project.post("batches/b/units", json={"page": 1, "units": [3]})
    seal = project.post("batches/b/seal", json={"pages": 1})
    assert [(one.status, one.json["type"].rpartition(":")[2]) for one in (page, seal)] == [(409, "batch-sealed")] * 2
    assert page.json["detail"] == "The batch has ended: it is cancelled and takes no more units."
    assert seal.json["detail"] == "The batch has ended before it was sealed: it is cancelled."
    shown = project.get("batches/b").json
    assert (shown["state"], shown["size"], shown["remaining"]) == ("cancelled", 2, 2)


def test_a_request_whose_deadline_passes_meanwhile_answers_with_its_end(
    project: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late() -> None:
        project.travel(10)
        project.run(raise_errors=False)

    after_page(project, monkeypatch, 1, late)
    first = project.post("batches", json={**body(300), "task": None, "deadline_seconds": 5})
    assert (first.status, first.json["state"], first.json["reason"]) == (201, "cancelled", "deadline")
    assert (first.json["size"], first.json["missing"]) == (200, list(range(100)))


def test_another_seal_of_a_batch_that_ends_is_refused(project: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def sealed_by_another() -> None:
        pages.add_page(project.ports, "b", PageRequest(1, [{"n": 7}]))
        lifecycle.seal(project.ports, "b", SealRequest(2))
        batch("b").cancel()

    after_page(project, monkeypatch, 0, sealed_by_another)
    answer = project.post("batches", json=body(1))
    assert (answer.status, answer.json["type"].rpartition(":")[2]) == (409, "batch-sealed")
