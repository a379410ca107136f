"""Code that the kit cannot use at run time is refused when it is registered, with a message that says what to write."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from signalbox import Function, add_resource, documents, objects
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from signalbox import DocumentEvent

REFUSED = "name 'date' is not defined at run time.* not under `if TYPE_CHECKING`"


def a_task(app: Function) -> None:
    @app.task
    def told(day: date) -> None: ...


def a_result(app: Function) -> None:
    @app.task
    def told() -> date:
        raise NotImplementedError


def a_flow(app: Function) -> None:
    @app.flow
    async def told(day: date) -> None: ...


def a_method(app: Function) -> None:
    @app.object
    class Told:
        def add(self, day: date) -> None: ...


def a_field(app: Function) -> None:
    @app.object
    class Told:
        day: date | None = None


def a_resource(app: Function) -> None:
    class Told:
        day: date

    add_resource(app, Told)


@pytest.mark.parametrize("register", [a_task, a_result, a_flow, a_method, a_field, a_resource])
def test_a_type_that_only_a_type_checker_knows_is_refused(register: Callable[[Function], None]) -> None:
    with pytest.raises(TypeError, match=REFUSED):
        register(Function("letters"))


def test_a_handler_of_documents_with_such_a_type_is_refused() -> None:
    app = Function("letters")
    with pytest.raises(TypeError, match=r"told: name 'DocumentEvent' is not defined at run time"):

        @app.on_document("letters/{id}")
        def told(event: DocumentEvent, id: str) -> None: ...  # noqa: A002  as the pattern names it


def add(to: str, text: str) -> None:
    documents.put(to, {"text": text})


def test_a_partial_has_no_name_for_a_task() -> None:
    with pytest.raises(TypeError, match=r"A task needs a name, and this partial has none. Write a `def`"):
        Function("letters").task(partial(add, to="ann"))


def test_an_argument_of_a_method_without_its_name_is_refused_with_the_call_to_write(harness: Harness) -> None:
    app = Function("counters")

    @app.object
    class Counter:
        count: int = 0

        def add(self, amount: int) -> int:
            self.count += amount
            return self.count

    harness.add(app)
    counter: Any = objects("Counter", "a")
    for call in (counter.add, counter.add.call, counter.with_(id="x").add):
        with pytest.raises(TypeError, match=r"The method 'add' of Counter: .* write `add\((amount|argument)=1\)`"):
            call(1)
    with pytest.raises(TypeError, match=r"write `more\(argument=1\)`"):
        counter.more(1)
