"""A call is enqueued now or later, once for an id, and once for all deliveries of the task that makes it."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbox import Call, Function, Lease, Request, batch, critical_section, semaphore, sub_batch
from signalbox.adapters.cost_meter import Cost
from signalbox.batches.problems import BadBatch
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS
from signalbox.core.ports import Query
from signalbox.core.problems import BadArgument, BadCall, BadKey, OtherBody, Unavailable
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.cost_table import row_cost, total

HOURS = 5 * 3600


class Mails:
    """A function whose tasks enqueue others, and may fail afterwards."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.order = ["ann", "bob"]
        self.fail = False
        self.app = app = Function("mails")

        @app.task
        def send(to: str) -> None:
            self.sent.append(to)

        @app.task
        def send_all() -> None:
            for to in self.order:
                send.call(to=to).enqueue()
                if self.fail:
                    raise Unavailable("died after the first")

        @app.task
        def send_left(left: int) -> None:
            for _ in range(left):
                send.call(to="ann").enqueue()

        @app.task
        def send_later() -> None:
            send.call(to="ann").enqueue(delay_seconds=60)

        @app.task
        def print_all() -> None:
            for to in self.order:
                semaphore("printer").wait(send.call(to=to), release_on_return=True)
                if self.fail:
                    raise Unavailable("died after the first")

        @app.task
        def hand_on(lease: Lease, to: str) -> None:
            semaphore("desk").wait(file.call(lease_id=lease.id, token=lease.token, nested=[{"to": to}]))
            if self.fail:
                raise Unavailable("died after the wait")

        @app.task
        def file(lease_id: str, token: int, nested: list[Any]) -> None:
            self.sent.append(nested[0]["to"])

        @app.http("POST")
        def post(request: Request) -> dict[str, str]:
            return {"operation": send.call(to="ann").enqueue(id=str(request.json_object().get("id") or ""))}

        self.send, self.hand_on = send, hand_on


@pytest.fixture
def mails(harness: Harness) -> Mails:
    made = Mails()
    harness.add(made.app)
    return made


def delivered(harness: Harness, task: str, retries: int = 0, **arguments: int) -> Cost:
    """Deliver a task of the function once more, and return what it cost."""
    effect = Effect(f"id-{task}", "tasks", "mails", task, arguments, path=f"/tasks/{task}")
    return harness.deliver_task(effect, retries=retries).cost


def receipts(harness: Harness) -> int:
    return harness.store.count(Query("receipts"))


def forget_names(harness: Harness) -> None:
    """Advance the clock by hours: the names of tasks that ran are free again."""
    harness.advance(HOURS)
    harness.queue.names = {task.name for task in harness.tasks}


def test_a_call_without_an_id_is_enqueued_each_time_and_costs_one_task(harness: Harness, mails: Mails) -> None:
    operations = {mails.send.call(to="ann").enqueue() for _ in range(2)}
    assert {task.name for task in harness.tasks} == operations
    harness.run()
    assert mails.sent == ["ann", "ann"]
    harness.post("mails", json={})
    assert handled(harness) == row_cost("tasks", "enqueue").to_json()


def handled(harness: Harness) -> dict[str, object]:
    values = [values for message, values in harness.log.infos if message == "handled"][-1]
    return {name: values[name] for name in ("round_trips", "reads", "writes", "deletes", "tasks")}


def test_a_repeated_delivery_that_makes_fewer_equal_calls_than_the_one_before_is_an_error(
    harness: Harness, mails: Mails
) -> None:
    delivered(harness, "send_left", left=2)
    assert harness.log.errors == []
    delivered(harness, "send_left", retries=1, left=2)
    assert harness.log.errors == []
    delivered(harness, "send_left", retries=2, left=1)
    [(message, values)] = harness.log.errors
    assert (message, values["task"], values["call"]) == (
        "task made fewer calls than before",
        "send_left",
        "enqueue of send",
    )


def test_an_id_runs_once_also_when_the_name_of_its_task_is_free_again(harness: Harness, mails: Mails) -> None:
    first = mails.send.call(to="ann").enqueue(id="order-7")
    harness.run()
    forget_names(harness)
    assert mails.send.call(to="ann").enqueue(id="order-7", delay_seconds=5) == first
    assert harness.tasks == []
    with pytest.raises(OtherBody):
        mails.send.call(to="bob").enqueue(id="order-7")
    assert mails.sent == ["ann"]


def test_an_id_costs_a_receipt_and_an_outbox_record_and_a_repeat_one_read(harness: Harness, mails: Mails) -> None:
    harness.post("mails", json={"id": "order-7"})
    assert handled(harness) == row_cost("tasks", "enqueue_id").to_json()
    harness.post("mails", json={"id": "order-7"})
    assert handled(harness) == row_cost("tasks", "enqueue_repeat").to_json()


def test_a_task_enqueues_once_for_all_its_deliveries_also_hours_later(harness: Harness, mails: Mails) -> None:
    assert delivered(harness, "send_all") == row_cost("tasks", "enqueue_in_task", "enqueue_in_task")
    harness.run()
    forget_names(harness)
    assert delivered(harness, "send_all", retries=1) == total(
        Cost(round_trips=3, reads=2, writes=1), row_cost("tasks", "calls_again", c=2)
    )
    harness.run()
    assert mails.sent == ["ann", "bob"]
    assert receipts(harness) == 2


def test_a_delivery_that_died_before_the_receipt_is_repeated_under_the_same_name(
    harness: Harness, mails: Mails
) -> None:
    delivered(harness, "send_later")
    [task] = harness.tasks
    [receipt] = harness.ids("receipts")
    assert receipt == task.name
    assert task.not_before == harness.clock.now + timedelta(seconds=60)


def test_what_is_enqueued_in_another_order_after_a_death_runs_once_each(harness: Harness, mails: Mails) -> None:
    mails.fail = True
    delivered(harness, "send_all")
    mails.fail, mails.order = False, ["bob", "ann"]
    delivered(harness, "send_all", retries=1)
    harness.run()
    assert sorted(mails.sent) == ["ann", "bob"]


def test_waits_in_another_order_after_a_death_are_the_same_waits(harness: Harness, mails: Mails) -> None:
    semaphore("printer").ensure(permits=2)
    mails.fail = True
    delivered(harness, "print_all")
    mails.fail, mails.order = False, ["bob", "ann"]
    delivered(harness, "print_all", retries=1)
    harness.run()
    assert sorted(mails.sent) == ["ann", "bob"]


def test_a_call_that_passes_on_the_tasks_own_lease_is_the_same_under_its_next_token(
    harness: Harness, mails: Mails
) -> None:
    for name in ("printer", "desk"):
        semaphore(name).ensure(permits=1, lease_seconds=60)
    semaphore("printer").wait(mails.hand_on.call(to="ann"), release_on_return=True)
    [task] = harness.tasks
    mails.fail = True
    harness.deliver_task(task)
    mails.fail = False
    harness.deliver_task(task, retries=1)
    harness.run()
    assert mails.sent == ["ann"]


@pytest.mark.parametrize("seconds", [30, -30])
def test_a_time_is_that_of_the_task_unless_it_has_passed(harness: Harness, mails: Mails, seconds: int) -> None:
    at = harness.clock.now + timedelta(seconds=seconds)
    mails.send.call(to="ann").enqueue(at=at)
    assert [task.not_before for task in harness.tasks] == [at if seconds > 0 else None]


def test_what_cannot_be_enqueued_is_refused_before_anything_is_stored(harness: Harness, mails: Mails) -> None:
    call, now = mails.send.call(to="ann"), harness.clock.now
    beyond = LIMITS.delay_seconds_max + 1
    with pytest.raises(BadCall):
        call.enqueue(at=now, delay_seconds=1)
    with pytest.raises(BadCall):
        call.enqueue(at=datetime(2026, 1, 1))  # noqa: DTZ001  a time without a zone is what must be refused
    with pytest.raises(BadCall):
        call.enqueue(at=now + timedelta(seconds=beyond), id="order-7")
    with pytest.raises(BadCall):
        call.enqueue(delay_seconds=beyond)
    with pytest.raises(BadKey):
        call.enqueue(id="a/b")
    assert (harness.tasks, receipts(harness), harness.ids("outbox")) == ([], 0, [])


CALL = {"function": "mails", "task": "send", "payload": {"to": "ann"}}


def test_people_enqueue_over_http_under_an_id_or_a_key(harness: Harness, mails: Mails) -> None:
    answers = [
        harness.post("tasks", json=CALL | {"id": "order-7", "at": None}),
        harness.post("tasks", json=CALL, headers={"Idempotency-Key": "order-7"}),
        harness.post("tasks", json=CALL | {"delay_seconds": 60}),
    ]
    assert [each.status for each in answers] == [202] * 3
    first, again, another = (each.json for each in answers)
    assert first["operation"] == again["operation"] != another["operation"]
    assert [each["repeated"] for each in (first, again, another)] == [False, True, False]
    assert (
        harness.post("tasks", json=CALL | {"id": "order-7", "payload": {"to": "bob"}})
        .json["type"]
        .endswith(":other-body")
    )
    harness.run()
    assert mails.sent == ["ann", "ann"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"function": None}, "function"),
        ({"function": "No"}, "function"),
        ({"payload": 1}, "payload"),
        ({"at": "soon"}, "at"),
        ({"at": ""}, "at"),
        ({"at": "20260101T000000Z"}, "at"),
        ({"id": ""}, "key"),
        ({"at": "2026-01-01T00:00:00"}, "at"),
        ({"at": "9999-12-31T23:59:59-23:59"}, "at"),
        ({"at": "2026-01-01T00:00:00Z", "delay_seconds": 1}, "at"),
        ({"delay_seconds": -1}, "delay_seconds"),
        ({"id": "a/b"}, "key"),
        ({"id": 7}, "id"),
        ({"url": "https://example.com"}, "url"),
    ],
)
def test_a_malformed_call_is_refused_with_the_field(harness: Harness, change: dict[str, Any], field: str) -> None:
    answer = harness.post("tasks", json=CALL | change)
    assert (answer.status, answer.json["field"]) == (400, field)


def test_a_call_is_equal_to_one_made_by_hand() -> None:
    assert Mails().send.call(to="ann") == Call("mails", "send", {"to": "ann"})


def test_times_of_another_zone_are_the_same_time(harness: Harness, mails: Mails) -> None:
    harness.post("tasks", json=CALL | {"at": "2026-01-02T01:00:00+01:00"})
    assert [task.not_before for task in harness.tasks] == [datetime(2026, 1, 2, tzinfo=UTC)]


class Till:
    """A function with a task that needs an order, and may get a tip."""

    def __init__(self, harness: Harness) -> None:
        app = Function("till")

        @app.task
        def charge(order: int, tip: int = 0) -> None:
            raise AssertionError(order)

        self.charge = charge
        harness.add(app)

    def call(self, **payload: Any) -> dict[str, Any]:
        return {"function": "till", "task": "charge", "payload": payload}


WRONG = pytest.mark.parametrize(
    ("payload", "field", "detail"),
    [
        ({"oder": 7}, "oder", "charge takes no argument 'oder'. Its arguments (? may be left out): order, tip?."),
        ({"tip": 1}, "order", "charge needs the argument 'order'."),
    ],
)


@WRONG
def test_a_request_with_a_call_whose_arguments_do_not_fit_is_refused_with_the_argument(
    harness: Harness, payload: dict[str, int], field: str, detail: str
) -> None:
    wrong = Till(harness).call(**payload)
    harness.put("semaphores/s", json={"permits": 1})
    unit = {"task": Till(harness).call(), "units": [{"order": 1}, payload]}
    for path, body, place in (
        ("tasks", wrong, "payload"),
        ("semaphore_wait/s", {"continuation": wrong}, "continuation.payload"),
        ("critical_section/k", {"continuation": wrong}, "continuation.payload"),
        ("batches", {"units": [1], "on_complete": wrong}, "on_complete.payload"),
        ("batches", unit, "units[1]"),
        ("batches", {"units": [1], "then": unit}, "then.units[1]"),
    ):
        refused = harness.post(path, json=body)
        found = (refused.status, refused.json["type"].rpartition(":")[2], refused.json["field"], refused.json["detail"])
        assert found == (400, "bad-argument", f"{place}.{field}", detail), path
    assert not harness.tasks


def test_types_of_a_posted_call_are_not_known_so_it_becomes_a_failure_that_names_them(harness: Harness) -> None:
    body = Till(harness).call(order="7")
    assert harness.post("tasks", json=body).status == 202
    harness.run(raise_errors=False)
    [failure] = harness.get("failures").json["failures"]
    assert (failure["problem"], failure["payload"]) == ("bad-argument", {"order": "7"})
    assert failure["detail"] == "charge: order must be int, not str."


@WRONG
def test_a_call_by_name_whose_arguments_do_not_fit_is_refused_where_it_is_made(
    harness: Harness, payload: dict[str, int], field: str, detail: str
) -> None:
    till = Till(harness)
    wrong: Call[None] = Call("till", "charge", payload)
    for make in (
        wrong.enqueue,
        lambda: semaphore("s").wait(wrong),
        lambda: critical_section("k").run(wrong),
        lambda: batch("b").populate([till.charge.call(order=1), wrong]),
        lambda: sub_batch([till.charge.call(order=1), wrong]),
        lambda: batch("b").populate([till.charge.call(order=1)], on_complete=wrong),
    ):
        with pytest.raises(BadArgument, match=re.escape(detail)) as refused:
            make()
        assert str(refused.value.field).endswith(f".{field}")
    assert not harness.tasks


def test_units_that_are_added_or_retried_later_are_checked_too(harness: Harness) -> None:
    call = Till(harness).call()
    assert harness.post("batches", json={"id": "b", "task": call, "units": []}).status == 201
    page = {"page": 0, "units": [{"order": 1}, {"oder": 2}]}
    lines = b'{"order": 1}\n{"oder": 2}\n'
    for refused in (
        harness.post("batches/b/units", json=page),
        harness.post("batches/b/units", data=lines, headers={"Content-Type": "application/x-ndjson"}),
    ):
        assert (refused.status, refused.json["field"]) == (400, "units[1].oder")
    refused = harness.post("batches/b/retry", json={"payload": {"oder": 2}})
    assert (refused.status, refused.json["field"]) == (400, "payload.oder")
    assert harness.post("batches/b/retry", json={"payload": {"tip": 2}}).status == 202


def test_all_calls_of_a_sub_batch_are_of_one_task(harness: Harness, mails: Mails) -> None:
    harness.add(mails.app)
    with pytest.raises(BadBatch, match="calls of one task"):
        sub_batch([mails.send.call(to="ann"), Till(harness).charge.call(order=1)])
