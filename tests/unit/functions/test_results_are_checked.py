"""A result that is not of its annotated type is refused where the code returns it, in every kind of code."""

import json
from typing import Any, cast

import pytest

from signalbox import Function, Unit, batch, flow, flows
from signalbox.core.codec.json_forms import WrongValue, decode, encode
from signalbox.core.problems import Problem
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness

WRONG = "the result must be int, not str"
app = Function("desk")


def wrong() -> int:
    result: int = json.loads('"seven"')
    return result


@app.task
def of_a_unit(unit: Unit) -> int:
    return wrong()


@app.task
def of_units(units: list[Unit]) -> list[int]:
    return [wrong() for _ in units]


@app.task
def of_a_step() -> int:
    return wrong()


@app.flow
async def of_a_flow() -> int:
    return wrong()


@app.flow
async def with_steps(inline: bool) -> str:
    def step() -> int:
        return wrong()

    try:
        return f"got {await (flow.run(step) if inline else of_a_step.call())!r}"
    except Problem as problem:
        return problem.detail


@app.object
class Bench:
    def count(self) -> int:
        return wrong()

    def clear(self) -> None:
        return cast("None", wrong())


@pytest.fixture(autouse=True)
def _added(harness: Harness) -> None:
    harness.add(app)


@pytest.mark.parametrize(("task", "place"), [(of_a_unit, "the result"), (of_units, "the result[0]")])
def test_a_units_result(harness: Harness, task: Any, place: str) -> None:
    batch("b").populate([task.call()])
    harness.run()
    [unit] = harness.get("batches/b/units").json["units"]
    assert (unit["state"], unit["error"]) == (
        "failed",
        f"The result of {task.name} cannot be stored: {place} must be int, not str.",
    )


@pytest.mark.parametrize("inline", [False, True])
def test_a_steps_result(harness: Harness, inline: bool) -> None:
    flows("with_steps", "1").start(inline=inline)
    harness.run(raise_errors=False)
    assert WRONG in str(flows("with_steps", "1").status().result)


def test_a_flows_result(harness: Harness) -> None:
    flows("of_a_flow", "1").start()
    harness.run(raise_errors=False)
    status = flows("of_a_flow", "1").status()
    assert (status.state, status.problem["detail"]) == ("stuck", "The flow's result must be int, not str.")


@pytest.mark.parametrize(("method", "wanted"), [("count", "int, not str"), ("clear", "None, not str")])
def test_a_methods_result(harness: Harness, method: str, wanted: str) -> None:
    refused = harness.post(f"desk/objects/Bench/a/{method}", json={})
    assert (refused.status, refused.json["detail"]) == (
        400,
        f"The method's result cannot be stored: the result must be {wanted}.",
    )


def test_a_stored_result_of_an_older_annotation_is_read() -> None:
    codec = of_a_step._signature.result
    with pytest.raises(WrongValue, match=WRONG):
        encode(codec, "seven", "the result")
    assert decode(codec, ["seven"], "the result", stored=True) == ["seven"]
