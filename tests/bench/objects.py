"""Measure calls of durable objects on a local stack, compared with three other implementations.

python -m tests.bench.objects --calls 1000 --waiting 10000

Each line: calls a second until all have their result, and how long one takes, its result included, for half and for 99
of 100. A bare loop reads a record, adds one and writes it under its guard: no order, no receipt, and a lost answer
counts twice. Microsoft's `durabletask` (pip install --no-deps durabletask; left out if it is not there) runs its
entities on its in-memory backend, which keeps nothing; its calls are signals, which have no result. Restate (how to get
it: `tests/bench/restate_server.py`; left out likewise) is a server that runs permanently. `drained`: calls that wait
for one object, on the stack's own queue and functions, woken by one more. Numbers of a laptop compare with each other,
not with the cloud; the ratio is to the bare loop of one caller in the same run.
"""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from statistics import quantiles

from signalbox.adapters.grouped_requests import Gathering
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.effects import Decision, Effect
from signalbox.core.perform import Writes, perform
from signalbox.core.ports import Ports, Put, Snapshot, unlimited
from signalbox.core.problems import Unavailable
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.storage import message_put
from signalbox.objects import service
from signalbox.objects.machine.classes import ObjectClass
from signalbox.objects.model import CallPlace, CallRecord, Message, method_call
from signalbox.objects.service import Code
from signalbox.testing.recorded_log import RecordedLog
from tests.bench import durable_entities, restate_server
from tests.bench.bench_stack import SEED_PAGE, Stage, staged
from tests.bench.due_tasks import DueTasks
from tests.bench.figures import Figure

CALLERS = 16
WORKERS = 4
TRIES_MAX = 1_000
RESULT_SECONDS_MAX = 600.0
DRAIN_SECONDS_MAX = 3_600.0


class Counter:
    """What is called: the least that an object can do."""

    total: int = 0

    def add(self) -> int:
        self.total += 1
        return self.total


GATHERING = Gathering[Message, CallRecord](MAILBOXES_LIMITS.mailbox_page)
CODE = Code("counters", ObjectClass.from_class(Counter).apply, lambda _: "counters")
Act = Callable[[Ports, str, str], None]
"""Call the object of a key under an id, and wait for the result."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Calls by so many callers on so many objects: seconds in all, and of each call."""

    what: str
    callers: int
    objects: int
    seconds: float
    each: tuple[float, ...] = ()
    calls: int = 0

    @property
    def rate(self) -> float:
        """Calls a second."""
        return (len(self.each) or self.calls) / self.seconds

    def line(self, base: float) -> str:
        """Return the line of the table, with the ratio to `base` calls a second."""
        centiles = [f"{quantiles(self.each, n=100)[place] * 1000:>8,.0f} ms" for place in (49, 98)] if self.each else []
        numbers = (
            f"{self.callers:>3} callers {self.objects:>6} objects {self.rate:>8,.0f}/s  x {self.rate / base:<5.2f}"
        )
        return f"{self.what:<12}{numbers}" + "".join(centiles)


def bare(ports: Ports, key: str, _: str) -> None:
    """Read a record, add one, and write it under its guard, until that lands."""

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, None]:
        total = (read[0].data or {"total": 0})["total"] + 1
        return Decision((Put(f"bare/{key}", {"total": total}, read[0].guard),), None)

    for _try in range(TRIES_MAX):
        try:
            perform(ports, [f"bare/{key}"], decide)
        except Unavailable:
            continue
        return
    raise TimeoutError("a call never got through")


def called(ports: Ports, key: str, id_: str) -> None:
    """Call an object; the call runs at once if no other call waits."""
    place = CallPlace(ObjectAddress("Counter", key), id_)
    handle = partial(service.call_together, ports, CODE, place.address, budget=unlimited)
    call = GATHERING.answer(place.address, id_, method_call("add", {}), handle)
    call = service.wait_for_posted(ports, place, call, RESULT_SECONDS_MAX)
    assert call.outcome, "a call has no result"


def turn(ports: Ports, task: Effect, deliveries: int) -> None:
    """Run a wake-up."""
    service.run(ports, CODE, Delivery(WakeUp.from_payload(task.payload), task.name, deliveries), lambda: lambda: False)


def measure(stage: Stage, what: str, act: Act, calls_count: int, callers: int, objects: int) -> Measured:
    """Make calls, and check that each object has counted each of its calls once."""
    queue, ids = DueTasks(turn, WORKERS), count()
    ports = Ports(stage.store, queue, SystemClock(), RecordedLog())
    with stage.events_held():
        stage.clear()
        queue.start(ports)
        measured = timed(what, lambda key: act(ports, key, f"c{next(ids)}"), calls_count, callers, objects)
        queue.stop()
        assert act is bare or _totals(stage, objects) == calls_count, "a call was lost, or counted twice"
        stage.clear()
    return measured


def timed(what: str, call: Callable[[str], object], calls_count: int, callers: int, objects: int) -> Measured:
    """Call objects by their keys."""

    def one(number: int) -> float:
        began = time.monotonic()
        call(f"o{number % objects}")
        return time.monotonic() - began

    began = time.monotonic()
    with ThreadPoolExecutor(callers) as pool:
        each = tuple(pool.map(one, range(calls_count)))
    return Measured(what, callers, objects, time.monotonic() - began, each)


def _totals(stage: Stage, objects: int) -> int:
    headers = stage.store.read(*(f"objects/Counter~o{number}/mailbox/!" for number in range(objects)))
    return sum(json.loads(each.data["state"])["fields"]["total"] for each in headers if each.data)


def drained(stage: Stage, waiting: int) -> Measured:
    """Post calls for an account of the example that wait, and wake its run by one more."""
    account = ObjectAddress("Account", f"drained-{time.time_ns()}")
    message = method_call("deposit", {"amount": 1}).to_record()
    writes = [message_put(account.base, f"c{number}", message) for number in range(waiting)]
    for first in range(0, waiting, SEED_PAGE):
        stage.store.write_each(writes[first : first + SEED_PAGE])
    path = f"accounts/objects/Account/{account.key}"
    began = time.monotonic()
    stage.http.post(f"{path}/deposit?wait_seconds=0", json={"amount": 1}).raise_for_status()
    while stage.http.get(path).json()["waiting"]:
        assert time.monotonic() < began + DRAIN_SECONDS_MAX, "the calls are not applied"
        time.sleep(0.5)
    seconds = time.monotonic() - began
    balance = stage.http.post(f"{path}/show", json={}).json()["result"]
    assert balance == waiting + 1, "a call was lost, or counted twice"
    return Measured("drained", 0, 1, seconds, calls=waiting + 1)


def restated(calls_count: int, callers: int, objects: int) -> Measured:
    """Call virtual objects of Restate, and check that they have counted."""
    with restate_server.serving("restate_counter.mjs") as call:
        assert call("Counter", "warm-up", "add") == 1
        measured = timed("restate", lambda key: call("Counter", key, "add"), calls_count, callers, objects)
        assert sum(call("Counter", f"o{number}", "show") for number in range(objects)) == calls_count
    return measured


def lines(stage: Stage, calls_count: int, waiting: int) -> Iterator[str]:
    """Measure each way with one caller and with many, on one object and on many; iterate over the lines."""
    many = max(1, calls_count // 10)
    measure(stage, "warm up", called, 5, 1, 1)
    first = measure(stage, "bare loop", bare, calls_count // 4 or 1, 1, 1)
    yield f"{first.line(first.rate)}  (p50, p99)"
    contended, spread = (measure(stage, "bare loop", bare, calls_count, CALLERS, objects) for objects in (1, many))
    yield from (contended.line(first.rate), spread.line(first.rate))
    alone = measure(stage, "objects", called, calls_count // 4 or 1, 1, 1)
    together, on_many = (measure(stage, "objects", called, calls_count, CALLERS, objects) for objects in (1, many))
    yield from (each.line(first.rate) for each in (alone, together, on_many))
    yield Figure("calls by one caller", alone.rate, "calls/s", "a bare loop", first.rate).line()
    what = f"calls by {CALLERS} callers"
    yield Figure(what, together.rate, "calls/s", "a bare loop with as many callers", contended.rate).line()
    yield drained(stage, waiting).line(first.rate)
    for what, own, callers, objects in (
        ("calls by one caller", alone, 1, 1),
        (f"calls by {CALLERS} callers", together, CALLERS, 1),
        (f"calls by {CALLERS} callers of {many:,} objects", on_many, CALLERS, many),
    ):
        if restate_server.are_installed():
            theirs = restated(calls_count if callers > 1 else calls_count // 4 or 1, callers, objects)
            yield theirs.line(first.rate)
            yield Figure(what, own.rate, "calls/s", "Restate", theirs.rate).line()
    for objects in (1, many) if durable_entities.are_installed() else ():
        seconds = durable_entities.signalled(calls_count, CALLERS, objects)
        yield Measured("durabletask", CALLERS, objects, seconds, calls=calls_count).line(first.rate)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.objects", description=__doc__.splitlines()[0])
    parser.add_argument("--calls", type=int, default=1_000, help="of each measurement (default: %(default)s)")
    parser.add_argument("--waiting", type=int, default=10_000, help="calls that are drained (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        for line in lines(stage, chosen.calls, chosen.waiting):
            print(line, flush=True)  # noqa: T201  a bench prints
    return 0


if __name__ == "__main__":
    sys.exit(main())
