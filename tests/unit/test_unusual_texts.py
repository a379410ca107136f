"""Any text may reach the kit: halves of surrogate pairs, control characters, marks of direction, 100,000 characters.

Each call accepts a text or refuses it with a `Problem`. No process fails, and no run is stuck because of a text that
its code has received.
"""

import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from _pytest.logging import LogCaptureHandler

from signalbox import Function, Problem, Unit, batch, critical_section, documents, flow, flows, objects, rate, semaphore
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

TEXTS = {
    "half of a pair": "a\ud800b",
    "the other half": "\udfff",
    "two halves in the wrong order": "\udc00\ud83d",
    "nul": "a\0b",
    "lines": "a\r\nb\u2028c",
    "four bytes": "😀",
    "direction": "a\u202eb\u2066",
    "no character": "\uffff",
    "markup": "</script><b>",
    "path": "../a",
    "long": "x" * 100_000,
    "empty": "",
}

app = Function("shop")
approvals = Function("approvals")
approvals.callbacks()

Code = Callable[[str], Awaitable[Any]]
CODES: dict[str, Code] = {}
"""What the code of a run does with a text that it has received."""


def code(function: Code) -> Code:
    CODES[function.__name__] = function
    return function


@app.task
def echo(text: str) -> str:
    return text


@app.task
def measured(unit: Unit, text: str) -> str:
    return text + unit.batch


@app.task
def fails(text: str) -> str:
    raise Problem(text, field=text)


@app.object
class Shelf:
    text: str = ""

    def put(self, text: str) -> str:
        self.text = text
        return text

    def fail(self, text: str) -> str:
        raise Problem(text)


@app.flow
async def work(what: str = "", text: str = "") -> Any:
    return await CODES[what](text) if what else await flow.event("never")


def has_half_a_pair(text: str) -> bool:
    return any("\ud800" <= letter <= "\udfff" for letter in text)


def callback(text: str = "q", **options: Any) -> Any:
    return flow.callback("e", through="approvals", expires_seconds=60, question=text, **options)


@code
async def question(text: str) -> Any:
    return await callback(text)


@code
async def choice(text: str) -> Any:
    return await callback(choices=[text or "-", "no"])


@code
async def event_of_a_callback(text: str) -> Any:
    return await flow.callback(text or "-", through="approvals", expires_seconds=60)


@code
async def event_name(text: str) -> Any:
    await flow.first(flow.event(text or "-"), flow.sleep(1))


@code
async def update_name(text: str) -> Any:
    await flow.first(flow.update(text or "-"), flow.sleep(1))


@code
async def label(text: str) -> None:
    flow.label("a", text or "-")


@code
async def label_name(text: str) -> None:
    flow.label(text if has_half_a_pair(text) else "a", "a")  # any other wrong name is the code's mistake


@code
async def progress(text: str) -> None:
    flow.progress({text[:9]: text})


@code
async def log_line(text: str) -> None:
    flow.log.warning(text)
    flow.log.info("got %s", text, extra={"text": text})


@code
async def patch(text: str) -> None:
    flow.patched(text)


@code
async def step(text: str) -> Any:
    return await echo.call(text)


@code
async def failing_step(text: str) -> Any:
    return await flow.step(fails.call(text), attempts_max=2)


@code
async def inline_step(text: str) -> Any:
    return await flow.run(lambda: {text[:9]: text})


@code
async def failing_inline_step(text: str) -> Any:
    return await flow.run(_fail, text)


def _fail(text: str) -> None:
    raise Problem(text)


@code
async def sent_task(text: str) -> None:
    flow.send(echo.call(text))


@code
async def units(text: str) -> Any:
    return await flow.all(flow.batch([echo.call(text)]), flow.batch([fails.call(text)]))


@code
async def method(text: str) -> Any:
    return await objects("Shelf", "k").put(text=text)


@code
async def failing_method(text: str) -> Any:
    return await objects("Shelf", "k").fail(text=text)


@code
async def key_of_a_lock(text: str) -> None:
    try:
        async with flow.lock("till", key=text):
            pass
    except Problem as problem:
        raise Problem(problem.detail) from problem


@code
async def raised(text: str) -> None:
    raise Problem(text, field=text)


@code
async def answer(text: str) -> None:
    (await flow.update("ask")).answer({text[:9]: text})


@code
async def refusal(text: str) -> None:
    (await flow.update("ask")).refuse(Problem(text, field=text))


@code
async def result(text: str) -> Any:
    return {text[:9]: text}


@pytest.fixture
def shop(harness: Harness) -> Harness:
    harness.add(app)
    harness.add(approvals, public=True)
    semaphore("till").ensure(permits=5, lease_seconds=60)
    rate("calls").ensure(600, burst=50)
    return harness


def forget_lines() -> None:
    """Leave out of the report of a test what it has logged: a report to another process is UTF-8."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LogCaptureHandler):
            handler.reset()


@pytest.mark.parametrize("what", CODES)
def test_no_run_is_stuck_because_of_a_text_that_its_code_has_received(shop: Harness, what: str) -> None:
    runs = {
        name: work.start(f"{what}-{number}", what=what, text=text) for number, (name, text) in enumerate(TEXTS.items())
    }
    for run in runs.values() if what in ("answer", "refusal") else ():
        run.update("ask", id="u")
    shop.run()
    assert [name for name, run in runs.items() if run.status().state not in ("completed", "failed")] == []
    assert {shop.get(f"shop/flows/work/{run.id}/log?spans=true").status for run in runs.values()} == {200}
    assert shop.get("shop/flows/work").status == 200
    forget_lines()


def started(number: int) -> Any:
    return work.start(f"waits-{number}")


OF_PROBLEMS = ("task abandoned", "unit failed")
"""The lines about tasks and units that have raised a `Problem`."""

CALLS: dict[str, Callable[[str, int], Any]] = {
    "the id of a run": lambda text, _: work.start(text),
    "an argument": lambda text, number: work.start(f"argument-{number}", text=text),
    "a label": lambda text, number: work.with_(labels={"a": text}).start(f"label-{number}"),
    "the name of a label": lambda text, number: work.with_(labels={text: "a"}).start(f"named-{number}"),
    "the name of an event": lambda text, number: started(number).event(text),
    "the id of an event": lambda text, number: started(number).event("e", id=text),
    "an event": lambda text, number: started(number).event("e", {text: text}),
    "the name of an update": lambda text, number: started(number).update(text),
    "the id of an update": lambda text, number: started(number).update("u", id=text),
    "an update": lambda text, number: started(number).update("u", {text: text}),
    "the id of an answer": lambda text, number: started(number).sent_update(text).ready(),
    "a message that starts a run": lambda text, _: flows("work", text).event("e", text, start=work.starting()),
    "a reason of a cancel": lambda text, number: started(number).cancel(text),
    "a reason of a suspension": lambda text, number: started(number).suspend(text),
    "a reason of an end": lambda text, number: started(number).terminate(text),
    "the key of a retry": lambda text, number: started(number).retry(0, key=text, reason=text),
    "a query": lambda text, number: started(number).query(text, text=text),
    "the id of a fork": lambda text, number: work.fork(started(number).id, text, 0),
    "the name of a flow": lambda text, _: flows(text, "a").status(),
    "a payload": lambda text, _: echo.call(text).enqueue(),
    "a payload of a task that fails": lambda text, _: fails.call(text).enqueue(),
    "the id of a task": lambda text, _: echo.call("a").enqueue(id=text),
    "a unit": lambda text, number: batch(f"b{number}").populate([measured.call(text)]),
    "a unit that fails": lambda text, number: batch(f"f{number}").populate([fails.call(text)]),
    "the name of a batch": lambda text, _: batch(text).populate([measured.call("a")]),
    "the rate of a batch": lambda text, number: batch(f"r{number}").populate([measured.call("a")], rate=text),
    "the end of a batch": lambda text, number: batch(f"e{number}").populate(
        [measured.call("a")], on_complete=echo.call(text)
    ),
    "the name of a semaphore": lambda text, _: semaphore(text).ensure(permits=1, lease_seconds=60),
    "the description of a semaphore": lambda text, _: semaphore("d").ensure(
        permits=1, lease_seconds=60, description=text
    ),
    "the id of a permit": lambda text, _: semaphore("till").acquire(id=text),
    "the id of a wait": lambda text, _: semaphore("till").wait(echo.call(text), id=text),
    "the key of a lane": lambda text, number: semaphore("till").wait(echo.call("a"), id=f"w{number}", key=text),
    "the name of a rate": lambda text, _: rate(text).ensure(60),
    "the description of a rate": lambda text, _: rate("calls").ensure(600, burst=50, description=text),
    "the id of a grant": lambda text, _: rate("calls").acquire(id=text),
    "the id of a wait of a rate": lambda text, _: rate("calls").wait(echo.call(text), id=text),
    "the key of a section": lambda text, _: critical_section(text).run(echo.call(text)),
    "the key of an object": lambda text, _: objects("Shelf", text).put(text=text),
    "the class of an object": lambda text, _: objects(text, "k").put(text=text),
    "the method of an object": lambda text, _: getattr(objects("Shelf", "k"), text or "put")(text=text),
    "the key of a document": lambda text, _: documents.put(text, {"a": 1}),
    "a field": lambda text, _: documents.put("d", {text: text}),
    "a text": lambda text, _: documents.put("d", {"a": [text, {"b": text}]}),
    "a link": lambda text, _: documents.put("d", {"to": {"key": text}}),
    "the id of a document": lambda text, _: documents.get(text),
}


@pytest.mark.parametrize("what", CALLS)
def test_each_call_accepts_a_text_or_refuses_it(shop: Harness, what: str) -> None:
    for number, text in enumerate(TEXTS.values()):
        with suppress(Problem):
            CALLS[what](text, number)
    shop.run()
    assert [message for message, _ in shop.log.errors if message not in OF_PROBLEMS] == []
    forget_lines()
