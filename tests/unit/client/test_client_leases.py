"""Leases of clients in a simulated network: an independent model of the server knows who holds the permit at each time.

Answers are late or lost, requests are lost, and the caller is cancelled at each step of the event loop (or, if it
blocks, gets Ctrl-C at each line). Time is simulated, so the worlds take milliseconds.
"""

import asyncio
import contextlib
import json
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from types import FrameType
from typing import Any

import httpx
import pytest

from signalbox.client import AsyncClient, Client, LeaseLost, NotFound, Unavailable
from signalbox.client.aio import semaphores, transport
from signalbox.client.blocking import semaphores as blocking_semaphores
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.problems import NoSemaphore

URL = "http://127.0.0.1:1/"


class Loop(asyncio.SelectorEventLoop):
    """An event loop whose time is that of the next timer: it never waits."""

    def __init__(self, each_round: Callable[[int], None] = lambda _: None) -> None:
        super().__init__()
        self.now, self.rounds, self.each_round = 0.0, 0, each_round

    def time(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def _run_once(self) -> None:
        loop: Any = self  # its queues have no declared types
        if loop._scheduled and not loop._ready:
            self.now = max(self.now, loop._scheduled[0]._when)
        self.each_round(self.rounds)
        self.rounds += 1
        super()._run_once()  # type: ignore[misc]  # as above


@dataclass
class Server:
    """A semaphore: leases by the id of their wait, each with its end, and ids whose lease was released."""

    lease_seconds: float = 600
    permits: int = 1
    leases: dict[str, float] = field(default_factory=dict)
    ended: set[str] = field(default_factory=set)
    is_deleted: bool = False

    def delete(self) -> None:
        """Delete the semaphore, and its leases with it."""
        self.is_deleted, self.ended = True, self.ended | self.leases.keys()

    def live(self, now: float) -> list[str]:
        return [id_ for id_, end in self.leases.items() if now < end and id_ not in self.ended]

    def answer(self, request: httpx.Request, now: float) -> dict[str, Any]:
        """Answer a request, without waiting for permits."""
        kind = request.url.path.strip("/").partition("/")[0]
        if kind == "semaphores":
            return {"lease_seconds": self.lease_seconds}
        body = json.loads(request.content)
        seconds = body.get("lease_seconds") or self.lease_seconds
        if kind == "semaphore-wait":
            return self._acquired(body["id"], seconds, now)
        id_, is_live = body["lease"], body["lease"] in self.live(now)
        if kind == "semaphore-renew":
            self.leases[id_] = now + seconds if is_live else self.leases[id_]
            return {"renewed": is_live}
        self.ended.add(id_)
        return {"released": is_live}

    def _acquired(self, id_: str, seconds: float, now: float) -> dict[str, Any]:
        if id_ not in self.leases and id_ not in self.ended and len(self.live(now)) < self.permits:
            self.leases[id_] = now + seconds
        if id_ not in self.live(now):
            return {"acquired": False}
        return {"acquired": True, "lease": {"id": id_, "token": 1, "ends_at": ""}}


@dataclass
class Network(httpx.AsyncBaseTransport):
    """Carries requests to a server, which goes on with a request that its client has left.

    ``delays``: of the request and of the answer, in seconds. ``is_lost``: whether the next message gets lost.
    """

    server: Server
    delays: Callable[[], float] = lambda: 0.1
    answer_delays: Callable[[], float] = lambda: 0.0
    is_lost: Callable[[], bool] = lambda: False
    served: list[asyncio.Task[httpx.Response]] = field(default_factory=list)
    refused: set[str] = field(default_factory=set)
    refusals: int = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        task = asyncio.create_task(self._served(request))
        self.served.append(task)
        await asyncio.wait([task], timeout=request.extensions["timeout"]["read"])
        if not task.done():
            raise httpx.ReadTimeout("no answer in time")
        return task.result()

    async def _served(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(self.delays())
        if self.is_lost():
            raise httpx.ReadError("the request is lost")
        if self.refusals and self.server.leases:
            self.refusals -= 1
            return httpx.Response(403, json={"title": "Forbidden"})
        if request.method in self.refused:
            return httpx.Response(403, json={"title": "Forbidden"})
        if self.server.is_deleted:
            return httpx.Response(404, json={"type": f"urn:signalbox:problem:{NoSemaphore.slug()}"})
        loop, wait_seconds = asyncio.get_running_loop(), float(request.url.params.get("wait_seconds", 0))
        if wait_seconds > LIMITS.acquire_wait_seconds_max:
            return httpx.Response(400, json={"title": "Bad semaphore"})
        until = loop.time() + wait_seconds
        while (answer := self.server.answer(request, loop.time())).get("acquired") is False and loop.time() < until:
            await asyncio.sleep(0.25)
        await asyncio.sleep(self.delays() + self.answer_delays())
        if self.is_lost():
            raise httpx.ReadError("the answer is lost")
        return httpx.Response(200, json=answer)

    async def at_rest(self) -> None:
        """Wait until the server has handled all that it received."""
        while running := [task for task in self.served if not task.done()]:
            await asyncio.wait(running)
        for task in self.served:
            task.exception()


@contextlib.contextmanager
def running(loop: Loop, seed: int = 0) -> Iterator[asyncio.Runner]:
    with pytest.MonkeyPatch.context() as patch, asyncio.Runner(loop_factory=lambda: loop) as runner:
        patch.setattr(semaphores, "lease_clock", loop)
        patch.setattr(transport, "time", loop)
        patch.setattr(transport, "random", random.Random(seed))
        yield runner


def client_of(network: Network, **options: Any) -> AsyncClient:
    return AsyncClient(URL, transport=network, **options)


# --- a lease is believed only while it is held ---


@pytest.mark.parametrize("late", [0.5, 1.4, 2.8, 4.0])
def test_a_lease_whose_answer_is_late_ends_for_the_client_no_later_than_at_the_server(late: float) -> None:
    loop, server = Loop(), Server(lease_seconds=3)
    delays = iter([0.0, 0.0, 0.0, late])

    async def hold() -> list[tuple[bool, bool]]:
        seen = []
        network = Network(server, lambda: next(delays, 0.0))
        async with client_of(network) as client:
            with contextlib.suppress(LeaseLost):
                async with client.semaphore("till").lease(timeout_seconds=60) as held:
                    network.delays = lambda: 9.0  # no renewal is answered in time
                    for _ in range(8):
                        seen.append((held.is_lost, held.id in server.live(loop.now)))
                        await asyncio.sleep(0.5)
        return seen

    with running(loop) as runner:
        seen = runner.run(hold())
    assert all(is_lost or is_live for is_lost, is_live in seen)
    assert (True, False) in seen or (late > 3 and not seen)


def test_a_lease_that_ended_before_its_answer_came_does_not_begin_the_block() -> None:
    loop, server = Loop(), Server(lease_seconds=3)
    delays = iter([0.0, 0.0, 0.0, 4.0])
    begun = []

    async def hold() -> None:
        network = Network(server, lambda: next(delays, 0.0))
        async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=60):
            begun.append(True)

    with running(loop) as runner, pytest.raises(LeaseLost):
        runner.run(hold())
    assert begun == []


@pytest.mark.parametrize("seconds", [3, 30, 90, 120])
def test_a_lease_outlives_a_renewal_that_is_never_answered(seconds: float) -> None:
    loop, server = Loop(), Server(lease_seconds=seconds)
    network = Network(server)

    async def hold() -> None:
        async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=60):
            delays = iter([10_000.0])
            network.delays = lambda: next(delays, 0.1)
            await asyncio.sleep(2 * seconds)

    with running(loop) as runner:
        runner.run(hold())
    assert len(server.ended) == 1


def test_a_lease_that_was_released_permits_no_effect_any_more() -> None:
    loop, network = Loop(), Network(Server())

    async def hold() -> None:
        async with client_of(network) as client:
            async with client.semaphore("till").lease(timeout_seconds=60) as held:
                held.check()
            with pytest.raises(LeaseLost, match="was released"):
                held.check()

    with running(loop) as runner:
        runner.run(hold())


def test_a_lease_that_was_held_until_its_release_is_not_lost_because_the_answer_is_late() -> None:
    loop, network = Loop(), Network(Server(lease_seconds=3))

    async def hold() -> None:
        async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=60):
            network.answer_delays = lambda: 4.0

    with running(loop) as runner:
        runner.run(hold())
    assert len(network.server.ended) == 1


def test_the_error_of_a_block_is_raised_although_its_lease_cannot_be_released() -> None:
    loop, network = Loop(), Network(Server())

    async def hold() -> None:
        async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=60):
            network.is_lost = lambda: True
            raise KeyError("the block's own")

    with running(loop) as runner, pytest.raises(KeyError, match="the block's own"):
        runner.run(hold())


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="another system has another clock")
def test_a_lease_ends_while_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    server, suspended, now = Server(lease_seconds=600), [0.0], time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda clock: now(clock) + suspended[0] * (clock == time.CLOCK_BOOTTIME))
    carried = httpx.MockTransport(lambda request: httpx.Response(200, json=server.answer(request, suspended[0])))

    def hold() -> None:
        with client.semaphore("till").lease(timeout_seconds=20) as held:
            held.check()
            suspended[0] = 700.0
            was_lost.append(held.is_lost)

    was_lost: list[bool] = []
    with Client(URL, transport=carried) as client, pytest.raises(LeaseLost):
        hold()
    assert was_lost == [True]


@pytest.mark.parametrize("seconds", [0, 100, 300])
def test_the_lease_of_a_deleted_semaphore_is_lost_from_the_next_renewal_on_and_at_the_latest_at_the_end(
    seconds: float,
) -> None:
    loop, network = Loop(), Network(Server(lease_seconds=600))
    was_lost = []

    async def hold() -> None:
        async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=60) as held:
            await asyncio.sleep(1)
            network.server.delete()
            await asyncio.sleep(seconds)
            was_lost.append(held.is_lost)

    with running(loop) as runner, pytest.raises(LeaseLost):
        runner.run(hold())
    assert was_lost == [seconds > 200]


async def _work(loop: Loop, network: Network, draw: random.Random, wrong: list[str]) -> None:
    """Hold leases and look, at each step, whether the server agrees; now and then the time for all this is over."""
    async with client_of(network) as client:
        for _ in range(3):
            with contextlib.suppress(TimeoutError, LeaseLost, Unavailable):
                async with asyncio.timeout(draw.choice([0.5, 2, 5, 60])):
                    async with client.semaphore("till").lease(draw.choice([1, 30])) as held:
                        for _ in range(draw.randrange(12)):
                            if not held.is_lost and network.server.live(loop.now) != [held.id]:
                                wrong.append(f"{loop.now}: {held.id} is held by {network.server.live(loop.now)}")
                            await asyncio.sleep(draw.choice([0.0, 0.1, 0.7]))


@pytest.mark.parametrize("lease_seconds", [3, 600])
@pytest.mark.parametrize("seed", range(20))
def test_what_a_client_believes_of_its_lease_is_so_and_nothing_stays_held(seed: int, lease_seconds: float) -> None:
    loop, draw = Loop(), random.Random(seed)
    network = Network(Server(lease_seconds), lambda: draw.choice([0.0, 0.1, 1.5]), lambda: draw.choice([0.0, 0.0, 2.5]))
    network.is_lost = lambda: draw.random() < 0.05
    wrong: list[str] = []

    async def world() -> list[str]:
        await asyncio.gather(*(_work(loop, network, random.Random(f"{seed} {each}"), wrong) for each in range(3)))
        await network.at_rest()
        return network.server.live(loop.now)

    with running(loop, seed) as runner:
        held = runner.run(world())
    assert (wrong, held) == ([], [])


# --- an interrupted caller holds nothing ---


async def _hold(network: Network) -> None:
    async with client_of(network) as client, client.semaphore("till").lease(timeout_seconds=20, lease_seconds=600):
        await asyncio.sleep(0.5)


async def _acquire(network: Network) -> None:
    async with client_of(network) as client:
        till = client.semaphore("till")
        lease = await till.acquire(wait_seconds=5)
        assert lease
        network.server.ended.add(lease["id"])  # it belongs to the caller now


def _held_after_a_cancel(work: Callable[[Network], Any], network: Network, at: int) -> tuple[list[str], bool]:
    """Cancel the work in a round of the event loop. Return what the server still holds, and whether the work ended."""
    tasks: list[asyncio.Task[None]] = []

    def cancel(number: int) -> None:
        if number == at and tasks:
            tasks[0].cancel()

    async def run() -> tuple[list[str], bool]:
        tasks.append(asyncio.create_task(work(network)))
        await asyncio.wait(tasks)
        is_whole = not tasks[0].cancelled()
        await network.at_rest()
        return network.server.live(loop.now), is_whole

    loop = Loop(cancel)
    with running(loop) as runner:
        return runner.run(run())


@pytest.mark.parametrize("work", [_hold, _acquire])
@pytest.mark.parametrize("trouble", ["none", "another holder", "a lost answer", "late answers"])
def test_a_caller_that_is_cancelled_at_any_step_leaves_no_lease(work: Callable[[Network], Any], trouble: str) -> None:
    was_cancelled = []
    for at in count(1):
        network = Network(Server())
        if trouble == "another holder":
            network.server.leases["other"] = 2.0
        if trouble == "a lost answer":
            network.is_lost = partial(next, iter([False, True]), False)
        if trouble == "late answers":
            network.delays = lambda: 3.0
        held, is_whole = _held_after_a_cancel(work, network, at)
        assert {*held} <= {"other"}, f"cancelled in round {at}"
        was_cancelled.append(not is_whole)
        if at > 20 and not any(was_cancelled[-20:]):
            break
    assert sum(was_cancelled) > 5


def test_a_time_out_while_the_answer_is_late_leaves_no_lease() -> None:
    loop, network = Loop(), Network(Server(), lambda: 0.4)

    async def hold() -> list[str]:
        async with client_of(network) as client:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.5), client.semaphore("till").lease(30, lease_seconds=600):
                    pass
        return network.server.live(loop.now)

    with running(loop) as runner:
        assert runner.run(hold()) == []


def test_a_caller_that_may_not_read_the_semaphore_gets_no_lease_or_names_its_length() -> None:
    loop, network = Loop(), Network(Server(), refused={"GET"})

    async def hold(**options: Any) -> None:
        async with client_of(network) as client, client.semaphore("till").lease(30, **options):
            pass

    with running(loop) as runner:
        with pytest.raises(Exception, match="Forbidden"):
            runner.run(hold())
        assert network.server.leases == {}
        runner.run(hold(lease_seconds=60))
        assert len(network.server.ended) == 1


def test_an_acquire_that_gets_no_answer_in_time_is_released() -> None:
    loop, network = Loop(), Network(Server())

    async def acquire() -> list[str]:
        network.is_lost = lambda: bool(network.server.leases) and loop.now < 2.0
        async with client_of(network, retry_seconds=2) as client:
            with contextlib.suppress(Unavailable):
                await client.semaphore("till").acquire()
            granted = dict(network.server.leases)
        assert granted
        return network.server.live(loop.now)

    with running(loop) as runner:
        assert runner.run(acquire()) == []


def test_an_acquire_whose_repeat_is_refused_is_released_if_an_answer_was_lost() -> None:
    loop, network = Loop(), Network(Server())
    lost = iter([False, True])  # the request arrives

    async def acquire() -> list[str]:
        async with client_of(network) as client:
            network.is_lost = lambda: next(lost, False)
            network.refusals = 1
            with pytest.raises(Exception, match="Forbidden"):
                await client.semaphore("till").acquire()
            assert network.server.leases
        return network.server.live(loop.now)

    with running(loop) as runner:
        assert runner.run(acquire()) == []


def test_an_acquire_of_the_longest_wait_is_released_if_it_is_interrupted() -> None:
    loop, network = Loop(), Network(Server(leases={"other": 20.0}))

    async def acquire() -> list[str]:
        async with client_of(network) as client:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(10):
                    await client.semaphore("till").acquire(wait_seconds=LIMITS.acquire_wait_seconds_max)
        await network.at_rest()
        return network.server.live(loop.now)

    with running(loop) as runner:
        assert runner.run(acquire()) == []


def test_an_acquire_under_an_id_of_the_caller_is_the_caller_s_to_repeat() -> None:
    loop, network = Loop(), Network(Server(), lambda: 3.0)

    async def acquire() -> list[str]:
        async with client_of(network) as client:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(4):
                    await client.semaphore("till").acquire(id="mine")
        return network.server.live(loop.now)

    with running(loop) as runner:
        assert runner.run(acquire()) == ["mine"]


def test_a_refused_acquire_is_not_sent_again() -> None:
    sent = []

    def refuse(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        return httpx.Response(404, json={"title": "No semaphore"})

    with Client(URL, transport=httpx.MockTransport(refuse)) as client:
        with pytest.raises(NotFound):
            client.semaphore("till").acquire()
        with pytest.raises(NotFound), client.semaphore("till").lease(1, lease_seconds=5):
            pass
    assert len(sent) == 2


# --- code that blocks ---


def _interrupted_at(line: int, work: Callable[[], None]) -> bool:
    """Run with a KeyboardInterrupt before the line of this number, of those that the client's module runs."""
    numbers = count()

    def local(frame: FrameType, event: str, argument: Any) -> Any:
        if event == "line" and next(numbers) == line:
            raise KeyboardInterrupt
        return local

    def tracer(frame: FrameType, event: str, argument: Any) -> Any:
        return local if frame.f_code.co_filename == blocking_semaphores.__file__ else None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


def _hold_blocking(client: Client) -> None:
    with client.semaphore("till").lease(timeout_seconds=20, lease_seconds=600) as held:
        assert not held.is_lost


def _renewing() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if "(_loop)" in each.name]


def test_ctrl_c_at_any_line_of_the_client_leaves_no_lease_and_no_thread() -> None:
    for line in count():
        server = Server()
        carried = httpx.MockTransport(lambda request: httpx.Response(200, json=server.answer(request, 0.0)))  # noqa: B023 (called in this round)
        with Client(URL, transport=carried) as client:
            was_interrupted = _interrupted_at(line, partial(_hold_blocking, client))
        assert server.live(0.0) == [], f"interrupted before line {line}"
        assert _renewing() == [], f"interrupted before line {line}"
        if not was_interrupted:
            break
    assert line > 30


@pytest.mark.parametrize("request_of", ["semaphore-wait", "semaphore-signal"])
def test_ctrl_c_during_a_request_leaves_no_lease(request_of: str) -> None:
    server, interrupts = Server(), [True]

    def carry(request: httpx.Request) -> httpx.Response:
        answer = server.answer(request, 0.0)
        if request_of in request.url.path and interrupts and interrupts.pop():
            raise KeyboardInterrupt
        return httpx.Response(200, json=answer)

    with Client(URL, transport=httpx.MockTransport(carry)) as client, contextlib.suppress(KeyboardInterrupt):
        _hold_blocking(client)
    assert server.live(0.0) == []
