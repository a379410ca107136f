"""The flows' part of the sweeper: all that are due, stuck ones first, within a budget, whatever one record contains."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from signalbox.core.ports import OutOfTime, Put, Stale
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import messages
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import Shop, flows_of, step

WEEK = LIMITS.flow_kept_seconds + 1


async def brief() -> Any:
    return "done"


async def talkative() -> Any:
    await flow.event("never")


async def broken() -> Any:
    await step("charge")
    raise KeyError("a bug")


def shop_of(*codes: Callable[..., Any]) -> Shop:
    return Shop(flows_of(*codes))


def listed(shop: Shop) -> list[str]:
    return shop.world.ids("flows")


def test_one_sweep_removes_all_flows_that_are_due_however_many_pages_they_are() -> None:
    shop = shop_of(brief)
    with replaced(flows_sweep_page=2):
        for number in range(7):
            shop.start("brief", str(number))
        shop.settle()
        shop.world.pass_time(WEEK)
        assert sweep.sweep(shop.ports) == 7
    assert listed(shop) == []


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("flows/brief~0", {"due_at": None}),
        ("flows/brief~0", {"due_at": "soon", "state": "completed"}),
        ("flows/no-address", {"due_at": None, "state": "completed"}),
        ("flows/brief~0/mailbox/!", {"incarnation": 7}),
    ],
    ids=["no time", "a text", "another name", "a header that is not one"],
)
def test_a_record_that_cannot_be_read_does_not_keep_the_sweeper_from_the_others(path: str, data: Any) -> None:
    shop = shop_of(brief)
    for number in range(3):
        shop.start("brief", str(number))
    shop.settle()
    shop.world.pass_time(WEEK)
    shop.ports.store.commit([Put(path, data)])
    with replaced(flows_sweep_page=1):
        sweep.sweep(shop.ports)
    assert not {"brief~1", "brief~2"} & set(listed(shop))


def test_a_record_that_cannot_be_read_is_logged_and_visited_again_later() -> None:
    shop = shop_of(brief)
    shop.start("brief", "0")
    shop.settle()
    shop.world.pass_time(WEEK)
    shop.ports.store.commit([Put("flows/brief~0/mailbox/!", {"incarnation": 7})])
    assert [sweep.sweep(shop.ports) for _ in range(2)] == [1, 0]
    assert "flow cannot be swept" in [message for message, _ in shop.world.log.errors]
    shop.world.pass_time(LIMITS.flow_stuck_seconds + 1)
    assert sweep.sweep(shop.ports) == 1


def with_many_messages(shop: Shop, id_: str, count: int) -> None:
    shop.start("talkative", id_)
    shop.settle()
    shop.ports.store.commit([Put(f"flows/talkative~{id_}/log/{number:04}", {"n": number}) for number in range(count)])


def ended(shop: Shop) -> None:
    for id_ in ("large", "small"):
        messages.cancel(shop.ports, FlowAddress("talkative", id_), "")
        shop.settle()


def test_a_long_removal_continues_behind_the_others_that_are_due() -> None:
    shop = shop_of(talkative)
    with_many_messages(shop, "large", 9)
    with_many_messages(shop, "small", 0)
    ended(shop)
    shop.world.pass_time(WEEK)
    with replaced(flow_removal_page=2, flow_removal_commits_max=2, flow_removed_at_once_max=2):
        assert sweep.sweep(shop.ports) == 2
        assert listed(shop) == ["talkative~large"]
        for _ in range(4):
            shop.world.pass_time(1)
            sweep.sweep(shop.ports)
    assert listed(shop) == []


def test_a_removal_ends_when_its_time_is_over_and_a_stuck_flow_does_not_wait_for_it() -> None:
    shop = shop_of(talkative, broken)
    with_many_messages(shop, "large", 9)
    with_many_messages(shop, "small", 0)
    ended(shop)
    shop.world.pass_time(WEEK)
    shop.start("broken", "b")
    shop.settle()
    shop.world.pass_time(LIMITS.flow_stuck_seconds + 1)
    spent: list[int] = []

    def budget() -> OutOfTime:
        left = iter(range(4))
        spent.append(0)

        def out_of_time() -> bool:
            return next(left, None) is None

        return out_of_time

    with replaced(flow_removal_page=1, flow_removed_at_once_max=1):
        sweep.sweep(shop.ports, budget)
    assert [task.payload["mailbox"] for task in shop.world.tasks] == ["flows/broken~b"]
    assert len(spent) == 2
    assert len(shop.world.ids("flows/talkative~large/log")) > 3


class Losing:
    """A store whose guarded changes of one record lose their race."""

    def __init__(self, store: Any, path: str) -> None:
        self._store, self._path = store, path

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, writes: Any) -> Any:
        if any(write.path == self._path for write in writes):
            raise Stale(self._path)
        return self._store.commit(writes)


def test_a_silent_flow_that_cannot_be_read_and_that_changes_meanwhile_does_not_end_the_sweep() -> None:
    shop = shop_of(charging)
    for number in range(2):
        shop.start("charging", str(number))
    shop.world.tasks.clear()
    shop.world.pass_time(LIMITS.flow_silent_seconds + 1)
    shop.ports.store.commit([Put("flows/charging~0/mailbox/!", {"incarnation": 7})])
    store = Losing(shop.ports.store, "flows/charging~0")
    assert sweep.sweep(replace(shop.ports, store=store)) == 2
    assert [task.payload["mailbox"] for task in shop.world.tasks] == ["flows/charging~1"]


async def charging() -> Any:
    await step("charge")


async def patient() -> Any:
    await flow.all(flow.event("never"), flow.sleep(1_000_000))


def test_a_flow_that_waits_for_a_step_is_looked_at_every_hour_and_a_patient_one_once_a_day() -> None:
    shop = shop_of(charging, patient)
    shop.start("charging")
    shop.start("patient")
    visits = []
    for _ in range(4):
        shop.world.tasks.clear()
        shop.world.pass_time(LIMITS.flow_silent_seconds + 1)
        sweep.sweep(shop.ports)
        visits.append(sorted(task.payload["mailbox"].split("/")[1] for task in shop.world.tasks))
    assert visits == [["charging~1", "patient~1"], *[["charging~1"]] * 3]


def test_a_flow_that_has_just_begun_is_not_looked_at() -> None:
    shop = shop_of(charging)
    shop.start("charging")
    assert sweep.sweep(shop.ports) == 0
    shop.world.pass_time(LIMITS.flow_silent_seconds + 1)
    assert sweep.sweep(shop.ports) == 1


def test_a_flow_that_ended_since_its_listing_was_read_is_not_removed() -> None:
    shop = shop_of(brief)
    shop.start("brief")
    [listing] = shop.ports.store.read("flows/brief~1")
    shop.settle()
    assert sweep.sweep_flow(shop.ports, listing, FlowAddress("brief", "1"), lambda: False)
    assert shop.status("brief")["state"] == "completed"
    shop.world.pass_time(WEEK)
    assert sweep.sweep(shop.ports) == 1
    assert listed(shop) == []
