"""Large arguments, results and events of flows: they are payloads, which are removed with their run."""

import json
from collections.abc import Iterator
from typing import Any
from unittest import mock

import pytest

from signalbox import Function
from signalbox.adapters.http.json_bodies import BODY_BYTES_MAX, json_of
from signalbox.core.idempotency_keys import hold, idempotent_calls
from signalbox.core.limits import DECLARED
from signalbox.core.ports import Put
from signalbox.core.problems import OtherBody, TooLarge, Unavailable
from signalbox.flows import sweep as flows_sweep
from signalbox.flows.api import flow
from signalbox.flows.api.runs import Flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition
from signalbox.flows.model.messages import update_id
from signalbox.flows.model.retention import Keeping
from signalbox.flows.problems import CannotFork, NoUpdate
from signalbox.flows.service import messages, reads, sends, starts
from signalbox.flows.shown import FlowLogShown
from signalbox.payloads import sweep
from signalbox.testing import Harness, replay
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step

LARGE = "x" * 200_000
DAY_SECONDS = 24 * 3600


@pytest.fixture(autouse=True)
def stored() -> Iterator[None]:
    with mock.patch.dict(DECLARED, {"payloads": "on"}):
        yield


async def relay() -> int:
    made = await step("make")
    length: int = await step("measure", text=made)
    return length


async def returns() -> str:
    made: str = await step("make")
    return made


async def parent() -> int:
    made: str = await Flow(FlowDefinition.from_function(returns), lambda: flows_of(returns)).call()
    return len(made)


async def waits() -> int:
    return len(await flow.event("text", str))


async def takes(text: str) -> int:
    await step("note")
    return len(text)


def shop(*codes: Any) -> Shop:
    return Shop(flows_of(*codes), {"make": lambda _: LARGE, "measure": lambda payload: len(payload["text"])})


def keys(platform: Shop) -> list[str]:
    return sorted(platform.world.payloads.contents)


def removed(platform: Shop) -> None:
    """Remove all ended runs, then their payloads."""
    platform.world.pass_time(40 * DAY_SECONDS)
    flows_sweep.sweep(platform.ports)
    sweep.sweep(platform.ports)


def test_a_large_result_goes_through_a_flow_and_is_removed_with_the_run() -> None:
    at = shop(relay)
    at.start("relay")
    at.settle()
    assert at.status("relay")["result"] == 200_000
    assert [len(content) for content in at.world.payloads.contents.values()] == [200_002]
    removed(at)
    assert keys(at) == []
    assert at.world.ids("payload_removals") == []


def test_the_records_and_tasks_of_a_run_have_only_the_name_of_a_large_value() -> None:
    at = shop(relay)
    at.start("relay")
    at.deliver(at.take("make"))
    [task] = at.world.tasks
    assert list(task.payload["text"]) == ["$payload"]
    assert len(str(at.world.record("flows/relay~1/mailbox/!"))) < 3_000


def test_a_value_is_stored_once_although_its_run_passes_it_on() -> None:
    at = shop(relay)
    at.start("relay")
    make = at.world.cost_of(lambda: at.deliver(at.take("make")))
    measure = at.world.cost_of(lambda: at.deliver(at.take("measure")))
    assert (make.stored, make.opened, measure.stored, measure.opened) == (1, 0, 0, 0)


def test_the_parent_has_its_own_copy_of_the_result_of_a_sub_flow() -> None:
    at = shop(parent, returns)
    at.start("parent")
    at.settle()
    assert at.status("parent")["result"] == 200_000
    assert len(keys(at)) == 2


def test_a_large_event_with_the_token_of_a_lease_differs_in_each_delivery_and_is_received_once() -> None:
    at = shop(waits)
    at.start("waits")
    for lease in ("first-lease-1", "other-lease-2"):
        with idempotent_calls("task"):
            hold({lease: "the lease"})
            at.event("waits", "text", LARGE + lease)
    at.settle()
    assert at.status("waits")["result"] == 200_000 + len("first-lease-1")


def test_a_large_event_is_received_and_its_repeat_changes_nothing() -> None:
    at = shop(waits)
    at.start("waits")
    at.event("waits", "text", LARGE)
    at.event("waits", "text", LARGE)
    at.settle()
    assert at.status("waits")["result"] == 200_000
    assert len(keys(at)) == 1
    at.event("waits", "text", LARGE)
    removed(at)
    assert keys(at) == []


def test_large_arguments_are_in_the_status_by_size_and_can_be_read() -> None:
    at = shop(takes)
    assert at.start("takes", text=LARGE)
    assert not at.start("takes", text=LARGE)
    at.settle()
    address = FlowAddress("takes", "1")
    header, _ = reads.get_log(at.world.store, address)
    named = header.arguments["text"]["$payload"]
    assert json.loads(reads.get_payload(at.ports, address, named[1])) == LARGE
    assert at.status("takes")["result"] == 200_000
    assert len(keys(at)) == 1


def test_an_object_that_looks_like_the_name_of_a_payload_arrives_as_it_is() -> None:
    async def echo(value: dict[str, Any]) -> dict[str, Any]:
        echoed: dict[str, Any] = await step("echo", value=value)
        return echoed

    at = Shop(flows_of(echo), {"echo": lambda payload: payload["value"]})
    value = {"$payload": [1, "hash", "key"]}
    at.start("echo", value=value)
    at.settle()
    assert at.status("echo")["result"] == value


def test_a_fork_has_its_own_copies_and_is_refused_once_they_are_gone() -> None:
    async def slow() -> int:
        made = await step("make")
        await flow.event("go")
        return len(made)

    at = shop(slow)
    at.start("slow")
    at.settle()
    source = FlowAddress("slow", "1")
    starts.fork(at.ports, at.flows, source, starts.Fork("2", 1))
    assert len(keys(at)) == 2
    messages.post_event(at.ports, FlowAddress("slow", "2"), "go", None, "e")
    at.world.payloads.delete([key for key in keys(at) if key.startswith(reads_place(at, source))])
    at.settle()
    assert at.status("slow", "2")["result"] == 200_000
    with pytest.raises(CannotFork, match="is gone"):
        starts.fork(at.ports, at.flows, source, starts.Fork("3", 1))


def reads_place(at: Shop, address: FlowAddress) -> str:
    header = reads.get(at.ports, address)
    [payload] = [entry.outcome.result["$payload"] for entry in header.log.tail]  # type: ignore[union-attr]  # results
    return str(payload[2])


def test_what_is_carried_over_stays_and_the_rest_of_a_generation_is_deleted() -> None:
    async def twice(text: str = "", again: bool = True) -> int:
        made = await step("make")
        if again:
            return flow.continue_as_new(text=made[1:], again=False)  # type: ignore[return-value]  # as flows do
        await flow.event("go", str)
        return len(text)

    at = shop(twice)
    at.start("twice")
    at.event("twice", "go", LARGE)
    at.settle()
    sweep.sweep(at.ports)
    assert at.status("twice")["result"] == 199_999
    generations = [key.split("/")[3] for key in keys(at)]
    assert sorted(generations) == ["1", "1", "events"]
    removed(at)
    assert keys(at) == []


def test_a_task_after_a_flow_receives_the_name_of_another_copy() -> None:
    at = shop(returns)
    at.start("returns", on_complete=step("told"))
    at.deliver(at.take("make"))
    told = at.take("told")
    [_, _, key] = told.context["outcome"]["result"]["$payload"]
    assert key.startswith("tasks/")
    assert key in keys(at)


def test_a_missing_payload_is_an_error_that_is_retried() -> None:
    at = shop(relay)
    at.start("relay")
    at.deliver(at.take("make"))
    measure = at.take("measure")
    at.world.payloads.contents.clear()
    at.world.ports.payloads.forget()  # type: ignore[union-attr]  # the metered one
    with pytest.raises(Unavailable, match="is missing"):
        at.deliver(measure)
    assert [message for message, _ in at.world.reported] == ["payload damaged"]


def test_the_collector_deletes_payloads_that_are_older_than_a_day_and_have_no_owner() -> None:
    at = shop(takes)
    at.start("takes", text=LARGE)
    at.world.payloads.create("flows/hash/other/0/digest", b"1", "flows/takes~1/mailbox/!")
    at.world.payloads.create("flows/hash/other/0/digest2", b"1", "flows/never~1/mailbox/!")
    at.world.pass_time(DAY_SECONDS + 1)
    at.world.payloads.create("flows/hash/young/0/digest", b"1", "flows/takes~1/mailbox/!")
    assert sweep.sweep(at.ports) == 2
    assert [key.split("/")[2] for key in keys(at) if "hash" in key] == ["young"]
    assert len(keys(at)) == 2
    at.world.pass_time(2 * DAY_SECONDS)
    assert sweep.sweep(at.ports) == 0, "the next walk is a week later"


def test_without_the_setting_a_large_value_is_refused_and_the_refusal_names_it() -> None:
    at = shop(relay, waits)
    with mock.patch.dict(DECLARED, {"payloads": "off"}):
        at.start("relay")
        at.settle()
        assert at.status("relay")["state"] == "failed"
        assert "`payloads: true` in the catalogue" in at.status("relay")["error"]["detail"]
        with pytest.raises(TooLarge, match="payloads: true"):
            at.start("takes", text=LARGE)
    assert keys(at) == []


def test_a_run_that_is_removed_in_several_commits_is_marked_in_the_commit_that_gives_up_its_payloads() -> None:
    at = shop(relay)
    at.start("relay")
    at.settle()
    address = FlowAddress("relay", "1")
    for number in range(120):
        at.world.store.commit([Put(f"{address.base}/log/000000-{number:06}", {"entries": "[]"})])
    [read] = at.ports.store.read(f"{address.base}/mailbox/!")
    assert not flows_sweep.remove(at.ports, address, read, lambda: True)
    sweep.sweep(at.ports)
    assert keys(at) == []
    assert at.world.record(f"{address.base}/mailbox/!")["removing"]


def test_the_function_of_the_shop_starts_no_second_run_for_a_repeat() -> None:
    at = shop(takes)
    assert starts.start(at.ports, at.flows, FUNCTION, FlowAddress("takes", "1"), {"text": LARGE}).created
    before = keys(at)
    assert not starts.start(at.ports, at.flows, FUNCTION, FlowAddress("takes", "1"), {"text": LARGE}).created
    assert keys(at) == before


def test_the_archive_of_a_run_has_its_large_values_in_separate_files() -> None:
    at = Shop(flows_of(returns, keeping=Keeping(40, "gs://old")), {"make": lambda _: LARGE})
    at.start("returns")
    at.settle()
    archive, value = sorted(at.archives, key=len)
    assert value.startswith(archive.removesuffix(".ndjson"))
    assert json.loads("".join(row["text"] for row in at.archives[value])) == LARGE
    named = at.archives[archive][0]["result"]["$payload"]
    assert (named["bytes"], value.endswith(f"~{named['sha256']}.ndjson")) == (200_002, True)


# --- messages with large values ---


def sends_to_size(at: Shop, id_: str, value: str = LARGE, **options: Any) -> sends.Sent:
    new = sends.Starting("takes_updates", at.flows, FUNCTION, {"text": LARGE}, **options)
    return sends.send_update(at.ports, FlowAddress("takes_updates", "1"), "add", value, id_, new)


async def takes_updates(text: str) -> int:
    total = len(text)
    while True:
        add = await flow.update("add", str)
        total += len(add.value)
        add.answer(total)


def test_a_large_answer_to_an_update_is_read_as_long_as_its_run_exists() -> None:
    async def echoes() -> int:
        for _ in range(2):
            echo = await flow.update("echo", str)
            echo.answer(echo.value * 2)
            await step("note")
        return 1

    at = shop(echoes)
    at.start("echoes")
    address = FlowAddress("echoes", "1")
    sends.send_update(at.ports, address, "echo", LARGE, "u")
    at.settle()
    named = sends.answer_of(at.ports, address, "u")
    assert named is not None
    _, sha256, key = named.result["$payload"]
    answer = json.loads(sends.answer_by_hash(at.ports, address, "u", sha256))
    assert (key.split("/")[3], answer) == ("events", LARGE * 2)
    sends.send_update(at.ports, address, "echo", "ab", "v")
    at.settle()
    small = sends.answer_of(at.ports, address, "v")
    assert small is not None
    assert small.result == "abab"
    removed(at)
    assert keys(at) == []


def test_a_task_that_a_flow_sends_receives_a_large_argument() -> None:
    async def sends_on() -> int:
        flow.send(step("told", text=LARGE))
        return 1

    at = shop(sends_on)
    at.start("sends_on")
    told = at.take("told")
    [_, _, key] = told.payload["text"]["$payload"]
    assert (key.startswith("tasks/"), key in keys(at)) == (True, True)
    assert told.context["named"] is True


def answer(at: Shop, id_: str) -> Any:
    answered = sends.answer_of(at.ports, FlowAddress("takes_updates", "1"), id_)
    return answered and answered.result


def test_a_large_message_starts_a_run_with_large_arguments_once_whatever_is_repeated() -> None:
    at = shop(takes_updates)
    assert [sends_to_size(at, "u").started for _ in range(2)] == [True, False]
    at.settle()
    assert (sends_to_size(at, "u").started, answer(at, "u")) == (False, 400_000)
    assert [sends_to_size(at, "v", if_exists="replace").started for _ in range(2)] == [True, False]
    at.settle()
    assert answer(at, "v") == 400_000
    sweep.sweep(at.ports)
    assert len(keys(at)) == 2, "the argument and the value of the run that is there"


def test_a_large_message_to_a_run_that_was_removed_meanwhile_does_not_reach_the_next_run_of_the_id() -> None:
    at = shop(takes_updates)
    address = FlowAddress("takes_updates", "1")
    sends_to_size(at, "u")
    at.settle()
    before = reads.get(at.ports, address)
    sends_to_size(at, "v", if_exists="replace")
    update, event = messages.checked_update("add", LARGE, "late"), messages.checked_event("text", LARGE)
    messages.send(at.ports, before, update, update_id(address, "late"))
    messages.send(at.ports, before, event, messages.event_id(address, "late"))
    sweep.sweep(at.ports)
    at.ports.payloads.forget()  # type: ignore[union-attr]  # the metered one
    at.settle()
    assert answer(at, "v") == 400_000
    sends_to_size(at, "w", "xx")
    at.settle()
    assert answer(at, "w") == 400_002
    with pytest.raises(NoUpdate):
        sends.answer_of(at.ports, address, "late")
    messages.post_event(at.ports, address, "text", LARGE, "late")
    messages.post_update(at.ports, address, "add", LARGE, "late")
    at.settle()
    assert (answer(at, "late"), reads.get(at.ports, address).kept) == (600_002, 1)


async def measures_at_once() -> int:
    length: int = await step("measure", text=LARGE)
    return length


def test_a_repeated_start_stores_nothing_of_what_its_first_turn_would_store() -> None:
    at = shop(measures_at_once)
    assert [at.start("measures_at_once") for _ in range(2)] == [True, False]
    assert len(keys(at)) == 1
    at.settle()
    assert at.status("measures_at_once")["result"] == len(LARGE)


def test_a_repeat_stores_nothing_even_if_its_value_is_another_one() -> None:
    at = shop(waits)
    at.start("waits")
    at.event("waits", "text", LARGE)
    with pytest.raises(OtherBody):
        at.event("waits", "text", LARGE + "x")
    assert len(keys(at)) == 1


@pytest.mark.parametrize("at_once", [True, False])
def test_the_value_of_a_message_that_was_not_received_is_deleted_with_its_run(at_once: bool) -> None:
    at = shop(waits)
    at.start("waits")
    at.event("waits", "other", LARGE)
    address = FlowAddress("waits", "1")
    flows_sweep.terminate(at.ports, address)
    with replaced(**({} if at_once else {"flow_removed_at_once_max": 1})):
        flows_sweep.delete(at.ports, address)
    sweep.remove_ended(at.ports, at.world.payloads, lambda: False)
    assert keys(at) == []


@pytest.mark.parametrize("value", [{"$payload": {"bytes": 1, "sha256": "0" * 64}}, {"$payload": {"value": 1}}])
def test_what_a_caller_sends_is_not_shown_as_a_large_value(value: Any) -> None:
    async def returns_event() -> Any:
        return await flow.event("text")

    at = shop(returns_event)
    at.start("returns_event")
    at.event("returns_event", "text", value)
    at.settle()
    assert at.status("returns_event")["result"] == {"$payload": {"value": value}}
    header, entries = reads.get_log(at.world.store, FlowAddress("returns_event", "1"))
    log: Any = json_of(FlowLogShown.of(header, entries, entries))
    assert log["entries"][0]["value"] == {"$payload": {"value": value}}
    replay(Flow(at.flows.of("returns_event"), lambda: at.flows), log)


def test_a_body_with_a_value_over_the_limit_is_refused_with_what_to_set() -> None:
    """The body itself is larger than a function reads, so the check of the argument is not reached."""
    with mock.patch.dict(DECLARED, {"payloads": "off"}), Harness() as harness:
        own = Function("shop")
        own.flow(takes)
        harness.add(own)
        answer = harness.post("/shop/flows/takes", json={"arguments": {"text": "x" * BODY_BYTES_MAX}})
        expected = f"A body has at most {BODY_BYTES_MAX:,} bytes. Larger ones need `payloads: true` in the catalogue."
        assert (answer.status, answer.json["detail"]) == (413, expected)
