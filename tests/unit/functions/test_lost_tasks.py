"""Flows, objects, semaphores, rates, sections and batches end after a purge of their queues or a restore.

A purge loses all tasks that wait, and leaves their names taken for a day. A restore brings back the records of an
earlier time, without any task. The names are free, since the restored database has digits of its own in them.
"""

import copy
from collections.abc import Callable

import pytest

from signalbox import Function, Lease, SectionRun, critical_section, flow, objects, semaphore
from signalbox.testing import Harness

STEPS = (0, 1, 2, 3, 5, 8, 12, 16, 20, 25, 30, 40, 60)
"""Deliveries before the loss."""


class Works:
    """A function with all of them at work, on a harness. `used` and `completed` are what its tasks noted."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.used: set[int] = set()
        self.rebuilt: set[int] = set()
        self.completed: list[str] = []
        app = Function("works")

        @app.object
        class Ledger:
            sum: int = 0

            def add(self, amount: int) -> int:
                self.sum += amount
                return self.sum

        @app.task
        def charge(amount: int) -> int:
            return amount

        @app.task
        def use(lease: Lease, n: int) -> None:
            self.used.add(n)

        @app.task
        def rebuild(run: SectionRun, n: int) -> None:
            self.rebuilt.add(n)

        @app.task
        def paint(n: int) -> int:
            return n

        @app.task
        def announce() -> None:
            self.completed.append("b")

        @app.flow
        async def order(amount: int) -> int:
            paid: int = await flow.step(charge.call(amount=amount))
            await flow.sleep(600)
            booked: int = await objects("Ledger", "flow").add(amount=paid)
            await flow.rate("r")
            async with flow.lock("s"):
                again: int = await flow.step(charge.call(amount=1))
            return booked + again

        harness.add(app)
        harness.put("semaphores/s", json={"permits": 1, "lease_seconds": 60})
        harness.put("rates/r", json={"per_minute": 60, "burst": 1})
        order.start("o", amount=5)
        for amount in (1, 2, 3):
            objects("Ledger", "posted").add(amount=amount)
        for n in range(3):
            semaphore("s").wait(use.call(n=n), release_on_return=True)
        for n in range(2):
            critical_section("index").run(rebuild.call(n=n))
        critical_section("later").run(rebuild.call(n=2), debounce_seconds=600)
        call = {"function": "works", "payload": {}}
        body = {"task": call | {"task": "paint"}, "sealed": True}
        units = [{"n": n} for n in range(5)]
        harness.post("batches", json={"id": "b", **body, "units": units, "on_complete": call | {"task": "announce"}})
        harness.post("batches", json={"id": "rated", **body, "units": units[:2], "rate": "r"})

    def deliver(self, count: int) -> None:
        for _ in range(count):
            if not self.harness.tasks:
                return
            if not self.harness.queue.due():
                self.harness.queue.advance_to_next()
            self.harness.deliver_task(self.harness.queue.due()[0])

    def days_later(self) -> None:
        """Let three days pass, in which the sweeper runs once an hour, and the names of purged tasks become free."""
        for hour in range(72):
            if hour in (24, 48):
                self.harness.queue.names.intersection_update(task.name for task in self.harness.tasks)
            self.harness.advance(3_600)
            self.harness.run_schedule("sweep")
            self.harness.run(due_only=True)

    def check(self) -> None:
        """Check that all have ended, each with its result."""
        get = self.harness.get
        assert get("works/flows/order/o").json["result"] == 6
        assert get("works/objects/Ledger/posted").json["waiting"] == 0
        assert self.used == self.rebuilt == {0, 1, 2}
        assert [get(f"batches/{id_}").json["state"] for id_ in ("b", "rated")] == ["completed"] * 2
        assert self.completed


def purge(works: Works) -> None:
    works.harness.tasks.clear()


def restore(works: Works) -> None:
    """Continue after a backup, and restore it. What ran since counts as if it had not."""
    store, used, completed = works.harness.store, set(works.used), list(works.completed)
    rebuilt = set(works.rebuilt)
    backup = copy.deepcopy(store._collections)
    works.deliver(25)
    works.harness.tasks.clear()
    works.harness.queue.names.clear()
    store._collections, works.used, works.completed, works.rebuilt = backup, used, completed, rebuilt


@pytest.mark.parametrize("steps", STEPS)
@pytest.mark.parametrize("loss", [purge, restore])
def test_everything_ends_after_a_loss_of_all_tasks(steps: int, loss: Callable[[Works], None]) -> None:
    with Harness() as harness:
        works = Works(harness)
        works.deliver(steps)
        loss(works)
        works.days_later()
        works.check()


@pytest.mark.parametrize("loss", [purge, restore])
def test_a_completion_that_is_lost_runs(loss: Callable[[Works], None]) -> None:
    with Harness() as harness:
        works = Works(harness)
        while not any(task.task == "announce" for task in harness.tasks):
            works.deliver(1)
        loss(works)
        assert works.completed == []
        works.days_later()
        works.check()
        assert harness.ids("completions") == []
