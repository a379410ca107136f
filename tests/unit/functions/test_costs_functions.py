"""What the kit's own part of a user's task costs, as every handled call logs it."""

from collections.abc import Callable

import pytest

from signalbox import DocumentEvent, Function, Lease, Unit, batch, semaphore
from signalbox.adapters.cost_meter import Cost
from signalbox.core.effects import Effect
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import FIGURES, row_cost


@pytest.fixture(autouse=True)
def kitchen(harness: Harness) -> None:
    app = Function("kitchen")

    @app.task
    def taste(unit: Unit) -> int:
        return unit.index

    @app.task
    def stir(lease: Lease) -> None: ...

    @app.task
    def rinse(broken: bool) -> None:
        if broken:
            raise RuntimeError

    harness.add(app)
    batch("menu").populate(taste.call() for _ in range(10))
    semaphore("stove").ensure(permits=1)
    semaphore("stove").wait(stir.call(), release_on_return=True)


def costs(harness: Harness, task: str) -> list[Cost]:
    """Deliver everything, and return what each task of that name has cost."""
    found = []
    while harness.tasks:
        delivery = harness.deliver_task(harness.tasks[0])
        assert delivery.status == 204
        if delivery.what == f"kitchen/{task}":
            found.append(delivery.cost)
    return found


def test_a_unit_costs_one_round_trip_and_two_writes_and_its_batch_is_looked_up_once(harness: Harness) -> None:
    first, *others, last = costs(harness, "taste")
    assert first == Cost(round_trips=2, reads=1, writes=2)
    assert all(other == Cost(round_trips=1, writes=2) for other in others)
    assert last.round_trips > others[0].round_trips, "whoever fills a counter increments its parent"


def test_a_continuation_costs_a_claim_and_a_signal(harness: Harness) -> None:
    assert costs(harness, "stir") == [Cost(round_trips=4, reads=2, writes=2, deletes=1)]


def test_an_event_costs_an_enqueue_under_an_id_and_its_second_delivery_a_read(harness: Harness) -> None:
    app = Function("parcels")

    @app.on_document("parcels/{id}")
    def noted(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        assert event.key == id

    harness.add(app)
    harness.write_record("parcels/7", {"n": 1})
    [event] = harness.events
    assert [each.cost for each in harness.deliver_event(event)] == [row_cost("tasks", "event")]
    assert [each.cost for each in harness.deliver_event(event)] == [row_cost("tasks", "event_again")]
    assert harness.deliver_task(harness.take("noted")).cost == row_cost("tasks", "first")


def test_the_order_of_a_documents_events_costs_a_begin_and_an_end(harness: Harness) -> None:
    app = Function("parcels")

    @app.on_document("parcels/{id}", in_order=True)
    def noted(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        assert event.key == id

    harness.add(app)
    harness.write_record("parcels/7", {"n": 1})
    harness.write_record("parcels/7", {"n": 2})
    first, second = harness.events
    found = list[Cost]()
    for event in (second, first):
        assert [each.cost for each in harness.deliver_event(event)] == [row_cost("tasks", "event")]
        task = harness.take("noted")
        found += [harness.deliver_task(task).cost for _ in range(2)]
    in_order, overtaken = row_cost("tasks", "first", "event_in_order"), row_cost("tasks", "event_overtaken")
    assert found == [in_order, *[overtaken] * 3]


def test_a_scheduled_time_that_waits_costs_a_read_and_a_write_and_a_task_when_its_turn_comes(harness: Harness) -> None:
    app, meanwhile = Function("clock"), list[Callable[[], None]]()

    @app.schedule("* * * * *", overlap="queue")
    @app.task
    def strike() -> None:
        if meanwhile:
            meanwhile.pop()()

    def time(minute: int) -> Effect:
        context = {"scheduled": f"2026-01-01T00:0{minute}:00Z"}
        return Effect(f"{minute}", "tasks", "clock", "strike", {}, path="/tasks/strike", context=context)

    harness.add(app)
    alone = row_cost("tasks", "first", "time_alone")
    assert harness.deliver_task(time(1)).cost == alone
    waited = list[Cost]()
    meanwhile.append(lambda: waited.extend(harness.deliver_task(time(minute)).cost for minute in (3, 4)))
    assert harness.deliver_task(time(2)).cost == row_cost("tasks", "first", "time_alone", "time_found_by")
    assert waited == [row_cost("tasks", "time_waits")] * 2
    after, last = (harness.deliver_task(harness.take("strike")).cost for _ in range(2))
    assert after == row_cost("tasks", "time_after")
    assert last == row_cost("tasks", "later", "time_alone")


def rinse(*, broken: bool = False) -> Effect:
    return Effect("rinse", "tasks", "kitchen", "rinse", {"broken": broken}, path="/tasks/rinse")


def test_a_first_delivery_of_a_task_costs_nothing_unless_it_fails(harness: Harness) -> None:
    assert harness.deliver_task(rinse()).cost == row_cost("tasks", "first")
    assert harness.deliver_task(rinse(broken=True)).cost == row_cost("tasks", "first_raises")


def test_each_later_delivery_costs_one_round_trip_and_one_write(harness: Harness) -> None:
    counted = row_cost("tasks", "later")
    assert [harness.deliver_task(rinse(), retries=retries).cost for retries in (1, 2)] == [counted] * 2


def test_an_error_costs_a_write_that_notes_it_and_one_that_removes_the_note(harness: Harness) -> None:
    harness.deliver_task(rinse(broken=True))
    noted = row_cost("tasks", "later_raises")
    assert harness.deliver_task(rinse(broken=True), retries=1).cost == noted
    assert harness.deliver_task(rinse(), retries=2).cost == noted


def test_a_task_that_is_given_up_costs_two_reads_and_two_writes_in_addition_to_its_count(harness: Harness) -> None:
    for retries in range(10):
        harness.deliver_task(rinse(broken=True), retries=retries)
    assert harness.deliver_task(rinse(broken=True), retries=10).cost == row_cost("tasks", "given_up")


def test_a_problem_costs_one_read_and_one_write(harness: Harness) -> None:
    unknown = Effect("wipe", "tasks", "kitchen", "wipe", {}, path="/tasks/wipe")
    assert harness.deliver_task(unknown).cost == row_cost("tasks", "given_up_problem")


def test_a_retry_of_a_failure_costs_two_records_read_and_an_outbox(harness: Harness) -> None:
    harness.deliver_task(Effect("wipe", "tasks", "kitchen", "wipe", {}, path="/tasks/wipe"))
    assert harness.post("failures/wipe/retry").status == 202
    handled = [values for message, values in harness.log.infos if message == "handled"][-1]
    assert {name: handled[name] for name in FIGURES} == row_cost("tasks", "retry").to_json()
