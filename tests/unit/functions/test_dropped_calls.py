"""A call that only returns an object, and whose result the code drops, is a warning that says what to write."""

import inspect
import json
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from signalbox import Function, batch, flow, objects, semaphore, sub_batch
from signalbox.adapters.logs import JsonLog, log_forgotten_awaits
from signalbox.core.dropped_calls import NO_EFFECT
from signalbox.testing import Harness

app = Function("shop")


@app.task
def mail(to: str) -> None: ...


@app.object
class Till:
    total: int = 0

    def add(self, amount: int) -> None:
        self.total += amount


@app.flow
async def close() -> None: ...


def calls() -> None:
    mail.call(to="ann")


def delays() -> None:
    mail.call(to="ann").after(60)


def sleeps() -> None:
    flow.sleep(60)


def populates() -> None:
    sub_batch([mail.call(to="ann")])


def calls_over_lines() -> None:
    mail.call(
        to="ann",
    )


def calls_an_object() -> None:
    objects("Till", "1").add.call(amount=1)


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        harness.add(app)
        yield harness


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (calls, r"mail.call\(\) has no effect: write `.enqueue\(\)` behind it, or pass it to a wait or a batch"),
        (calls_over_lines, r"mail.call\(\) has no effect"),
        (delays, r"mail.call\(\).after\(\) has no effect: write `.enqueue\(\)`"),
        (sleeps, r"flow.sleep\(\) has no effect: only the code of a flow awaits it"),
        (populates, r"sub_batch\(\) has no effect: return it from the code of a unit"),
        (calls_an_object, r"add.call\(\) has no effect: call the method itself"),
    ],
)
def test_a_dropped_call_is_a_warning_at_its_line(harness: Harness, code: Callable[[], None], text: str) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        code()
    [warning] = [each for each in shown if NO_EFFECT in str(each.message)]  # others are of what is collected meanwhile
    assert re.match(text, str(warning.message))
    assert (warning.category, warning.filename) == (RuntimeWarning, __file__)
    assert warning.lineno == inspect.getsourcelines(code)[1] + 1


def test_a_call_that_is_used_is_no_warning(harness: Harness) -> None:
    semaphore("s").ensure(permits=1)
    kept: list[Any] = []
    mail.call(to="ann").enqueue()
    semaphore("s").wait(mail.call(to="ann"))
    batch("b").populate(mail.call(to=name) for name in ("ann", "bob"))
    kept.append(mail.call(to="ann"))
    kept.extend(map(mail.call, ("ann", "bob")))
    kept += [mail.call(to=name) for name in ("ann", "bob")]
    last = mail.call(to="ann").after(5)
    assert (len(kept), last.delay_seconds) == (5, 5)
    harness.run()


def test_a_task_of_a_deployed_function_writes_a_line(harness: Harness, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *_: None
        log_forgotten_awaits(JsonLog("p"))
        calls()
    line = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (line["severity"], line["message"]) == ("WARNING", "call without effect")
    assert line["place"] == f"test_dropped_calls.py:{inspect.getsourcelines(calls)[1] + 1}"
