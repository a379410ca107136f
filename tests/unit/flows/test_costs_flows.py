"""What flows cost: round trips, reads, writes, deletes and tasks."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from signalbox.adapters.cost_meter import Cost
from signalbox.core.effects import WAKE_UP_TASK
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.retention import Keeping
from signalbox.flows.service import lists, messages, reads, sends, starts
from signalbox.flows.tasks import bulk
from signalbox.tasks.api import Call
from tests.unit.cost_table import is_within, row_cost, total
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step


async def chain(count: int = 3) -> Any:
    for _ in range(count):
        await step("work")
    return "end"


async def both() -> Any:
    await flow.all(*[step("work") for _ in range(20)])
    await step("after")


async def nap() -> Any:
    await step("work")
    await flow.sleep(60)
    await step("work")


async def approval() -> Any:
    await flow.event("approved")
    await step("work")


async def events() -> Any:
    for _ in range(9):
        await flow.event("approved")


def of_start(shop: Shop, name: str, **arguments: Any) -> Cost:
    return shop.world.cost_of(lambda: shop.start(name, **arguments))


def of(shop: Shop, task: str) -> Cost:
    found = shop.take(task)
    shop.world.pass_time(10)
    return shop.world.cost_of(lambda: shop.deliver(found))


def test_a_start_where_the_code_is_reads_nothing() -> None:
    shop = Shop(flows_of(chain))
    assert of_start(shop, "chain") == row_cost("flows", "start")


def test_a_start_that_needs_the_time_reads_it() -> None:
    async def timed() -> Any:
        await flow.sleep(5)

    assert of_start(Shop(flows_of(timed)), "timed") == row_cost("flows", "start", "start_timed")


def test_a_start_where_the_code_is_not_costs_the_same() -> None:
    assert of_start(Shop(flows_of()), "chain") == row_cost("flows", "start")


def test_a_steps_end_and_the_next_ones_beginning() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain")
    assert of(shop, "work") == row_cost("flows", "step")


def test_a_silent_flow_costs_a_look_of_the_sweeper_and_a_task() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain")
    shop.world.pass_time(LIMITS.flow_silent_seconds)
    row = row_cost("sweeper", "silent")
    found = replace(row, round_trips=row.round_trips + 2, reads=row.reads + 2)  # with the two queries
    assert shop.world.cost_of(lambda: sweep.sweep(shop.ports)) == found


def test_a_delayed_step_reads_its_flow_first() -> None:
    async def patient() -> Any:
        await step("work").after(60)
        await step("next")

    shop = Shop(flows_of(patient))
    shop.start("patient")
    assert of(shop, "work") == row_cost("flows", "step", "step_later")


@pytest.mark.parametrize("steps", [300, pytest.param(3_000, marks=(pytest.mark.marathon, pytest.mark.timeout(900)))])
def test_a_step_of_a_long_flow_on_average(steps: int) -> None:
    shop = Shop(flows_of(chain), {"work": lambda _: "x" * 500})
    shop.start("chain", count=steps)

    def run_all() -> None:
        while shop.world.tasks:
            shop.deliver(shop.world.tasks.pop(0))

    cost = shop.world.cost_of(run_all)
    assert shop.status("chain")["log_length"] == steps
    assert is_within("flows", "long", cost, steps)
    assert (cost.deletes, cost.tasks) == (steps - 1, steps - 1)


def test_a_steps_end_that_is_left_in_the_mailbox_and_the_run_that_takes_it() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain")
    shop.flows = flows_of()
    assert of(shop, "work") == row_cost("flows", "step_left")
    shop.flows = flows_of(chain)
    assert of(shop, "turn") == row_cost("flows", "run", n=1)


def test_a_steps_share_of_a_run_that_takes_twenty() -> None:
    shop = Shop(flows_of(both))
    shop.start("both")
    for task in [each for each in shop.world.tasks if each.task == "work"]:
        shop.world.tasks.remove(task)
        assert shop.world.cost_of(partial(shop.deliver, task)) == row_cost("flows", "step_left")
    assert of(shop, "turn") == row_cost("flows", "run", n=20)


def test_a_sleep_costs_a_message_and_a_wake_up_in_addition_to_the_turns() -> None:
    shop = Shop(flows_of(nap))
    shop.start("nap")
    assert of(shop, "work") == row_cost("flows", "sleep")
    shop.world.pass_time(60)
    assert of(shop, "turn") == row_cost("flows", "sleep_end")


def test_an_event_and_the_turn_that_applies_it() -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    shop.world.tasks.clear()
    event = shop.world.cost_of(lambda: shop.event("approval", "approved"))
    assert event == row_cost("flows", "event")
    assert of(shop, "turn") == row_cost("flows", "event_run")


async def answers() -> Any:
    (await flow.update("add")).answer(1)
    later = await flow.update("add")
    await step("work")
    later.answer(2)
    await step("work")


def test_an_update_and_its_answer_at_once_and_later() -> None:
    shop, address = Shop(flows_of(answers)), FlowAddress("answers", "1")
    shop.start("answers")
    send = partial(sends.send_update, shop.ports, address, "add", None)
    assert shop.world.cost_of(lambda: send("u1")) == row_cost("flows", "update")
    assert of(shop, "turn") == row_cost("flows", "update_run")
    assert shop.world.cost_of(lambda: sends.answer_of(shop.ports, address, "u1")) == row_cost("flows", "answer")
    send("u2")
    of(shop, "turn")
    assert of(shop, "work") == total(row_cost("flows", "step"), row_cost("flows", "update_later"))


def test_an_event_that_may_start_its_run() -> None:
    shop = Shop(flows_of(approval))
    new = sends.Starting("approval", shop.flows, FUNCTION)
    send = partial(sends.send_event, shop.ports, FlowAddress("approval", "1"), "other", None, new=new)
    assert shop.world.cost_of(lambda: send("e1")) == row_cost("flows", "with_start")
    of(shop, "turn")
    assert shop.world.cost_of(lambda: send("e2")) == row_cost("flows", "with_start_of")
    replacing = replace(new, if_exists="replace_ended")
    cost = shop.world.cost_of(lambda: send("e3", new=replacing))
    assert cost == row_cost("flows", "with_start_of", "with_start_again")


async def labelled() -> Any:
    await step("work")
    flow.label("phase", "second")
    await step("work")


def test_a_label_is_one_more_write_of_its_turn() -> None:
    shop = Shop(flows_of(labelled))
    shop.start("labelled")
    assert of(shop, "work") == row_cost("flows", "step", "label")


async def around(key: str) -> Any:
    await step("work")
    await flow.all(*[SubFlow(FUNCTION, "approval", {}, id=f"{key}-{number}" if key else "") for number in range(3)])


def test_the_ids_of_sub_flows_are_looked_up_in_one_round_trip() -> None:
    shop = Shop(flows_of(around, approval))
    costs = []
    for key in ("", "named"):
        shop.start("around", key or "1", key=key)
        costs.append(of(shop, "work"))
        shop.world.tasks.clear()
    assert costs[1] == total(costs[0], row_cost("flows", "sub_flow_id", n=3))


def test_a_time_out_is_one_read_one_write_and_one_task_more_and_then_one_read_in_each_run() -> None:
    shop = Shop(flows_of(chain, approval))
    start = partial(starts.start, shop.ports, shop.flows, FUNCTION, timeout_seconds=60)
    cost = shop.world.cost_of(lambda: start(FlowAddress("chain", "1"), {}))
    assert cost == row_cost("flows", "start", "timeout")
    start(FlowAddress("approval", "1"), {})
    shop.world.tasks.clear()
    shop.event("approval", "approved")
    assert of(shop, "turn") == replace(row_cost("flows", "event_run"), reads=3)


def test_a_callback_costs_what_an_event_costs() -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    shop.world.tasks.clear()
    run = reads.get(shop.ports, FlowAddress("approval", "1"))
    callback = Callback("open", "approval", "1", run.incarnation, "approved", 2**40, operation="a")
    assert shop.world.cost_of(lambda: messages.post_callback(shop.ports, callback, "yes")) == row_cost(
        "flows", "callback"
    )
    assert shop.world.cost_of(lambda: messages.sent_by_callback(shop.ports, callback)) == row_cost(
        "flows", "callback_page"
    )
    assert of(shop, "turn") == row_cost("flows", "event_run")


def test_the_last_steps_end_with_its_announcement_and_card() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain", on_complete=Call(FUNCTION, "told", {}), count=1)
    assert of(shop, "work") == row_cost("flows", "end")


def test_a_step_that_is_delivered_again_looks_at_two_records() -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain")
    work = shop.take("work")
    shop.deliver(work)
    assert shop.world.cost_of(lambda: shop.deliver(work, deliveries=1)) == row_cost("flows", "repeat")


@pytest.mark.parametrize("look", [reads.get, lambda ports, address: reads.get_log(ports.store, address)])
def test_a_look_at_a_flow_is_one_read(look: Callable[..., Any]) -> None:
    shop = Shop(flows_of(chain))
    shop.start("chain")
    address = FlowAddress("chain", "1")
    assert shop.world.cost_of(lambda: look(shop.ports, address)) == row_cost("flows", "look")


def test_a_cancel_is_posted_behind_a_look() -> None:
    shop = Shop(flows_of(approval))
    shop.start("approval")
    cost = shop.world.cost_of(lambda: messages.cancel(shop.ports, FlowAddress("approval", "1")))
    assert cost == Cost(round_trips=4, reads=1, writes=2, deletes=1, tasks=1)
    assert LIMITS.flow_siblings_max < 20


def test_a_run_whose_time_another_turn_has_read_behind_costs_a_look_though_something_waits() -> None:
    """So the runs of a rush of events do not lose their guards to each other, and are not taken for deaths."""
    shop = Shop(flows_of(events))
    shop.start("events")
    wake_ups = []
    for number in range(5):
        shop.event("events", "approved", id_=f"e{number}")
        wake_ups.append(shop.take(WAKE_UP_TASK))
        shop.world.pass_time(0.25)
    first, *_, last = wake_ups
    shop.world.pass_time(10)
    shop.deliver(last)
    shop.event("events", "approved", id_="newer")
    assert shop.world.cost_of(lambda: shop.deliver(first)) == Cost(round_trips=1, reads=2)
    assert shop.status("events")["log_length"] == 5
    shop.deliver(shop.take(WAKE_UP_TASK))
    assert shop.status("events")["log_length"] == 6


def test_the_archive_of_a_run_costs_a_task_and_if_it_fails_a_look_of_the_sweeper() -> None:
    shop = Shop(flows_of(chain, keeping=Keeping(None, "gs://shop/flows")))
    shop.start("chain", on_complete=Call(FUNCTION, "told", {}), count=1)
    assert of(shop, "work") == row_cost("flows", "end", "archived")
    shop.storage_fails = True
    shop.deliver(shop.take("flow_command"))
    shop.world.pass_time(LIMITS.flow_archive_seconds)
    row = row_cost("sweeper", "unarchived")
    found = replace(row, round_trips=row.round_trips + 2, reads=row.reads + 2)  # with the two queries
    assert shop.world.cost_of(lambda: sweep.sweep(shop.ports)) == found
    shop.storage_fails = False
    assert of(shop, "flow_command") == row_cost("flows", "archive")


@pytest.mark.parametrize("count", [5, 12])
def test_an_action_on_all_that_match_costs_a_read_for_each_and_the_batch_that_acts(count: int) -> None:
    shop = Shop(flows_of(approval))
    for number in range(count):
        shop.start("approval", f"r{number}")
    wanted = bulk.ActionOnRuns("cancel", lists.Runs("approval", "running"))
    cost = shop.world.cost_of(lambda: bulk.act_on_all(shop.ports, FUNCTION, wanted, "k"))
    assert cost == row_cost("flows", "act_on_all", n=count)
    unit = wanted.payload("b", "2030-01-01T00:00:00Z") | {"id": "r1"}
    assert shop.world.cost_of(lambda: bulk.act_on_run(shop.ports, unit)) == row_cost("flows", "act_on_run")
