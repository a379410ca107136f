"""The delivering half: deliver stored events to their functions, as Eventarc does.

The processes of the functions open connections, over which they receive the events (`function_processes`): unordered,
at least once, up to `CONCURRENT_MAX` at a time (fewer while events keep coming). At most `OF_A_TRIGGER_MAX` of them are
of one trigger, so a slow function does not hold the events of the others. Without a process, events wait for one. An
event is deleted after its function has responded 2xx, so a crash in between delivers it again. With a backlog, the
newest and the oldest event are delivered alternately: a developer's latest change does not wait for a bulk load, and no
event starves. Failures are retried with exponential backoff for 24 hours after the write or the start of this process,
whichever is later: one failure does not lose an event of last week. The first backoff is 0.1 seconds instead of the
cloud's 10, because a developer waits for it.
"""

import asyncio
import functools
import heapq
import itertools
import logging
import os
import time
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import suppress

from aiohttp import web

from signalbox_tools.local.event_bridge.cloudevent import Event
from signalbox_tools.local.event_bridge.inbox import Inbox
from signalbox_tools.local.event_bridge.stored_events import StoredEvents
from signalbox_tools.local.function_channel import delivery_frame
from signalbox_tools.local.function_processes import FunctionProcesses
from signalbox_tools.local.injected_faults import Chaos
from signalbox_tools.local.loopback import programs_only

CONCURRENT_MAX = 16
OF_A_TRIGGER_MAX = 12
CONCURRENT_WHILE_RECEIVING = min(CONCURRENT_MAX, max(1, (os.cpu_count() or 1) - 1))
"""Deliveries at once while events keep coming: one fewer than the processors, but at least one. The emulator sends one
event after the other. With a separate processor it sends the events of a bulk load sooner, and then the next change."""

RECEIVING_SECONDS = 0.05
BUSY_SECONDS = 0.5  # longer deliveries do not count towards CONCURRENT_WHILE_RECEIVING, or they would block the others
POLL_SECONDS = 1.0  # for new events whose notice was lost
PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 10.0
DOUBLINGS_MAX = 7  # 0.1 s * 2**7 is above PAUSE_SECONDS_MAX, and 2.0**1024 would raise an OverflowError
KEPT_SECONDS = 24 * 3600
RELOAD_SECONDS_MAX = 30.0
ANSWER_SECONDS_MAX = 600  # as Pub/Sub: longer than a function's own time-out, which counts from when a thread begins it
USER_AGENT = "APIs-Google; (+https://developers.google.com/webmasters/APIs-Google.html)"  # of Pub/Sub, which pushes

log = logging.getLogger(__name__)


class DueEvents:
    """The events that are due, by trigger, each in the order in which they became due."""

    def __init__(self) -> None:
        self._places = itertools.count()
        self._of_triggers: defaultdict[str, deque[tuple[int, int]]] = defaultdict(deque)  # (place, event id)

    def __bool__(self) -> bool:
        return any(self._of_triggers.values())

    def add(self, event_id: int, trigger: str) -> None:
        self._of_triggers[trigger].append((next(self._places), event_id))

    def take(self, but: Collection[str], *, newest: bool) -> tuple[int, str] | None:
        """Remove the newest or the oldest event of all triggers but some. Return its id and its trigger, or None."""
        found = [(due[-1 if newest else 0], name) for name, due in self._of_triggers.items() if due and name not in but]
        if not found:
            return None
        (_, event_id), trigger = max(found) if newest else min(found)
        due = self._of_triggers[trigger]
        due.pop() if newest else due.popleft()
        return event_id, trigger


class Deliverer:
    """Delivers the events of an inbox or a store; `routes` maps each trigger to its function's address."""

    def __init__(
        self, inbox: Inbox | StoredEvents, routes: Mapping[str, str], processes: FunctionProcesses, chaos: Chaos
    ) -> None:
        self._inbox = inbox
        self._routes = routes
        self._processes = processes
        self._chaos = chaos
        self._later: list[tuple[float, int, str]] = []  # a heap of (monotonic seconds, event id, trigger)
        self._due = DueEvents()
        self._newest_next = True
        self._attempts: dict[int, int] = {}
        self._running: dict[asyncio.Task[None], tuple[float, str]] = {}  # when each began (monotonic), and its trigger
        self._started_at = time.time()
        self._last_id = 0
        self._received_at = 0.0
        self._woken = asyncio.Event()

    def application(self) -> web.Application:
        application = web.Application(middlewares=[programs_only])
        application.router.add_get("/stats", self.stats)
        application.cleanup_ctx.append(self._delivering)
        return application

    async def stats(self, _: web.Request) -> web.Response:
        """Respond with the numbers of events waiting, in delivery, and ever received, delivered and given up."""
        counts, running = self._inbox.counts(), len(self._running)
        totals = {"received": counts.received, "delivered": counts.delivered, "given_up": counts.given_up}
        return web.json_response({"waiting": max(0, counts.left - running), "running": running, **totals})

    async def run(self) -> None:
        """Deliver until cancelled."""
        with self._inbox.on_notice(self._woken.set):
            while True:
                self._woken.clear()
                try:
                    self._read_new_events()
                    self._start_due_deliveries()
                except Exception:  # such as a locked database: the next turn reads again
                    log.exception("reading events failed, retrying")
                await self._pause()

    async def _delivering(self, _: web.Application) -> AsyncIterator[None]:
        delivering = asyncio.create_task(self.run())
        yield
        delivering.cancel()

    def _may_start(self) -> bool:
        now = time.monotonic()
        busy = sum(now - started_at < BUSY_SECONDS for started_at, _ in self._running.values())
        receiving = now - self._received_at < RECEIVING_SECONDS
        return len(self._running) < CONCURRENT_MAX and not (receiving and busy >= CONCURRENT_WHILE_RECEIVING)

    def _read_new_events(self) -> None:
        for event_id, trigger in self._inbox.after(self._last_id):
            self._received_at = time.monotonic()
            heapq.heappush(self._later, (time.monotonic() + self._chaos.delay_seconds(), event_id, trigger))
            self._last_id = event_id

    def _start_due_deliveries(self) -> None:
        now = time.monotonic()
        while self._later and self._later[0][0] <= now:
            _, event_id, trigger = heapq.heappop(self._later)
            self._due.add(event_id, trigger)
        while self._may_start() and (taken := self._due.take(self._busy_triggers(), newest=self._newest_next)):
            self._newest_next = not self._newest_next
            task = asyncio.create_task(self._deliver(*taken))
            self._running[task] = (time.monotonic(), taken[1])
            task.add_done_callback(functools.partial(self._free, *taken))

    def _busy_triggers(self) -> Collection[str]:
        counts = Counter(trigger for _, trigger in self._running.values())
        return [trigger for trigger, count in counts.items() if count >= OF_A_TRIGGER_MAX]

    async def _pause(self) -> None:
        """Wait until an event arrives, a delivery ends, or the next event is due."""
        seconds = self._later[0][0] - time.monotonic() if self._later else POLL_SECONDS
        if self._due:
            seconds = min(seconds, RECEIVING_SECONDS)  # more may be delivered once no more events come
        with suppress(TimeoutError):
            async with asyncio.timeout(min(max(seconds, 0), POLL_SECONDS)):
                await self._woken.wait()

    async def _deliver(self, event_id: int, trigger: str) -> None:
        event, received_at = self._inbox.event(event_id)
        if event.trigger not in self._routes:
            await self._forget_or_wait(event_id, trigger, received_at)
        elif await self._accepted(event):
            if self._chaos.delivers_again():
                await self._accepted(event)
            await self._inbox.forget(event_id)
            self._attempts.pop(event_id, None)
        elif time.time() - max(received_at, self._started_at) > KEPT_SECONDS:
            log.error("event given up after 24 hours: %s", event.headers)
            await self._inbox.give_up(event_id)
            self._attempts.pop(event_id, None)
        else:
            self._retry(event_id, trigger)

    async def _forget_or_wait(self, event_id: int, trigger: str, received_at: float) -> None:
        """Drop an event whose trigger the catalogue no longer has, as the cloud does.

        The trigger of a newer event may be one that a reload adds: the functions of the new catalogue write before this
        process is restarted with it.
        """
        if received_at < self._started_at or time.time() - received_at > RELOAD_SECONDS_MAX:
            await self._inbox.forget(event_id)
        else:
            self._retry(event_id, trigger)

    async def _accepted(self, event: Event) -> bool:
        sent = delivery_frame(
            "POST", self._routes[event.trigger], {"User-Agent": USER_AGENT, **event.headers}, event.body
        )
        try:
            response = await self._processes.deliver(sent, ANSWER_SECONDS_MAX)
        except OSError:  # the time-out has passed, or the connection has ended
            return False
        return response is not None and 200 <= response[0] < 300

    def _retry(self, event_id: int, trigger: str) -> None:
        attempts = self._attempts[event_id] = self._attempts.get(event_id, 0) + 1
        pause = min(PAUSE_SECONDS_MIN * 2.0 ** min(attempts - 1, DOUBLINGS_MAX), PAUSE_SECONDS_MAX)
        heapq.heappush(self._later, (time.monotonic() + pause, event_id, trigger))

    def _free(self, event_id: int, trigger: str, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._woken.set()
        if not task.cancelled() and (error := task.exception()):
            log.error("delivery of event %d failed, retrying", event_id, exc_info=error)
            self._retry(event_id, trigger)
