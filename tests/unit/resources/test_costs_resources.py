"""Costs of resources: what each request reads and writes, as its log line says.

A figure that falls is good news and is to be written here; one that grows is a defect.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import pytest

from signalbox import Function, RefersTo, add_resource, documents
from signalbox.adapters.cost_meter import Cost
from signalbox.history.model import HISTORY
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import row_cost

Logged = Callable[..., Cost]


class Country:
    name: str


class City:
    name: str
    population: int = 0
    country: Annotated[str, RefersTo("countries", on_delete="cascade")] | None = None


@pytest.fixture
def cost(harness: Harness) -> Iterator[Logged]:
    """Return a function that sends a request and returns what it cost, without versions: the atlas example has them."""
    app = Function("atlas")
    add_resource(app, Country, "/countries", ids_from_clients=True)
    add_resource(app, City, "/cities", ids_from_clients=True)
    harness.add(app)

    def cost_of(method: str, path: str, **request: Any) -> Cost:
        lines = len(harness.log.infos)
        assert harness.request(method, f"atlas/{path}", **request).status < 400
        return harness._cost(lines)

    with HISTORY.replaced([]):
        for code in ("FR", "IT"):
            harness.put(f"atlas/countries/{code}", json={"name": code})
            harness.put(f"atlas/cities/{code}-1", json={"name": code, "country": code})
        harness.run()
        yield cost_of


def test_an_item_without_references_is_created_and_changed_by_one_read_and_one_write(cost: Logged) -> None:
    assert cost("POST", "countries", json={"name": "DE"}) == row_cost("resources", "write", r=0)
    assert cost("PUT", "countries/DE", json={"name": "DE"}) == row_cost("resources", "write", r=0)
    assert cost("PUT", "countries/DE", json={"name": "Germany"}) == row_cost("resources", "write", r=0)


def test_an_item_with_a_reference_reads_its_target_and_the_fields_transform_too(cost: Logged) -> None:
    new = {"name": "Rome", "country": "IT"}
    assert cost("POST", "cities", json=new) == row_cost("resources", "write", r=1)


def test_a_change_that_names_no_reference_reads_the_item_again_with_what_it_refers_to(cost: Logged) -> None:
    assert cost("PUT", "cities/IT-1", json={"population": 1}) == row_cost("resources", "write_unnamed")
    whole = {"population": 2, "country": "IT"}
    assert cost("PUT", "cities/IT-1", json=whole) == row_cost("resources", "write", r=1)


def test_an_item_is_read_once(cost: Logged) -> None:
    assert cost("GET", "cities/IT-1") == row_cost("resources", "read")


def test_a_list_reads_what_it_shows_and_a_total_is_counted_not_read(cost: Logged) -> None:
    assert cost("GET", "cities") == row_cost("resources", "list", n=2)
    assert cost("GET", "cities?country=IT") == row_cost("resources", "list", n=1)
    assert cost("GET", "cities?_start=0&_end=1") == row_cost("resources", "list", "total", n=1)


def test_what_a_list_skips_is_read(cost: Logged) -> None:
    assert cost("GET", "cities?_start=1&_end=2") == row_cost("resources", "list", "skipped", "total", n=1, m=1)


def test_a_delete_asks_once_what_goes_along(cost: Logged) -> None:
    assert cost("DELETE", "cities/IT-1") == row_cost("resources", "delete")


def test_the_delete_of_an_embedded_item_has_a_task_that_looks_for_dependents(cost: Logged, harness: Harness) -> None:
    documents.put("guide", {"city": {"key": "cities~IT-1"}})
    harness.run()
    assert cost("DELETE", "cities/IT-1") == row_cost("resources", "delete_embedded")


def test_dependents_are_read_in_pages_and_each_kind_is_asked_once_for_more(cost: Logged) -> None:
    for number in range(2, 11):
        cost("PUT", f"cities/IT-{number}", json={"name": "x", "country": "IT"})
    assert cost("DELETE", "countries/IT") == row_cost("resources", "delete_dependents", n=10)
