"""The content of a call that a task makes: the parts that two deliveries share, and those that distinguish two
calls.
"""

import logging
import math
import re
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from math import sqrt
from threading import Lock
from typing import Any

import pytest

from signalbox.core.calls import Call
from signalbox.core.code_contents import CodeContent, UnknownContentError, content_of_code
from signalbox.core.idempotency_keys import idempotency_key, idempotent_calls


def content(code: Callable[..., Any]) -> CodeContent:
    return content_of_code(code, sys._getframe(1).f_code)


def made_elsewhere(kind: str) -> Callable[..., Any]:
    if kind == "pay":

        def code(t: str) -> str:
            return t + "paid"

        return code

    def code(t: str) -> str:  # type: ignore[no-redef]  # another code for the other test case
        return t + "shipped"

    return code


def keyed(t: object, key: object = None) -> None: ...


def test_inner_functions_of_one_name_and_one_text_are_two() -> None:
    first, second = content(lambda t: t), content(lambda t: t)
    assert first.name != second.name
    assert content(made_elsewhere("pay")).name != content(made_elsewhere("ship")).name
    assert content(made_elsewhere("pay")) == content(made_elsewhere("pay"))


def test_texts_and_numbers_are_part_of_the_key() -> None:
    values = ["a", "b", 1, True, None, b"a", ("a", 1)]
    assert len({content(partial(keyed, key=value)).name for value in values}) == len(values)
    assert len({content(lambda value=value: value).name for value in values}) == len(values)
    assert len({content(partial(keyed, key=partial(keyed, key=value))).name for value in values}) == len(values)


def test_values_that_may_be_read_again_are_in_the_digest_only() -> None:
    values = [{"n": 1}, {"n": 2}, [1], 0.5, {"a", "b"}, datetime(2026, 1, 1, tzinfo=UTC), Call("f", "t", {})]
    contents = [content(partial(keyed, key=value)) for value in values]
    assert len({each.name for each in contents}) == 1
    assert len({each.digest for each in contents}) == len(values)
    assert content(partial(keyed, key={"a": 1, "b": 2})) == content(partial(keyed, key={"b": 2, "a": 1}))


current: Any = "a"
constant: Any = "a"
cache: Any = {}
client: Any = None
count: Any = 0
pattern = re.compile("a")
lock = Lock()
log = logging.getLogger(__name__)


class State:
    current: Any = "a"
    constant: Any = "a"
    count: Any = 0


def assigns(value: object) -> None:
    """Assign variables as a task does: their code is in the module, and is found although no test calls it."""
    global current, client  # noqa: PLW0603  what the test is about
    current = client = value
    State.current = value


def reads_a_variable(t: object) -> object:
    log.info("reading")
    return current


def reads_an_attribute(t: object) -> object:
    return [State.current for _ in "a"]


def calls_a_function(t: object) -> object:
    return reads_a_variable(t)


@pytest.mark.parametrize(
    "code",
    [reads_a_variable, calls_a_function, reads_an_attribute, lambda _: current, partial(calls_a_function, 1)],
)
def test_variables_of_the_module_that_are_assigned_and_that_the_code_reads_are_in_the_digest_only(
    code: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for value in ("a", "b", {"n": 1}):
        monkeypatch.setitem(globals(), "current", value)
        monkeypatch.setattr(State, "current", value)
        contents.append(content(code))
    assert len({each.name for each in contents}) == 1
    assert len({each.digest for each in contents}) == 3


def counts(t: object) -> object:
    global count  # noqa: PLW0603  what the test is about
    count += 1
    State.count += 1
    return count, State.count


@pytest.mark.parametrize(
    ("code", "name", "values"),
    [
        (lambda _: (constant, State.constant), "constant", ["process 1", "process 2"]),
        (lambda _: cache.setdefault("ann", 1), "cache", [{}, {"ann": 1}]),
        (lambda _: client.read(), "client", [None, object()]),
        (counts, "count", [1, 2]),
        (lambda _: (pattern.match("a"), lock.locked(), sqrt(4), math.pi, log.name), "current", [1, 2]),
    ],
    ids=["constant", "cache", "client", "counter", "instances"],
)
def test_constants_caches_clients_and_counters_are_not_in_the_digest(
    code: Callable[..., Any], name: str, values: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = []
    for value in values:
        monkeypatch.setitem(globals(), name, value)
        monkeypatch.setattr(State, name, value, raising=False)
        contents.append(content(code))
    assert contents[0] == contents[1]


def test_values_of_unknown_content_are_refused_and_code_may_call_itself() -> None:
    with pytest.raises(UnknownContentError, match=r"key \(object\)"):
        content(partial(keyed, key=object()))

    def again(n: int) -> int:
        return n and again(n - 1)

    assert content(again) == content(again)


def test_equal_members_in_another_order_are_the_same_call_and_a_text_is_not_a_number() -> None:
    def keys(*values: object) -> list[str | None]:
        with idempotent_calls("op"):
            return [idempotency_key("event", value) for value in values]

    assert keys({"a": 1, "b": 2}) == keys({"b": 2, "a": 1})
    assert keys(1) != keys("1")
    assert len(set(keys(1, 1, "1"))) == 3


def keys() -> list[str | None]:
    return [idempotency_key("wait", "s"), idempotency_key("wait", "s"), idempotency_key("wait", "t")]


def test_a_tasks_calls_have_the_same_keys_in_every_delivery_and_different_ones_each() -> None:
    with idempotent_calls("operation"):
        first = keys()
    with idempotent_calls("operation"):
        assert keys() == first
    with idempotent_calls("another"):
        other = keys()
    assert len({*first, *other}) == 6


def test_a_call_outside_of_a_task_has_no_key() -> None:
    assert keys() == [None, None, None]


def test_equal_calls_of_several_threads_of_a_task_have_different_keys() -> None:
    def keys(_: int) -> list[str | None]:
        return [idempotency_key("enqueue", "same") for _ in range(200)]

    with idempotent_calls("operation"), ThreadPoolExecutor(8) as pool:
        made = [pool.submit(copy_context().run, keys, number) for number in range(8)]
        found = [key for each in made for key in each.result()]
    with idempotent_calls("operation"):
        assert set(found) == {idempotency_key("enqueue", "same") for _ in range(1_600)}
