"""Which events are delivered next: a slow function does not hold those of others, and no event is forgotten."""

import asyncio
import contextlib
import time
from collections import Counter
from pathlib import Path

import pytest

from signalbox_tools.local.event_bridge import deliver
from signalbox_tools.local.event_bridge.cloudevent import Event
from signalbox_tools.local.event_bridge.deliver import CONCURRENT_MAX, OF_A_TRIGGER_MAX, Deliverer, DueEvents
from signalbox_tools.local.event_bridge.inbox import Inbox
from signalbox_tools.local.function_processes import FunctionProcesses, Response
from signalbox_tools.local.injected_faults import Chaos

WAIT_SECONDS_MAX = 20.0


class Functions(FunctionProcesses):
    """Functions that note their events by trigger. That of the trigger `slow` does not respond."""

    def __init__(self, failures: int = 0) -> None:
        super().__init__()
        self.begun: Counter[str] = Counter()
        self.failures = failures

    async def deliver(self, sent: bytes, seconds_max: float) -> Response | None:
        name = sent.partition(b"http://functions/")[2].partition(b'"')[0].decode()
        self.begun[name] += 1
        if name == "slow":
            await asyncio.sleep(seconds_max)
        self.failures -= 1
        return (500, "") if self.failures >= 0 else (204, "")


ROUTES = {name: f"http://functions/{name}" for name in ("slow", "quick")}


@pytest.fixture
def inbox(tmp_path: Path) -> Inbox:
    return Inbox(tmp_path / "events.sqlite")


def test_the_newest_and_the_oldest_event_of_all_triggers_that_may_begin_are_taken() -> None:
    due = DueEvents()
    for event_id, trigger in enumerate(("a", "b", "a", "c")):
        due.add(event_id, trigger)
    assert due.take((), newest=True) == (3, "c")
    assert due.take(("a",), newest=False) == (1, "b")
    assert due.take(("a",), newest=False) is None
    assert due
    assert [due.take((), newest=False) for _ in range(3)] == [(0, "a"), (2, "a"), None]
    assert not due


def test_a_slow_function_leaves_deliveries_to_the_events_of_other_triggers(inbox: Inbox) -> None:
    functions = Functions()

    async def run() -> None:
        for number in range(2 * CONCURRENT_MAX):
            inbox.add_now(Event("slow", {"ce-id": f"slow-{number}"}, b""))
        delivering = asyncio.create_task(Deliverer(inbox, ROUTES, functions, Chaos()).run())
        while functions.begun["slow"] < OF_A_TRIGGER_MAX:
            await asyncio.sleep(0.005)
        for number in range(CONCURRENT_MAX):
            inbox.add_now(Event("quick", {"ce-id": f"quick-{number}"}, b""))
        while inbox.counts().delivered < CONCURRENT_MAX:
            await asyncio.sleep(0.005)
        delivering.cancel()

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS_MAX))
    assert functions.begun == {"slow": OF_A_TRIGGER_MAX, "quick": CONCURRENT_MAX}


def test_an_event_of_a_trigger_that_a_reload_adds_waits_for_the_restart_with_the_new_catalogue(inbox: Inbox) -> None:
    functions = Functions()

    async def deliver_with(routes: dict[str, str], *, new_events: int, until_left: int) -> None:
        delivering = asyncio.create_task(Deliverer(inbox, routes, functions, Chaos()).run())
        for number in range(new_events):
            await asyncio.sleep(0.01)
            inbox.add_now(Event("quick", {"ce-id": f"event-{number}"}, b""))
        await asyncio.sleep(0.1)
        while inbox.counts().left != until_left:
            await asyncio.sleep(0.005)
        delivering.cancel()

    async def run() -> None:
        await deliver_with({}, new_events=2, until_left=2)
        await deliver_with(ROUTES, new_events=0, until_left=0)
        inbox.add_now(Event("quick", {"ce-id": "left by an earlier catalogue"}, b""))
        await deliver_with({}, new_events=0, until_left=0)

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS_MAX))
    assert functions.begun == {"quick": 2}


@pytest.mark.parametrize(("hours_before_the_start", "hours_since"), [(100, 23), (0, 25)])
def test_an_event_is_given_up_a_day_after_its_write_or_the_start(
    inbox: Inbox, monkeypatch: pytest.MonkeyPatch, hours_before_the_start: int, hours_since: int
) -> None:
    functions, now = Functions(failures=1), time.time()

    async def run() -> None:
        monkeypatch.setattr(time, "time", lambda: now - 3_600 * hours_before_the_start)
        inbox.add_now(Event("quick", {"ce-id": "event"}, b""))
        monkeypatch.setattr(time, "time", lambda: now)
        deliverer = Deliverer(inbox, ROUTES, functions, Chaos())
        monkeypatch.setattr(time, "time", lambda: now + 3_600 * hours_since)
        delivering = asyncio.create_task(deliverer.run())
        while inbox.counts().left:
            await asyncio.sleep(0.005)
        delivering.cancel()

    asyncio.run(asyncio.wait_for(run(), WAIT_SECONDS_MAX))
    given_up = hours_since > 24
    assert (inbox.counts().delivered, inbox.counts().given_up) == (not given_up, given_up)


def test_an_event_that_has_failed_for_hours_is_delivered_again(inbox: Inbox, monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = 1_100  # at one in ten seconds, three hours; the float 2.0**1024 does not exist
    monkeypatch.setattr(deliver, "PAUSE_SECONDS_MAX", 0.0)
    functions = Functions(failures=attempts)

    async def run() -> None:
        inbox.add_now(Event("quick", {"ce-id": "event"}, b""))
        delivering = asyncio.create_task(Deliverer(inbox, ROUTES, functions, Chaos()).run())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(WAIT_SECONDS_MAX / 2):
                while inbox.counts().left:
                    await asyncio.sleep(0.005)
        delivering.cancel()

    asyncio.run(run())
    assert (inbox.counts().delivered, functions.begun["quick"]) == (1, attempts + 1)
