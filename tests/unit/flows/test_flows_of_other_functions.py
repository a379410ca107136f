"""Flows of another function, by an `async def` of their name and signature: started, called, and checked."""

import pytest

from signalbox import Function, flow, flows
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
