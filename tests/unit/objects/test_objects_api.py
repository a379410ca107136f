"""Users' objects: classes of a function, called by HTTP, by tasks and by other objects, through the real framework."""

from collections.abc import Iterator
from typing import Any

import pytest

from signalbox import (
    Completion,
    Function,
    NotReady,
    Object,
    Outcome,
    Placeholder,
    Problem,
    Request,
    batch,
    documents,
    later,
    objects,
    read_only,
    semaphore,
    send,
)
from signalbox.core.idempotency_keys import idempotent_calls
from signalbox.objects.api import Methods
from signalbox.objects.problems import BadObjectCall
from signalbox.testing import Faults, Harness

app = Function("counters")
told: list[Any] = []


class Full(Problem):
    status = 422
    title = "The counter is full"


@app.object
class Counter:
    key: str  # for type checkers: the kit sets it, and `now`
    total: int = 0
    seen: list[str] = []  # noqa: RUF012  each object starts with a copy

    def add(self, amount: int = 1, who: str = "") -> int:
        if amount < 0:
            self.total = -1
            raise Full("Only upwards.")
        self.total += amount
        self.seen.append(who)
        return self.total

    def add_and_tell(self, amount: int) -> None:
        self.total += amount
        objects("Counter", "audit").add(who=self.key)
        send(noted.call(note="told"))
        later(3600).reset()
        if amount < 0:
            raise Problem("Only upwards.")

    def reset(self) -> None:
        self.total = 0

    def close(self, key: str) -> None:
        objects("Counter", key).delete()

    def open(self, key: str) -> Object:
        return objects("Counter", key)

    def open_nowhere(self) -> Object:
        return objects("Nowhere", "a")

    def grow(self, letters: int, sends: int = 0) -> str:
        self.seen.append("x" * letters)
        for _ in range(sends):
            send(noted.call(note="x"))
        return "x" * min(letters, 200_000)

    def bug(self) -> None:
        raise ValueError("a bug")

    def reach_out(self, what: str) -> None:
        reach: dict[str, Any] = {
            "documents": lambda: documents.get("d"),
            "semaphores": lambda: semaphore("s").ensure(permits=1),
            "batches": lambda: batch("b").populate([]),
            "results": lambda: objects("Counter", "b").with_(id="x").add(),
            "nowhere": lambda: objects("Nowhere", "a").add(),
        }
        reach[what]()

    @read_only
    def show(self) -> dict[str, Any]:
        return {"total": self.total, "seen": self.seen}

    @read_only
    def look(self) -> None:
        raise Full("Do not look.")


@app.task
def printed(outcome: Outcome) -> None:
    told.append(outcome)


@app.task
def noted_outcome(outcome: Outcome, note: str) -> None:
    assert outcome.result == 5
    told.append(note)


@app.task
def noted(note: str) -> None:
    told.append(note)


@app.task
def done(completion: Completion) -> None:
    told.append(completion.succeeded)


@app.task
def add_twice(key: str) -> None:
    objects("Counter", key).add()
    objects("Counter", key).add()


@pytest.fixture
def harness() -> Iterator[Harness]:
    told.clear()
    with Harness() as entered:
        entered.add(app)
        yield entered


def test_a_call_is_answered_with_its_result_and_a_problem_with_its_status(harness: Harness) -> None:
    first = harness.post("counters/objects/Counter/a/add", json={"amount": 5})
    assert (first.status, first.json["result"], first.json["ready"]) == (200, 5, True)
    assert harness.get(f"counters/objects/Counter/a/calls/{first.json['call']}").json == first.json
    refused = harness.post("counters/objects/Counter/a/add", json={"amount": -1}, headers={"Idempotency-Key": "r"})
    assert (refused.status, refused.json["title"]) == (422, "The counter is full")
    looked = harness.get("counters/objects/Counter/a/calls/r")
    assert (looked.status, looked.json["error"]["status"], looked.json["error"]["type"]) == (200, 422, "full")
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["total"] == 5
    assert harness.post("counters/objects/Counter/a/look", json={}).status == 422


def test_a_repeat_under_the_same_key_is_the_same_call(harness: Harness) -> None:
    headers = {"Idempotency-Key": "once"}
    for _ in range(2):
        assert harness.post("counters/objects/Counter/a/add", json={"amount": 5}, headers=headers).json["result"] == 5
    assert harness.post("counters/objects/Counter/a/add", json={"amount": 6}, headers=headers).status == 409
    assert harness.post("counters/objects/Counter/a/reset", json={}, headers=headers).status == 409


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("Nowhere/a/add", 404),
        ("Counter/a/nothing", 404),
        ("Counter/a/_text", 404),
        ("Counter/a/add?wait_seconds=31", 400),
        ("Counter/a/add?wait_seconds=nan", 400),
        ("Counter/a/add?wait=1", 400),
        ("Counter/__a__/add", 400),
    ],
)
def test_a_wrong_address_is_refused_at_once(harness: Harness, path: str, status: int) -> None:
    assert harness.post(f"counters/objects/{path}", json={"amount": 1}).status == status


def test_wrong_arguments_and_ids_are_refused_at_once(harness: Harness) -> None:
    assert harness.post("counters/objects/Counter/a/add", json={"amount": "5"}).status == 400
    assert harness.post("counters/objects/Counter/a/add", json={"much": 5}).status == 400
    for wrong in ("!", "a" * 129, "a/b"):
        headers = {"Idempotency-Key": wrong}
        assert harness.post("counters/objects/Counter/a/add", json={}, headers=headers).status == 400
    assert harness.get("counters/objects/Counter/a").json["exists"] is False


def test_a_posted_call_is_a_placeholder_until_its_turn(harness: Harness) -> None:
    posted = harness.post("counters/objects/Counter/a/add?wait_seconds=0", json={"amount": 5})
    call = posted.json["call"]
    assert (posted.status, posted.json["ready"]) == (202, False)
    assert harness.get(f"counters/objects/Counter/a/calls/{call}").status == 202
    assert harness.get("counters/objects/Counter/a").json["waiting"] == 1
    follow = {"continuation": {"function": "counters", "task": "printed", "payload": {}}}
    assert harness.post(f"counters/objects/Counter/a/calls/{call}/then", json=follow).status == 202
    harness.run()
    assert harness.get(f"counters/objects/Counter/a/calls/{call}").json["result"] == 5
    assert [(each.called, each.call, each.result) for each in told] == [
        ({"class": "Counter", "key": "a"}, call, 5),
    ]
    assert harness.get("counters/objects/Counter/a/calls/unknown").status == 404
    assert harness.post("counters/objects/Counter/a/calls/unknown/then", json=follow).status == 404


@pytest.mark.parametrize("follows", ["then", "object/add"])
def test_no_message_can_follow_itself_or_one_that_follows_it(harness: Harness, follows: str) -> None:
    body = {"continuation": {"function": "counters", "task": "printed", "payload": {}}} if follows == "then" else {}

    def followed(target: str, id_: str) -> int:
        path = f"counters/objects/Counter/a/calls/{target}/{follows}"
        return harness.post(path, json=body, headers={"Idempotency-Key": id_}).status

    harness.post("counters/objects/Counter/a/open?wait_seconds=0", json={"key": "b"}, headers={"Idempotency-Key": "x"})
    assert [followed("own", "own"), followed("x", "x")] == [404, 409]
    assert [followed("second", "first"), followed("x", "first"), followed("first", "second")] == [404, 202, 202]
    assert followed("second", "first") == 409
    harness.run()
    assert harness.get("counters/objects/Counter/a").json["waiting"] == 0


def test_a_call_on_a_result_by_http_waits_for_the_object(harness: Harness) -> None:
    opened = harness.post("counters/objects/Counter/a/open?wait_seconds=0", json={"key": "b"}).json["call"]
    added = harness.post(f"counters/objects/Counter/a/calls/{opened}/object/add", json={"amount": 3})
    assert added.status == 202
    harness.run()
    assert harness.get(f"counters/objects/Counter/a/calls/{added.json['call']}").json["result"] == 3
    result = harness.get(f"counters/objects/Counter/a/calls/{opened}").json
    assert result["object"] == {"class": "Counter", "key": "b"}


def test_objects_are_listed_by_key_page_by_page_and_deleted_in_their_turn(harness: Harness) -> None:
    for key in "abc":
        harness.post(f"counters/objects/Counter/{key}/add", json={})
    listed = harness.get("counters/objects/Counter").json
    assert [each["key"] for each in listed["objects"]] == ["a", "b", "c"]
    status = harness.get("counters/objects/Counter/b").json
    assert (status["exists"], status["waiting"], status["key"]) == (True, 0, "b")
    assert harness.delete("counters/objects/Counter/b", headers={"Idempotency-Key": "d"}).status == 204
    harness.run()
    assert harness.delete("counters/objects/Counter/b", headers={"Idempotency-Key": "d"}).status == 204
    assert [each["key"] for each in harness.get("counters/objects/Counter").json["objects"]] == ["a", "c"]
    after = harness.get("counters/objects/Counter/b").json
    assert (after["exists"], after["revision"] > status["revision"]) == (False, True)


def test_a_call_that_is_repeated_after_a_deletion_has_its_outcome_and_a_new_one_is_applied(harness: Harness) -> None:
    path, first, second = "counters/objects/Counter/a/add", {"Idempotency-Key": "1"}, {"Idempotency-Key": "2"}
    assert harness.post(f"{path}?wait_seconds=0", json={"amount": 3}, headers=first).status == 202
    harness.delete("counters/objects/Counter/a")  # both wait in the mailbox
    harness.post(f"{path}?wait_seconds=0", json={"amount": 4}, headers=second)
    harness.run()
    assert harness.post(path, json={"amount": 3}, headers=first).json["result"] == 3
    assert harness.post(path, json={"amount": 4}, headers=second).json["result"] == 4
    assert harness.get("counters/objects/Counter/a?state=true").json["state"]["fields"]["total"] == 4


def test_the_state_of_an_object_is_shown_as_it_is_stored_but_not_by_an_open_function(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert harness.get("counters/objects/Counter/a?state=true").json["state"] is None
    harness.post("counters/objects/Counter/a/add", json={"amount": 3, "who": "ann"})
    state = harness.get("counters/objects/Counter/a?state=true").json["state"]
    assert state == {"version": 1, "fields": {"total": 3, "seen": ["ann"]}}
    assert "state" not in harness.get("counters/objects/Counter/a").json
    assert harness.get("counters/objects/Counter/a?state=all").status == 400
    monkeypatch.setattr(Request, "is_open", property(lambda _: True))
    assert harness.get("counters/objects/Counter/a?state=true").status == 403


def test_a_full_page_of_objects_is_followed_by_the_next(harness: Harness) -> None:
    for number in range(101):
        harness.post(f"counters/objects/Counter/{number:03}/add", json={})
    first = harness.get("counters/objects/Counter").json
    assert (len(first["objects"]), first["next_page_token"]) == (100, "099")
    second = harness.get(f"counters/objects/Counter?page_token={first['next_page_token']}").json
    assert [each["key"] for each in second["objects"]] == ["100"]
    assert "next_page_token" not in second


def test_a_placeholder_is_waited_for_asked_and_followed(harness: Harness) -> None:
    placeholder: Placeholder = objects("Counter", "a").add(amount=5)
    with pytest.raises(NotReady):
        placeholder.result()
    assert not placeholder.ready()
    assert not placeholder.wait(seconds=1)
    placeholder.then(printed.call())
    opened = objects("Counter", "a").open(key="b")
    assert opened.object.add(amount=2).ready() is False
    with_id = objects("Counter", "a").with_(id="x", then=printed.call()).add()
    harness.run()
    assert (placeholder.ready(), placeholder.wait(seconds=1), placeholder.result()) == (True, True, 5)
    assert isinstance(opened.result(), Object)
    assert harness.post("counters/objects/Counter/b/show", json={}).json["result"]["total"] == 2
    assert (with_id.id, with_id.result()) == ("x", 6)
    assert [each.result for each in told] == [5, 6]


def test_an_error_is_the_result_and_of_the_class_that_was_raised(harness: Harness) -> None:
    calls = [objects("Counter", "a").add(amount=-1), objects("Counter", "a").bug()]
    calls += [objects("Counter", "a").open_nowhere(), calls[0].object.add()]
    harness.run()
    with pytest.raises(Full, match="Only upwards") as raised:
        calls[0].result()
    assert raised.value.status == 422
    for call, kind in ((calls[1], "ValueError: a bug"), (calls[2], "no class 'Nowhere'"), (calls[3], "Only upwards")):
        with pytest.raises(Problem, match=kind):
            call.result()


def test_messages_of_a_method_are_sent_with_its_call_or_not_at_all(harness: Harness) -> None:
    harness.post("counters/objects/Counter/a/add_and_tell", json={"amount": -5})
    harness.run()
    assert told == []
    harness.post("counters/objects/Counter/a/add_and_tell", json={"amount": 5})
    harness.advance(5)
    harness.run(due_only=True)
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["total"] == 5
    harness.run()
    assert told == ["told"]
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["total"] == 0
    assert harness.post("counters/objects/Counter/audit/show", json={}).json["result"]["seen"] == ["a"]
    harness.post("counters/objects/Counter/b/close", json={"key": "a"})
    harness.run()
    assert harness.get("counters/objects/Counter/a").json["exists"] is False


@pytest.mark.parametrize("what", ["documents", "semaphores", "batches", "results", "nowhere"])
def test_inside_a_method_there_is_only_the_state_and_what_is_sent(harness: Harness, what: str) -> None:
    answer = harness.post("counters/objects/Counter/a/reach_out", json={"what": what})
    assert (answer.status, answer.json["type"]) == (400, "urn:signalbox:problem:bad-object-call")


@pytest.mark.parametrize(
    "arguments", [{"letters": 1_000_000}, {"letters": 150_000}, {"letters": 1, "sends": 91}], ids=str
)
def test_a_call_that_leaves_returns_or_sends_too_much_fails_as_if_it_had_raised(
    harness: Harness, arguments: dict[str, int]
) -> None:
    harness.post("counters/objects/Counter/a/add", json={})
    assert harness.post("counters/objects/Counter/a/grow", json=arguments).status == 413
    harness.run()
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["seen"] == [""]
    assert told == []


def test_calls_take_effect_once_and_in_order_despite_duplicates_delays_and_lost_answers(
    harness: Harness,
) -> None:
    calls = [objects("Counter", "a").add(who=str(number)) for number in range(30)]
    calls[7].then(printed.call())
    harness.run(Faults(duplicate=0.5, late=0.3, unavailable=0.3, lose_answer=0.3, seed=1))
    assert [call.result() for call in calls] == list(range(1, 31))
    seen = harness.post("counters/objects/Counter/a/show", json={}).json["result"]["seen"]
    assert seen == [str(number) for number in range(30)]
    assert {each.result for each in told} == {8}


def test_a_call_for_later_runs_then_and_one_with_a_limit_not_after_it(harness: Harness) -> None:
    in_time = objects("Counter", "a").with_(delay_seconds=60, not_after_seconds=600).add()
    too_late = objects("Counter", "a").with_(delay_seconds=600, not_after_seconds=60).add()
    harness.run()
    assert in_time.result() == 1
    with pytest.raises(Problem, match="not_after"):
        too_late.result()
    for wrong in ({"delay_seconds": -1}, {"not_after_seconds": float("nan")}, {"delay_seconds": 1e9}):
        with pytest.raises(BadObjectCall):
            objects("Counter", "a").with_(**wrong)
    with pytest.raises(BadObjectCall):
        later(1)
    with pytest.raises(BadObjectCall, match="no class 'Nowhere'"):
        objects("Nowhere", "a").add()
    assert isinstance(objects("Counter", "a").with_(), Methods)


def test_a_repeat_of_a_task_follows_a_call_once_whatever_the_order_of_its_code(harness: Harness) -> None:
    placeholder: Placeholder = objects("Counter", "a").add(amount=5)
    for notes in (["a", "b"], ["b", "a", "b"]):
        with idempotent_calls("of the task", is_repeated=len(notes) > 2):
            for note in notes:
                placeholder.then(noted_outcome.call(note=note))
    harness.run()
    assert sorted(told) == ["a", "b", "b"]


def test_a_task_that_is_delivered_twice_calls_once(harness: Harness) -> None:
    add_twice.call(key="a").enqueue()
    [task] = harness.tasks
    harness.deliver_task(task)
    harness.run()
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["total"] == 2


def test_a_method_is_the_continuation_of_a_semaphore_and_the_unit_of_a_batch(harness: Harness) -> None:
    semaphore("gate").ensure(permits=1)
    counter = objects("Counter", "a")
    semaphore("gate").wait(counter.add.call(amount=10), release_on_return=True)
    batch("adds").populate([counter.add.call(amount=1) for _ in range(3)], on_complete=done.call())
    objects("Counter", "b").with_(then=counter.add.call(amount=100)).add()
    harness.run()
    assert harness.post("counters/objects/Counter/a/show", json={}).json["result"]["total"] == 113
    assert told == [3]


def test_a_wake_up_that_reaches_code_without_the_class_is_kept(harness: Harness) -> None:
    placeholder = objects("Counter", "a").add()
    older = Function("counters")
    harness.add(older)
    [task] = harness.tasks
    harness.advance(5)
    assert harness.deliver_task(task).status == 503
    assert [line for line, _ in harness.log.errors] == ["turn refused"]
    harness.add(app)
    assert harness.deliver_task(task).status == 204
    assert placeholder.result() == 1


def test_a_class_or_a_task_whose_name_is_taken_is_refused() -> None:
    with pytest.raises(ValueError, match="two classes"):
        app.object(Counter)
    with pytest.raises(ValueError, match="the kit's own"):
        app.task(_call_object())


def _call_object() -> Any:
    def call_object() -> None: ...

    return call_object
