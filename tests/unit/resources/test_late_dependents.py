"""Dependents that are created while the item on which they depend is deleted: none of them is left."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Annotated, Any

import pytest

from signalbox import Function, RefersTo, add_resource, documents
from signalbox.core.kit_names import ANYONE, KIT
from signalbox.core.ports import Put
from signalbox.documents.machine.reactions import WRITERS
from signalbox.documents.model.stamped_contents import path_of
from signalbox.links.service import refreshes
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced


class Shelf:
    name: str = ""


class Book:
    shelf: Annotated[str, RefersTo("shelves", on_delete="cascade")]


class Page:
    book: Annotated[str, RefersTo("books", on_delete="cascade")]


@pytest.fixture(autouse=True, params=[ANYONE, KIT])
def library(request: pytest.FixtureRequest, harness: Harness) -> Iterator[None]:
    app = Function("library")
    add_resource(app, Shelf, "/shelves", ids_from_clients=True)
    add_resource(app, Book, "/books", ids_from_clients=True)
    add_resource(app, Page, "/pages", ids_from_clients=True)
    harness.add(app)
    with WRITERS.replaced(request.param):
        yield


class Before:
    """A store that does something before a certain call of a method, once."""

    def __init__(self, store: Any, name: str, calls: int, act: Callable[[], None]) -> None:
        self._store, self._name, self._left, self._act = store, name, calls, act

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        return self._watched(method) if name == self._name else method

    def _watched(self, method: Any) -> Any:
        def call(*arguments: Any, **named: Any) -> Any:
            self._left -= 1
            if self._left == -1:
                self._act()
            return method(*arguments, **named)

        return call


def put(harness: Harness, path: str, **fields: Any) -> None:
    assert harness.put(f"library/{path}", json=fields).status in (200, 201)


def during(harness: Harness, name: str, calls: int, act: Callable[[], None], work: Callable[[], object]) -> None:
    """Do some work, and `act` before its call of a store's method. `calls` others of that method come before it."""
    whole = harness.ports

    def act_on_the_whole_store() -> None:
        before, harness.ports = harness.ports, whole
        act()
        harness.ports = before

    harness.ports = replace(whole, store=Before(whole.store, name, calls, act_on_the_whole_store))
    work()
    harness.ports = whole
    harness.run()


def delete(harness: Harness, path: str) -> None:
    assert harness.delete(f"library/{path}").status == 204


@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("compared", [False, True])
def test_a_dependent_created_between_the_search_and_the_deletion_is_deleted(
    harness: Harness, linked: bool, compared: bool
) -> None:
    put(harness, "shelves/s")
    if linked:
        documents.put("catalogue", {"shelf": {"key": "shelves~s"}})
    harness.run()

    def create() -> None:
        put(harness, "books/b", shelf="s")
        if compared:
            harness.run()

    during(harness, "commit", 0, create, lambda: delete(harness, "shelves/s"))
    assert harness.get("library/books").json == []


@pytest.mark.parametrize("compared", [False, True])
def test_a_dependent_created_during_a_cascade_is_deleted(harness: Harness, compared: bool) -> None:
    put(harness, "shelves/s")
    for book in ("a", "b"):
        put(harness, f"books/{book}", shelf="s")
    harness.run()

    def create() -> None:
        put(harness, "pages/p", book="b")
        if compared:
            for event in list(harness.events):
                harness.deliver_event(event)
            for task in [task for task in harness.tasks if task.task != "dependents"]:
                harness.deliver_task(task)

    with replaced(cascade_page_documents_max=1):
        during(harness, "write_each", 1, create, lambda: delete(harness, "shelves/s"))
    assert harness.get("library/pages").json == harness.get("library/books").json == []


def test_what_was_read_before_the_deletion_and_is_committed_after_it_goes(harness: Harness) -> None:
    put(harness, "shelves/s")
    harness.run()

    def delete_now() -> None:
        delete(harness, "shelves/s")
        harness.run()

    during(harness, "commit", 0, delete_now, lambda: put(harness, "books/b", shelf="s"))
    assert harness.get("library/books").json == []


def test_a_dependent_whose_item_is_put_again_stays(harness: Harness) -> None:
    put(harness, "shelves/s")
    harness.run()

    def replace_it() -> None:
        delete(harness, "shelves/s")
        put(harness, "shelves/s", name="new")

    during(harness, "commit", 0, replace_it, lambda: put(harness, "books/b", shelf="s"))
    assert harness.get("library/books").json == [{"id": "b", "shelf": {"id": "s", "name": "new"}}]


def test_a_record_that_is_imported_before_its_item_stays(harness: Harness) -> None:
    put(harness, "shelves/s")
    put(harness, "books/b", shelf="s")
    harness.run()
    shelf, book = (harness.record(path_of(key)) for key in ("shelves~s", "books~b"))
    delete(harness, "shelves/s")
    harness.run()
    harness.travel(3_600)
    harness.ports.store.commit([Put(path_of("books~b"), book)])
    harness.run()
    harness.ports.store.commit([Put(path_of("shelves~s"), shelf)])
    harness.run()
    assert [each["id"] for each in harness.get("library/books").json] == ["b"]


def test_an_older_dependent_stays_when_the_document_of_its_item_is_deleted(harness: Harness) -> None:
    put(harness, "shelves/s")
    put(harness, "books/b", shelf="s")
    harness.run()
    put(harness, "shelves/s", name="new")
    harness.run()
    documents.delete("shelves~s")
    refreshes.refresh_copy(harness.ports, "shelves~s", "books~b")
    harness.run()
    assert harness.get("library/books").json == [{"id": "b", "shelf": {"id": "s", "link_missing": True}}]
