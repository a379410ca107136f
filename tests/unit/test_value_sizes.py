"""One measure of values: the bytes that are shown of a large value decide whether it is one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from typing import Any

import pytest

from signalbox import Function, Problem, batch, flow, flows, objects
from signalbox.testing import Harness

BYTES_MAX = 100 * 1024
STATE_BYTES_MAX = 900_000
JSON = {"Content-Type": "application/json"}

app = Function("desk")


@app.task
def give(value: Any) -> Any:
    return value


@app.task
def drop(value: Any) -> None: ...


@app.task
def refuse(value: Any) -> None:
    raise Problem("No.")


@app.flow
async def returns(value: Any) -> Any:
    return value


@app.flow
async def calls(value: Any) -> Any:
    return await give.call(value=value)


@app.flow
async def passes_on(kind: str, length: int) -> Any:
    value = "x" * length
    return await (returns.call(value=value) if kind == "flow" else objects("Box", "a").echo(value=value))


@app.flow
async def waits() -> Any:
    return await flow.event("told")


@app.flow
async def awaits_batch(count: int, length: int) -> Any:
    return (await flow.batch([drop.call(value="x" * length) for _ in range(count)]))["size"]


@app.object
class Box:
    held: Any = None

    def put(self, value: Any) -> None:
        self.held = value

    def echo(self, value: Any) -> Any:
        return value


@contextmanager
def project(*, payloads: bool) -> Iterator[Harness]:
    harness = Harness()
    harness.functions._catalogue = replace(harness.functions._catalogue, payloads=payloads)
    with harness:
        harness.add(app)
        yield harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    with project(payloads=True) as entered:
        yield entered


def items(bytes_: int) -> list[Any]:
    """Return a list whose JSON has so many bytes without spaces, and half as many more with them."""
    ones = [1] * ((bytes_ - 8) // 2)
    return [*ones, "x" * (bytes_ - len(compact([*ones, ""])))]


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


ARGUMENT_BYTES = BYTES_MAX - len('{"value":}')

CALLS: dict[str, tuple[int, Any]] = {
    "an argument of a start": (ARGUMENT_BYTES, lambda value: returns.start("r", value)),
    "an event": (BYTES_MAX, lambda value: (waits.start("w"), flows("waits", "w").event("told", value))),
    "an argument of a call": (ARGUMENT_BYTES, lambda value: objects("Box", "a").put(value=value)),
    "an argument of a task": (ARGUMENT_BYTES, lambda value: drop.call(value=value).enqueue()),
    "an argument of a unit": (ARGUMENT_BYTES, lambda value: batch("b").populate([drop.call(value=value)])),
}


@pytest.mark.parametrize("what", CALLS)
@pytest.mark.parametrize("more", [0, 1])
def test_a_value_is_stored_if_its_json_without_spaces_is_too_large(what: str, more: int, harness: Harness) -> None:
    bytes_, call = CALLS[what]
    call(items(bytes_ + more))
    assert [len(content) for content in harness.payloads.contents.values()] == [bytes_ + 1] * more


def test_a_value_has_the_same_size_and_hash_wherever_it_is_shown(harness: Harness) -> None:
    value = {"$payload": items(BYTES_MAX)}
    named = {"$payload": {"bytes": len(compact(value)), "sha256": sha256(compact(value).encode()).hexdigest()}}
    calls.start("r", value)
    batch("b").populate([give.call(value=value)])
    refuse.call(value=value).enqueue()
    body = json.dumps({"value": value})
    assert harness.post("desk/objects/Box/a/echo", data=body, headers=JSON).json["result"] == named
    harness.travel(60)
    assert harness.get("desk/flows/calls/r").json["result"] == named
    assert harness.get("desk/flows/calls/r/log").json["arguments"] == {"value": named}
    assert harness.get("batches/b/units").json["units"][0]["result"] == named
    assert harness.get("failures").json["failures"][0]["payload"] == {"value": named}


@pytest.mark.parametrize("more", [0, 1])
def test_the_limit_of_a_state_counts_the_state_that_is_shown(more: int, harness: Harness) -> None:
    state = {"version": 1, "fields": {"held": ""}}
    value = "x" * (STATE_BYTES_MAX - len(compact(state)) + more)
    harness.post("desk/objects/Box/a/put", json={"value": value})
    shown = harness.get("desk/objects/Box/a?state=true").json["state"]
    assert shown.get("$payload", {}).get("bytes") == (STATE_BYTES_MAX + 1 if more else None)


@pytest.mark.parametrize(("length", "stored"), [(99_986, 0), (99_987, 1)])
def test_the_limit_of_an_awaited_batch_counts_the_json_of_its_units(length: int, stored: int, harness: Harness) -> None:
    awaits_batch.start("r", 3, length)
    assert len(harness.payloads.contents) == stored


@pytest.mark.parametrize("value", [{"$payload": {"bytes": 1, "sha256": "0" * 64}}, {"$payload": {"value": 1}, "a": 2}])
def test_a_small_argument_of_a_failure_is_not_shown_as_a_large_one(value: Any, harness: Harness) -> None:
    refuse.call(value=value).enqueue()
    harness.travel(5)
    assert harness.get("failures").json["failures"][0]["payload"] == {"value": {"$payload": {"value": value}}}


def test_the_members_that_protect_a_value_from_being_taken_for_a_large_one_do_not_count(harness: Harness) -> None:
    value = {"$payload": {"x": ""}}
    value["$payload"]["x"] = "x" * (ARGUMENT_BYTES - len(compact(value)))
    objects("Box", "a").put(value=value)
    returns.start("r", value)
    assert harness.payloads.contents == {}


# --- without the setting ---

HINT = "Larger ones need `payloads: true` in the catalogue."
REQUESTS: dict[str, Callable[[str], Any]] = {
    "flows/returns/r": lambda value: {"arguments": {"value": value}},
    "objects/Box/a/put": lambda value: {"value": value},
}


@pytest.mark.parametrize("path", REQUESTS)
def test_without_the_setting_a_request_may_have_arguments_up_to_the_limit(path: str) -> None:
    with project(payloads=False) as harness:
        body = json.dumps(REQUESTS[path]("x" * (ARGUMENT_BYTES - 2)), indent=4)
        assert harness.post(f"desk/{path}", data=body, headers=JSON).status < 300


@pytest.mark.parametrize("path", REQUESTS)
def test_without_the_setting_the_refusal_of_larger_arguments_names_it(path: str) -> None:
    with project(payloads=False) as harness:
        answer = harness.post(f"desk/{path}", json=REQUESTS[path]("x" * (ARGUMENT_BYTES - 1)))
        assert answer.json["type"] == "urn:signalbox:problem:too-large"
        assert answer.json["detail"].endswith(HINT)


@pytest.mark.parametrize("kind", ["flow", "object"])
def test_without_the_setting_a_flow_is_stuck_at_larger_arguments_with_the_remedy(kind: str) -> None:
    with project(payloads=False) as harness:
        passes_on.start("r", kind, BYTES_MAX)
        harness.run(raise_errors=False)
        status = flows("passes_on", "r").status()
        assert (status.state, HINT in status.problem["detail"]) == ("stuck", True)
