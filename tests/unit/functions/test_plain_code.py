"""Code that a call would not run is refused when it is registered, and is never acknowledged."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, Request, add_resource
from signalbox.catalogue.derived_keys import usage_of
from signalbox.testing import Harness
from signalbox.testing.deliveries import TaskFailed


async def wait() -> None:
    """Wait for nothing."""


async def wait_for_more() -> Any:
    yield 1


def produce() -> Iterator[int]:
    yield 1


@dataclass
class Item:
    text: str = ""


def app() -> Function:
    return Function("shop")


REGISTERED: dict[str, tuple[Callable[[Any], Any], tuple[Any, ...]]] = {
    "task": (lambda code: app().task(code), (wait_for_more, produce)),
    "handler": (app().http("GET"), (wait_for_more,)),
    "event handler": (app().document_written("documents/{key}"), (wait, wait_for_more, produce)),
    "rule": (app().access("Cart"), (wait, wait_for_more, produce)),
    "method": (lambda code: app().object(type("Cart", (), {"add": code})), (wait, wait_for_more, produce)),
    "hook": (lambda code: add_resource(app(), Item, authorise=code), (wait, wait_for_more, produce)),
}


@pytest.mark.parametrize("kind", REGISTERED)
def test_code_that_a_call_would_not_run_is_refused(kind: str) -> None:
    register, codes = REGISTERED[kind]
    for code in codes:
        with pytest.raises(
            TypeError, match=f"{code.__name__} (is `async def`( with `yield`)?|contains `yield`), so a call would not"
        ):
            register(code)


def hidden(code: Callable[..., Any]) -> Callable[..., Any]:
    """Return a plain function that calls another one, as a careless decorator does."""

    def wrapped() -> Any:
        return code()

    return wrapped


@pytest.mark.parametrize("code", [wait_for_more, produce])
def test_a_task_behind_a_decorator_that_has_not_run_is_retried_and_not_acknowledged(code: Any) -> None:
    shop = app()
    task = shop.task(hidden(code))
    with Harness() as harness:
        harness.add(shop)
        task.call().enqueue()
        with pytest.raises(TaskFailed) as failed:
            harness.run()
        assert "so its code has not run" in str(failed.value.__cause__)


def test_an_event_whose_handler_has_not_run_is_delivered_again() -> None:
    shop, seen = app(), []

    def handle(event: DocumentEvent, key: str) -> Any:
        seen.append(key)
        return wait()

    shop.document_written("documents/{key}")(handle)
    with Harness() as harness:
        harness.add(shop)
        harness.put("documents/a", json={})
        [delivery] = [each for each in harness.deliver_event(harness.events[0]) if each.status != 200]
        assert (delivery.status, seen) == (500, ["a"])


def test_a_handler_may_yield_what_it_streams() -> None:
    shop = app()

    @shop.http("GET")
    def stream(_: Request) -> Iterator[bytes]:
        yield b"a"
        yield b"b"

    with Harness() as harness:
        harness.add(shop)
        assert harness.get("shop").body == b"ab"


def test_packaging_names_the_tasks_that_never_run() -> None:
    source = b"""
from signalbox import Function
app = Function("shop")

@app.task
async def pay() -> None:
    pass

@app.task(attempts_max=2)
def count():
    for number in range(3):
        yield number

@app.task
def plain():
    def inner():
        yield 1
    return list(inner())
"""
    usage = usage_of({"main.py": source})
    assert [*usage.tasks] == ["pay", "count", "plain"]
    assert usage.refused == ["main.py:10: the task count contains `yield`: return a list"]


def test_packaging_names_the_arguments_that_a_decorator_does_not_have() -> None:
    source = b"""
from signalbox import Function
app = Function("shop")

@app.task(attempts=2)
def count(): ...

@app.flow(on_failed="tell", retention_days=40)
async def buy(): ...

@app.schedule("0 6 * * 1", time_zone="Europe/Berlin", overlap="skip")
@app.task(attempts_max=3, queue="tasks", **{})
def weekly(): ...

@app.http("GET", "/{id}", query=("a",))
def show(request, id): ...

@app.on_document("orders/{id}", on="created", in_order=True)
def packed(event, id): ...
"""
    assert usage_of({"main.py": source}).refused == [
        "main.py:5: task has no argument attempts; did you mean 'attempts_max'?",
        "main.py:8: flow has no argument on_failed",
    ]
