"""Tasks that were given up are kept: to look at, to run again once, to delete. Retried tasks show their last error."""

from datetime import datetime
from typing import Any

import pytest

from signalbox import Completion, Function, Lease, Unit, batch, documents, semaphore
from signalbox.core.effects import Effect
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import Problem
from signalbox.core.times import rfc3339
from signalbox.tasks.limits import LIMITS as TASKS_LIMITS
from signalbox.tasks.storage import count_start
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced

TRACE = "00-11111111111111111111111111111111-2222222222222222-01"


class NoPaper(Problem):
    status = 409
    title = "No paper"


class Broken(Exception):
    """What the code raises while `broken` names its task."""


@pytest.fixture(autouse=True)
def broken(harness: Harness) -> set[str]:
    """Add a function whose tasks raise while their names are in this set, and else note that they ran."""
    app, broken = Function("printers"), {"refuse", "fail", "hold", "work", "closed"}

    def act(name: str) -> None:
        if name in broken:
            raise NoPaper("The printer is empty.") if name == "refuse" else Broken(f"{name} broke")
        documents.put(f"ran-{name}", {})

    @app.task
    def refuse(page: int) -> None:
        act("refuse")

    @app.task(attempts_max=2)
    def fail(page: int) -> None:
        act("fail")

    @app.task(attempts_max=2)
    def hold(lease: Lease) -> None:
        act("hold")

    @app.task(attempts_max=2)
    def work(unit: Unit) -> None:
        act("work")

    @app.task(attempts_max=2)
    def closed(completion: Completion) -> None:
        act("closed")

    harness.add(app)
    return broken


def enqueue(harness: Harness, task: str, **payload: Any) -> None:
    harness.queue.create([Effect(f"id-{task}", "tasks", "printers", task, payload, path=f"/tasks/{task}", trace=TRACE)])


def failures(harness: Harness, query: str = "") -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = harness.get(f"failures{query}").json["failures"]
    return listed


def test_failures_are_counted(harness: Harness) -> None:
    enqueue(harness, "refuse", page=7)
    harness.run()
    assert harness.get("failures?count=true").json == {"count": 1}
    assert harness.get("failures?state=retrying&count=true").json == {"count": 0}
    assert harness.get("failures?count=true&page_token=x").json["field"] == "page_token"
    assert harness.get("failures?count=1").json["field"] == "count"


def test_a_task_that_raised_a_problem_is_kept_with_all_that_is_needed_to_judge_it(harness: Harness) -> None:
    enqueue(harness, "refuse", page=7)
    harness.run()
    [failure] = failures(harness)
    assert failure.pop("traceback").endswith("NoPaper: The printer is empty.\n")
    assert failure == {
        "id": "id-refuse",
        "state": "failed",
        "function": "printers",
        "task": "refuse",
        "payload": {"page": 7},
        "queue": "tasks",
        "problem": "no-paper",
        "detail": "The printer is empty.",
        "error": "NoPaper: The printer is empty.",
        "attempts": 1,
        "trace": TRACE,
        "failed_at": failure["failed_at"],
    }
    assert harness.get("failures/id-refuse").json["detail"] == "The printer is empty."


def test_a_task_that_raised_every_time_is_kept_with_its_last_traceback(harness: Harness) -> None:
    enqueue(harness, "fail", page=7)
    harness.run(raise_errors=False)
    failure = harness.get("failures/id-fail").json
    assert (failure["problem"], failure["attempts"], failure["error"]) == ("gave-up", 2, "Broken: fail broke")
    assert failure["detail"] == "Gave up after 2 attempts. Last error: Broken: fail broke"
    assert failure["traceback"].endswith("Broken: fail broke\n")


def test_a_task_whose_process_died_each_time_is_kept_without_an_error(harness: Harness) -> None:
    enqueue(harness, "fail", page=7)
    [task] = harness.tasks
    for _ in range(2):
        count_start(harness.ports, "id-fail")
    harness.deliver_task(task, retries=2)
    failure = harness.get("failures/id-fail").json
    assert (failure["error"], failure["traceback"], failure["attempts"]) == ("", "", 2)
    assert failure["detail"] == "Gave up after 2 attempts."


def test_a_retry_runs_the_task_again_once_however_often_it_is_posted(harness: Harness, broken: set[str]) -> None:
    enqueue(harness, "refuse", page=7)
    harness.run()
    broken.clear()
    answers = [harness.post("failures/id-refuse/retry") for _ in range(2)]
    assert [(each.status, each.json) for each in answers] == [(202, {"id": "id-refuse", "state": "retried"})] * 2
    [task] = harness.tasks
    assert (task.payload, task.path, task.queue) == ({"page": 7}, "/tasks/refuse", "tasks")
    harness.run()
    assert harness.get("documents/ran-refuse").status == 200
    assert harness.post("failures/id-refuse/retry").status == 202
    assert harness.tasks == []
    assert failures(harness) == []
    assert harness.get("failures/id-refuse").json["state"] == "retried"


def test_a_retry_that_fails_again_is_a_failure_of_its_own(harness: Harness) -> None:
    enqueue(harness, "refuse", page=7)
    harness.run()
    harness.post("failures/id-refuse/retry")
    harness.run()
    [again] = failures(harness)
    assert again["id"] != "id-refuse"
    assert again["payload"] == {"page": 7}


def test_a_retry_of_a_task_that_ran_for_a_lease_waits_for_another(harness: Harness, broken: set[str]) -> None:
    semaphore("printer").ensure(permits=3, lease_seconds=100)
    wait = {"continuation": {"function": "printers", "task": "hold"}, "permits": 2, "lease_seconds": 50}
    harness.post("semaphore-wait/printer", json=wait | {"release_on_return": True})
    harness.run(raise_errors=False)
    [failure] = failures(harness)
    assert failure["semaphore"] == "printer"
    held = semaphore("printer").acquire(permits=3)
    assert held, "what was given up has released its lease"
    broken.clear()
    for _ in range(2):
        assert harness.post(f"failures/{failure['id']}/retry").status == 202
    harness.run(due_only=True)
    assert harness.get("documents/ran-hold").status == 404
    semaphore("printer").signal(held)
    task = harness.take("hold")
    harness.tasks.append(task)
    lease = task.context["lease"]
    assert (lease["permits"], lease["lease_seconds"], lease["release_on_return"]) == (2, 50, True)
    harness.run()
    assert harness.get("documents/ran-hold").status == 200
    assert semaphore("printer").acquire(permits=3)


def test_a_retry_whose_semaphore_is_gone_says_so_and_can_be_repeated(harness: Harness) -> None:
    semaphore("printer").ensure(permits=1)
    harness.post("semaphore-wait/printer", json={"continuation": {"function": "printers", "task": "hold"}})
    harness.run(raise_errors=False)
    [failure] = failures(harness)
    harness.delete("semaphores/printer")
    assert harness.post(f"failures/{failure['id']}/retry").json["type"] == "urn:signalbox:problem:no-semaphore"
    semaphore("printer").ensure(permits=1)
    assert harness.post(f"failures/{failure['id']}/retry").status == 202


def test_a_completion_that_failed_is_retried_with_its_batch(harness: Harness, broken: set[str]) -> None:
    body = {"id": "b", "units": [], "sealed": True, "on_complete": {"function": "printers", "task": "closed"}}
    harness.post("batches", json=body)
    harness.run(raise_errors=False)
    [failure] = failures(harness)
    broken.clear()
    harness.post(f"failures/{failure['id']}/retry")
    [task] = harness.tasks
    assert task.context["batch"]["id"] == "b"
    harness.run()
    assert harness.get("documents/ran-closed").status == 200


def test_a_late_delivery_of_a_task_does_not_undo_its_retry_or_its_deletion(harness: Harness) -> None:
    for task, close in (("refuse", "post"), ("fail", "delete")):
        enqueue(harness, task, page=7)
        [late] = harness.tasks
        harness.run(raise_errors=False)
        url = f"failures/id-{task}"
        assert (harness.post(f"{url}/retry") if close == "post" else harness.delete(url)).status < 300
        harness.tasks.clear()
        harness.deliver_task(late, retries=9)
        assert failures(harness) == []


def test_a_deleted_failure_is_gone_and_one_that_never_was_is_not_found(harness: Harness) -> None:
    enqueue(harness, "refuse", page=7)
    harness.run()
    assert harness.delete("failures/id-refuse").status == 204
    for call in (harness.get, harness.delete):
        assert (call("failures/id-refuse").status, call("failures/nothing").status) == (410, 404)
    retried = harness.post("failures/id-refuse/retry"), harness.post("failures/nothing/retry")
    assert [each.json["type"].rpartition(":")[2] for each in retried] == ["gone", "not-found"]
    assert harness.record("failures/id-refuse").keys() == {"state", "recorded_at"}, "nothing of its content stays"


def test_while_a_task_is_retried_its_last_error_and_next_time_can_be_seen(harness: Harness, broken: set[str]) -> None:
    enqueue(harness, "fail", page=7)
    [task] = harness.tasks
    harness.deliver_task(task)
    [shown] = failures(harness, "?state=retrying")
    assert shown == harness.get("failures/id-fail").json
    assert (shown["state"], shown["error"], shown["attempts"]) == ("retrying", "Broken: fail broke", 1)
    assert (shown["function"], shown["task"], shown["trace"]) == ("printers", "fail", TRACE)
    assert shown["next_at"] >= shown["failed_at"]
    assert failures(harness) == []
    assert harness.post("failures/id-fail/retry").json["type"] == "urn:signalbox:problem:still-retried"
    assert harness.delete("failures/id-fail").status == 409
    broken.clear()
    harness.deliver_task(task, retries=1)
    assert failures(harness, "?state=retrying") == []
    assert harness.get("failures/id-fail").status == 404


def test_a_batch_shows_the_last_error_of_a_unit_while_it_is_retried(harness: Harness, broken: set[str]) -> None:
    task = {"function": "printers", "task": "work"}
    harness.post("batches", json={"id": "b", "task": task, "units": [{}], "sealed": True})
    harness.run(due_only=True, raise_errors=False)
    shown = harness.get("batches/b").json
    assert shown["last_error"]["error"] == "Broken: work broke"
    error = batch("b").status()["last_error"]
    assert {name: rfc3339(each) if name.endswith("_at") else each for name, each in error.items()} == shown[
        "last_error"
    ]
    assert isinstance(error["next_at"], datetime), "Python callers compute with the times"
    harness.run(raise_errors=False)
    assert "last_error" not in harness.get("batches/b").json
    [unit] = harness.get("batches/b/units").json["units"]
    assert unit["error"] == "Gave up after 2 attempts. Last error: Broken: work broke"
    assert failures(harness) == failures(harness, "?state=retrying") == []


def test_failures_are_listed_newest_first_in_pages(harness: Harness) -> None:
    for number in range(5):
        payload = {"page": number}
        harness.queue.create([Effect(f"id-{number}", "tasks", "printers", "refuse", payload, path="/tasks/refuse")])
        harness.run()
        harness.advance(1)
    with replaced(failures_listed_max=2):
        ids, token = [], ""
        while True:
            page = harness.get(f"failures?page_token={token}").json
            ids += [each["id"] for each in page["failures"]]
            token = page.get("next_page_token", "")
            if not token:
                break
    assert ids == ["id-4", "id-3", "id-2", "id-1", "id-0"]


@pytest.mark.parametrize("query", ["state=broken", "page_token=x", "task=fail"])
def test_a_query_that_cannot_be_answered_is_refused(harness: Harness, query: str) -> None:
    assert harness.get(f"failures?{query}").status == 400


def test_texts_that_no_record_can_contain_are_cut_and_cleaned(harness: Harness, broken: set[str]) -> None:
    broken.discard("fail")
    app = Function("loud")

    @app.task
    def shout() -> None:
        raise NoPaper("\ud800" + "x" * 50_000)

    harness.add(app)
    harness.queue.create([Effect("id-shout", "tasks", "loud", "shout", {}, path="/tasks/shout")])
    harness.run()
    failure = harness.get("failures/id-shout").json
    assert len(failure["error"]) == CORE_LIMITS.error_letters_max
    assert failure["error"].startswith("NoPaper: ?xxx")
    assert len(failure["traceback"]) == TASKS_LIMITS.traceback_letters_max
