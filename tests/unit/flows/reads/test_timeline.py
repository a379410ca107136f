"""The timeline of a run: the log's spans, which a replay of the code finds out."""

from datetime import datetime
from typing import Any

import pytest

from signalbox import Function, Problem, Request, flow, flows
from signalbox.testing import Harness
from signalbox.testing.replaced_limits import replaced

app = Function("mill")


class Jammed(Problem):
    status = 422
    title = "The mill is jammed"


@app.task
def grind(grain: str) -> str:
    if grain == "stone":
        raise Jammed("Take the stone out.")
    return f"{grain} flour"


@app.flow
async def sieve(grain: str) -> str:
    return await grind.call(grain=grain)


@app.flow
async def milling(grain: str, idle_seconds: int = 5) -> str:
    async with flow.lock("stones", lease_seconds=600):
        await flow.sleep(idle_seconds)
        await flow.all(grind.call(grain=grain), sieve.call(grain=grain))
    which, _ = await flow.first(order=flow.event("order"), late=flow.sleep(60))
    await flow.settled(grind.call(grain="stone"))
    await flow.event("paid")
    return str(which)


season = {"now": "summer"}


@app.flow
async def fickle() -> None:
    await (flow.sleep(1) if season["now"] == "summer" else flow.event("thaw"))
    await flow.event("go")


def spans_of(harness: Harness, run: str, **parameters: str) -> Any:
    query = "&".join(["spans=true", *(f"{name}={value}" for name, value in parameters.items())])
    return harness.get(f"mill/flows/{run}/log?{query}").json["spans"]


def of(spans: list[dict[str, Any]], command: str) -> dict[str, Any]:
    [span] = [span for span in spans if span["command"] == command]
    return span


def seconds(span: dict[str, Any], until: str = "ended_at") -> float:
    return (datetime.fromisoformat(span[until]) - datetime.fromisoformat(span["started_at"])).total_seconds()


def test_each_command_has_a_span_from_its_schedule_to_its_end() -> None:
    with Harness() as harness:
        harness.add(app)
        harness.put("semaphores/stones", json={"permits": 1, "lease_seconds": 60})
        flows("milling", "7").start(grain="rye")
        harness.travel(2)
        spans = spans_of(harness, "milling/7")
        assert [(span["command"], span["outcome"]) for span in spans] == [
            ("lock stones", "done"),
            ("holds stones", "held"),
            ("sleep", "pending"),
        ]
        assert seconds(of(spans, "sleep"), "due_at") == 5
        assert seconds(of(spans, "holds stones"), "due_at") > 590
        assert of(spans, "sleep")["place"].startswith("test_timeline.py:")
        assert of(spans, "sleep")["place"].endswith(" in milling")
        harness.travel(10)
        flows("milling", "7").event("order", {"sacks": 2})
        harness.travel(5)
        spans = spans_of(harness, "milling/7")
        waited = [(span["command"], span["outcome"]) for span in spans if span["command"] != "step mill.grind"]
        assert waited == [
            ("lock stones", "done"),
            ("holds stones", "released"),
            ("sleep", "done"),
            ("flow sieve", "done"),
            ("event order", "done"),
            ("sleep", "abandoned"),
            ("event paid", "pending"),
        ]
        first, jammed = [span for span in spans if span["command"] == "step mill.grind"]
        assert (first["outcome"], first["arguments"]) == ("done", {"grain": "rye"})
        assert (jammed["outcome"], jammed["arguments"]) == ("failed", {"grain": "stone"})
        child = of(spans, "flow sieve")["run"]
        assert harness.get(f"{child['function']}/flows/{child['flow']}/{child['id']}").json["state"] == "completed"
        assert first["started_at"] == of(spans, "flow sieve")["started_at"]
        assert of(spans, "holds stones")["ended_at"] == of(spans, "event order")["started_at"]


def test_what_a_run_left_at_its_end_was_abandoned_there() -> None:
    with Harness() as harness:
        harness.add(app)
        harness.put("semaphores/stones", json={"permits": 1, "lease_seconds": 60})
        flows("milling", "7").start(grain="rye", idle_seconds=500)
        harness.travel(2)
        harness.post("mill/flows/milling/7/terminate", json={"reason": "fire"})
        ended_at = harness.get("mill/flows/milling/7").json["ended_at"]
        spans = spans_of(harness, "milling/7")
        assert [span["outcome"] for span in spans] == ["done", "released", "abandoned"]
        assert {span["ended_at"] for span in spans[1:]} == {ended_at}


def test_the_spans_come_with_the_page_on_which_they_end() -> None:
    with Harness() as harness, replaced(flow_log_page=2):
        harness.add(app)
        harness.put("semaphores/stones", json={"permits": 1, "lease_seconds": 60})
        flows("milling", "7").start(grain="rye")
        harness.travel(10)
        whole: list[Any] = []
        page: dict[str, Any] = {"next_page_token": "0"}
        while token := page.get("next_page_token"):
            page = harness.get(f"mill/flows/milling/7/log?spans=true&page_token={token}").json
            whole += page["spans"]
        assert sorted(span["command"] for span in whole) == [
            "event order",
            "flow sieve",
            "holds stones",
            "lock stones",
            "sleep",
            "sleep",
            "step mill.grind",
        ]
        assert [span["outcome"] for span in page["spans"]][-2:] == ["pending", "pending"]


def test_a_log_that_the_code_does_not_fit_any_more_has_no_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    with Harness() as harness:
        harness.add(app)
        flows("fickle", "7").start()
        harness.travel(2)
        assert [span["command"] for span in spans_of(harness, "fickle/7")] == ["sleep", "event go"]
        monkeypatch.setitem(season, "now", "winter")
        assert spans_of(harness, "fickle/7") is None
        assert harness.get("mill/flows/fickle/7/log?spans=yes").status == 400


jams: list[str] = []


@app.flow
async def stubborn() -> str:
    return await flow.step(mend.call(), attempts_max=5, pause_seconds=30)


@app.task
def mend() -> str:
    if jams:
        raise Jammed(jams.pop(0))
    return "mended"


def test_a_step_shows_the_number_of_its_attempts_and_the_error_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    jams[:] = ["A stone.", "Another stone. " * 100]
    with Harness() as harness:
        harness.add(app)
        flows("stubborn", "7").start()
        harness.travel(10)
        [span] = spans_of(harness, "stubborn/7")
        assert (span["attempt"], span["last_error"]) == (2, "The mill is jammed: A stone.")
        assert seconds(span, "due_at") == pytest.approx(30, abs=2)
        monkeypatch.setattr(Request, "is_open", property(lambda _: True))
        [span] = spans_of(harness, "stubborn/7")
        assert (span["attempt"], span.keys() & {"place", "arguments", "last_error"}) == (2, set())
        monkeypatch.undo()
        harness.travel(30)
        [wait] = harness.get("mill/flows/stubborn/7").json["waiting_for"]
        assert (wait["attempt"], len(wait["last_error"])) == (3, 200)
        harness.travel(60)
        [entry] = harness.get("mill/flows/stubborn/7/log").json["entries"]
        assert (entry["result"], entry["attempt"], len(entry["last_error"])) == ("mended", 3, 200)
        [span] = spans_of(harness, "stubborn/7")
        assert (span["outcome"], span["attempt"]) == ("done", 3)
