"""Records that will enqueue tasks for a function are found as long as they can, and not when their work has ended."""

from collections.abc import Callable
from typing import Any

import pytest

from signalbox import Function, Lease, critical_section, flow, objects, rate, semaphore
from signalbox.core.effects import Effect
from signalbox.testing import Harness
from signalbox_tools.deploy import recorded_tasks
from signalbox_tools.deploy.recorded_tasks import Removal, TooMany

app = Function("works")
RAN: list[str] = []


@app.object
class Ledger:
    sum: int = 0

    def add(self, amount: int) -> int:
        RAN.append("Ledger")
        self.sum += amount
        return self.sum


@app.task
def use(lease: Lease, n: int) -> None:
    RAN.append("use")


@app.task
def paint(n: int) -> int:
    RAN.append("paint")
    return n


@app.flow
async def order() -> None:
    await flow.sleep(600)
    RAN.append("order")


@app.task
def praise(standing: dict[str, Any]) -> None:
    RAN.append("praise")


REMOVED = Removal({"works"}, {}, {})
OTHER = Removal({"other"}, {"Ledger": "works"}, {"order": "works"})


def five_waiters(harness: Harness) -> None:
    harness.put("semaphores/s", json={"permits": 1, "lease_seconds": 60})
    for n in range(6):  # the first one is granted
        semaphore("s").wait(use.call(n=n), release_on_return=True)


def waiters_of_a_lane(harness: Harness) -> None:
    harness.put("semaphores/s", json={"permits": 1, "lease_seconds": 60})
    for n in range(3):
        semaphore("s").wait(use.call(n=n), release_on_return=True, key="lane")


def waits_of_a_rate(harness: Harness) -> None:
    rate("r").ensure(per_minute=1, burst=1)
    for n in range(3):
        rate("r").wait(paint.call(n=n))


def runs_of_a_section(harness: Harness) -> None:
    critical_section("k").run(paint.call(n=1))
    critical_section("k").run(paint.call(n=2))


def an_open_batch(harness: Harness) -> None:
    harness.post("batches", json={"id": "b", "units": [{"n": 1}], "task": {"function": "works", "task": "paint"}})


def a_sealed_batch(harness: Harness) -> None:
    call = {"function": "works", "task": "paint"}
    harness.post("batches", json={"id": "b", "units": [{"n": n} for n in range(5)], "task": call, "sealed": True})


def sealed(harness: Harness) -> None:
    assert harness.post("batches/b/seal", json={"pages": 1}).status == 200


def a_flow_with_a_timer(harness: Harness) -> None:
    order.start("o")
    harness.run(due_only=True)


def a_threshold(harness: Harness) -> None:
    call = {"function": "works", "task": "praise", "payload": {}}
    threshold = {"field": "count", "reaches": 3, "continuation": call}
    assert harness.put("standings/item", json={"by": ["item"], "on_threshold": [threshold]}).status == 200


def not_declared(harness: Harness) -> None:
    assert harness.put("standings/item", json={"by": ["item"]}).status == 200


def a_mailbox(harness: Harness) -> None:
    for amount in (1, 2, 3):
        objects("Ledger", "a").add(amount=amount)


def a_record_of_the_outbox(harness: Harness) -> None:
    task = Effect("name", "tasks", "works", "paint", {"n": 1}, "/tasks/paint")
    harness.write_record("outbox/o", {"tasks": [task.to_record()]})


def a_completion(harness: Harness) -> None:
    task = Effect("name", "tasks", "works", "paint", {"n": 1}, "/tasks/paint")
    harness.write_record("completions/b", {"due_at": harness.clock.now, "task": task.to_record()})


def without_completion(harness: Harness) -> None:
    harness.write_record("completions/b", None)


def swept(harness: Harness) -> None:
    for _ in range(3):
        harness.advance(4_000)
        harness.run_schedule("sweep")


def nothing(harness: Harness) -> None: ...


@pytest.mark.parametrize(
    ("begin", "then", "line"),
    [
        (five_waiters, nothing, "semaphores/s: 5 records that wait"),
        (waiters_of_a_lane, nothing, "semaphores/s: 2 records that wait"),
        (waits_of_a_rate, nothing, "rates/r: 3 records that wait"),
        (runs_of_a_section, nothing, "critical_sections: 1 record with a run that is pending"),
        (an_open_batch, sealed, "batches/b: open"),
        (a_sealed_batch, nothing, "batches/b: sealed"),
        (a_flow_with_a_timer, nothing, "flows/order~o: running"),
        (
            a_threshold,
            not_declared,
            "standings: 1 record whose thresholds enqueue tasks; declare them without these thresholds",
        ),
        (a_mailbox, nothing, "objects/Ledger~a: 3 records that wait"),
        (a_record_of_the_outbox, swept, "outbox: 1 record with tasks that are not enqueued yet"),
        (a_completion, without_completion, "completions: 1 record of batches"),
    ],
)
def test_work_is_found_until_it_has_ended(
    begin: Callable[[Harness], None], then: Callable[[Harness], None], line: str
) -> None:
    with Harness() as harness:
        harness.add(app)
        begin(harness)
        assert recorded_tasks.found(harness.ports.store, REMOVED) == [line]
        assert recorded_tasks.found(harness.ports.store, OTHER) == []
        then(harness)
        harness.run()
        assert recorded_tasks.found(harness.ports.store, REMOVED) == []


def test_the_task_that_a_flow_enqueues_at_its_end_is_found() -> None:
    """The flow's own function remains, and the run lasts ten minutes more."""
    with Harness() as harness:
        harness.add(app)
        order.with_(on_complete=paint.call(n=1)).start("o")
        harness.run(due_only=True)
        kept = Removal({"works"}, {}, {"order": "remains"})
        assert recorded_tasks.found(harness.ports.store, kept) == ["flows/order~o: running"]
        assert recorded_tasks.found(harness.ports.store, Removal({"other"}, {}, {"order": "remains"})) == []
        harness.advance(600)
        harness.run()
        assert recorded_tasks.found(harness.ports.store, kept) == []


def test_a_class_and_a_flow_that_no_function_has_any_more_count_as_removed() -> None:
    with Harness() as harness:
        harness.add(app)
        a_mailbox(harness)
        a_flow_with_a_timer(harness)
        found = recorded_tasks.found(harness.ports.store, Removal({"works"}, {"Ledger": "moved"}, {"order": "moved"}))
        assert found == [], "another function has the code now"


def a_document(harness: Harness) -> None:
    harness.put("documents/d", json={"a": 1})


def without_the_document(harness: Harness) -> None:
    harness.delete("documents/d")


def a_yoke(harness: Harness) -> None:
    assert harness.put("yokes/ann/tea", json={}).status < 300


def without_the_yoke(harness: Harness) -> None:
    harness.delete("yokes/ann/tea")


@pytest.mark.parametrize(
    ("part", "begin", "then", "line"),
    [
        ("semaphores", five_waiters, nothing, "semaphores/s: 5 records that wait"),
        ("semaphores", waits_of_a_rate, nothing, "rates/r: 3 records that wait"),
        ("semaphores", runs_of_a_section, nothing, "critical_sections: 1 record with a run that is pending"),
        ("batches", a_sealed_batch, nothing, "batches/b: sealed"),
        ("flows", a_flow_with_a_timer, nothing, "flows/order~o: running"),
        ("objects", a_mailbox, nothing, "objects/Ledger~a: 3 records that wait"),
        ("sweep", a_record_of_the_outbox, swept, "outbox: 1 record with tasks that are not enqueued yet"),
        (
            "documents",
            a_document,
            without_the_document,
            "documents: 1, whose copies would no longer be refreshed",
        ),
        ("standings", a_yoke, without_the_yoke, "yokes: 1, which would no longer be counted"),
    ],
)
def test_a_part_is_needed_as_long_as_it_has_work(
    part: str, begin: Callable[[Harness], None], then: Callable[[Harness], None], line: str
) -> None:
    removed = Removal((), {"Ledger": "works"}, {"order": "works"}, {part})
    with Harness() as harness:
        harness.add(app)
        begin(harness)
        assert recorded_tasks.found(harness.ports.store, removed) == [line]
        then(harness)
        harness.run()
        assert recorded_tasks.found(harness.ports.store, removed) == []


def test_more_records_than_are_read_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded_tasks, "RECORDS_MAX", 4)
    monkeypatch.setattr(recorded_tasks, "PAGE", 2)
    with Harness() as harness:
        harness.add(app)
        task = Effect("name", "tasks", "works", "paint", {"n": 1}, "/tasks/paint").to_record()
        for n in range(3):
            harness.write_record(f"outbox/o{n}", {"tasks": [task]})
        assert recorded_tasks.found(harness.ports.store, REMOVED)[0].startswith("outbox: 3 records"), "two pages"
        harness.write_record("outbox/p", {"tasks": [task]})
        with pytest.raises(TooMany, match="outbox has more than 4 records"):
            recorded_tasks.found(harness.ports.store, REMOVED)


def test_after_a_purge_no_code_runs_again_of_which_no_record_was_found() -> None:
    with Harness() as harness:
        harness.add(app)
        for begin in (a_flow_with_a_timer, five_waiters, a_sealed_batch, a_mailbox):
            begin(harness)
        harness.tasks.clear()
        RAN.clear()
        for _ in range(30):
            found, before = recorded_tasks.found(harness.ports.store, REMOVED), len(RAN)
            harness.advance(4_000)
            harness.queue.names.clear()
            harness.run_schedule("sweep")
            harness.run(due_only=True)
            assert found or len(RAN) == before
        assert {"Ledger", "order", "paint", "use"} == set(RAN)
        assert recorded_tasks.found(harness.ports.store, REMOVED) == []
