"""What a flow's code should not do is warned about when it is registered, with the place in the code."""

import datetime as dt
import functools
import inspect
import random
import time
import urllib.parse
import uuid
import warnings
from collections.abc import Callable
from datetime import datetime as moment
from typing import Any

import pytest

from signalbox import documents, flow, semaphore
from signalbox.flows.api.warnings import FlowWarning, check, findings


class Tasks:
    """Stands for a task, whose call is awaited and which must not be called."""

    def __call__(self) -> None: ...

    def call(self) -> Any:
        return 1


charge = Tasks()


def helper() -> float:
    return time.time()


async def takes_the_time() -> Any:
    moment.now()  # noqa: DTZ005  what a flow must not call
    dt.datetime.now(dt.UTC)
    dt.date.today()  # noqa: DTZ011  what a flow must not call
    time.sleep(1)
    helper()


async def draws() -> Any:
    random.choice([1, 2])
    uuid.uuid4()
    random.Random()


async def reads() -> Any:
    with open("a.txt") as file:  # noqa: PTH123  what a flow must not call
        file.read()
    documents.get("d")
    semaphore("s").wait(charge.call())  # what a flow must not call


async def imports() -> Any:
    import os.path
    import time as clock
    from random import choice
    from urllib.parse import quote

    clock.sleep(1)
    choice([1, 2])
    os.urandom(2)
    quote(os.path.join("a", "b"))  # noqa: PTH118  what a flow may call


async def runs_a_task() -> Any:
    charge()  # what a flow must not call


async def behaves(order: int) -> list[Any]:
    name = urllib.parse.quote("a b")
    number = random.Random(order).random()
    later = moment.fromisoformat("2026-01-01") + dt.timedelta(days=1)
    await charge.call()
    return [name, number, later]


def is_task(value: Any) -> bool:
    return isinstance(value, Tasks)


@pytest.mark.parametrize(
    ("code", "reasons"),
    [
        (
            takes_the_time,
            ["time.time() differs in every replay", "moment.now()", "dt.datetime.now()", "dt.date.today()"],
        ),
        (draws, ["random.choice() differs", "uuid.uuid4()", "random.Random()"]),
        (reads, ["open() is repeated by every replay", "documents.get()", "semaphore()"]),
        (imports, ["clock.sleep() differs in every replay", "choice() differs", "os.urandom() differs"]),
        (runs_a_task, ["charge() runs the task's code inside the flow: await charge.call(…)"]),
        (behaves, []),
    ],
)
def test_a_call_that_a_replay_breaks_is_found(code: Callable[..., Any], reasons: list[str]) -> None:
    found = findings(code, is_task)
    assert len(found) >= len(reasons)
    for reason in reasons:
        assert any(reason in each.reason for each in found), reason
    assert bool(found) == bool(reasons)


def test_the_check_finds_only_what_a_flow_itself_imports() -> None:
    assert [finding.reason.partition("(")[0] for finding in findings(imports, is_task)] == [
        "clock.sleep",
        "choice",
        "os.urandom",
    ]


def test_a_warning_names_the_file_and_the_line() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check(runs_a_task, is_task)
    [warning] = caught
    line = runs_a_task.__code__.co_firstlineno + 1
    assert (warning.filename, warning.lineno, warning.category) == (__file__, line, FlowWarning)


def test_code_without_a_source_is_not_looked_at() -> None:
    namespace: dict[str, Any] = {}
    exec("async def flow():\n    open('a')", namespace)  # noqa: S102  code without a source
    assert findings(namespace["flow"], is_task) == []


async def takes_the_order_of_sets(names: list[str]) -> None:
    chosen = set(names)
    for name in chosen:
        await flow.event(name)
    await flow.all(*[flow.event(name) for name in chosen | {"c"}])
    await flow.all(*{flow.event(name) for name in names})
    await flow.map(flow.event, {"a", "b"})


async def ignores_the_order_of_sets(names: list[str]) -> None:
    chosen = set(names)
    for name in sorted(chosen):
        await flow.event(name)
    await flow.all(*[flow.event(name) for name in sorted(name for name in chosen)])
    await flow.event(max(len(name) for name in {"a", *names}) * "x")
    await flow.all(*{name: flow.event(name) for name in sorted(chosen)}.values())


def test_a_set_whose_order_a_flow_takes_is_found() -> None:
    first = takes_the_order_of_sets.__code__.co_firstlineno
    found = findings(takes_the_order_of_sets, lambda _: False)
    assert [each.line - first for each in found] == [2, 4, 5, 6]
    assert found[0].reason.startswith("the set chosen has another order in every process")
    assert findings(ignores_the_order_of_sets, lambda _: False) == []


def wrapped_elsewhere(code: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(code)
    async def wrapper(*args: Any) -> Any:
        return await code(*args)

    return wrapper


@wrapped_elsewhere
async def decorated() -> None:
    await flow.sleep(random.random())


def test_a_decorated_flow_is_found_at_its_own_lines() -> None:
    [finding] = findings(decorated, lambda _: False)
    wrapped = inspect.unwrap(decorated)
    assert finding.line == wrapped.__code__.co_firstlineno + 2
