"""Flows of another function, by an `async def` of their name and signature: started, called, and checked."""

from collections.abc import Callable
from typing import Any

import pytest

from signalbox import Function, batch, flow, flows
from signalbox.core.problems import BadCall
from signalbox.flows.problems import BadFlow, NoFlow
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness


async def total(item: str, count: int) -> int:
    raise AssertionError("the code of a signature does not run")


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> None:
    app = Function("shop")

    async def counted(item: str, count: int) -> int:
        await flow.sleep(1)
        return len(item) * count

    counted.__name__ = "total"
    app.flow(counted)
    harness.add(app)


def test_a_flow_of_another_function_is_started_by_its_signature(harness: Harness) -> None:
    run = flows(total).with_(labels={"of": "test"}).start("1", "tea", count=2)
    drawn = flows(total).start_new("salt", 1)
    harness.run()
    assert (run.status().result, run.status().labels, drawn.status().result) == (6, {"of": "test"}, 4)


def test_arguments_that_do_not_fit_the_signature_are_refused_where_the_call_is_made() -> None:
    with pytest.raises(TypeError, match="total: count must be"):
        flows(total).start("1", "tea", count="two")  # type: ignore[arg-type]  # as code without a type checker
    with pytest.raises(TypeError, match="needs the argument 'count'"):
        flows(total).start("1", "tea")  # type: ignore[call-arg]  # as above


def test_a_flow_of_another_function_runs_as_a_sub_flow(harness: Harness) -> None:
    app = Function("bank")

    @app.flow
    async def around(item: str) -> int:
        return 1 + await flows(total).call(item, 2)

    harness.add(app)
    around.start("1", "tea")
    harness.run()
    assert flows("around", "1").status().result == 7


@pytest.mark.parametrize(
    "act",
    [
        lambda run: run.event("x"),
        lambda run: run.update("x"),
        lambda run: run.status(),
        lambda run: run.wait(0),
        lambda run: run.log(),
        lambda run: run.cancel(),
        lambda run: run.terminate(),
        lambda run: run.suspend(),
        lambda run: run.resume(),
        lambda run: run.delete(),
    ],
)
def test_a_run_of_an_unknown_flow_is_refused_with_the_flows_there_are(act: Callable[[Any], object]) -> None:
    with pytest.raises(NoFlow, match=r"no run '1' of totla.* The catalogue has no flow 'totla'\. Its flows: .*total"):
        act(flows("totla", "1"))
    with pytest.raises(NoFlow) as refused:
        act(flows("total", "1"))
    assert "catalogue" not in refused.value.detail


def test_a_text_in_the_place_of_a_call_is_refused_with_what_to_write() -> None:
    text: Any = "t1"
    for start in (
        lambda: flows("total").start(text, item="tea", count=1),
        lambda: flows("total").starting(text, item="tea", count=1),
        lambda: flows("total", "1").start(text, item="tea", count=1),
        lambda: flows(total).with_(on_complete=text).start_new("tea", 1),
    ):
        with pytest.raises(BadFlow, match=r"`on_complete` must be a call of a task.* flows\('total', id\)\.start"):
            start()
    with pytest.raises(BadCall, match="`on_complete` must be a call of a task, such as"):
        batch("b").populate([], on_complete=text)
