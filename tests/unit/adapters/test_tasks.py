"""Entry points for queues and schedules: the status decides whether a queue retries."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import flask
import pytest

from signalbox.adapters import settings
from signalbox.adapters.http.task_deliveries import QUEUE_HEADER, schedule_entry, task_entry
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Backoff
from signalbox.core.ports import Ports
from signalbox.core.problems import BadValue, Unavailable

pytestmark = pytest.mark.usefixtures("ports_of_the_log")

ENVELOPE = {"operation": "op-1", "task": "refresh", "payload": {"key": "a"}}
TRACE = f"00-{'a' * 32}-{'b' * 16}-01"


def called(entry: Callable[[flask.Request], flask.Response], **request: Any) -> flask.Response:
    with flask.Flask("x").test_request_context(**{"method": "POST", "json": ENVELOPE} | request):
        return entry(flask.request)


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def failing(error: Exception) -> Callable[[flask.Request], flask.Response]:
    @task_entry("page")
    def page(_: Ports, __: object) -> None:
        raise error

    return page


def test_a_handler_gets_the_tasks_envelope_and_its_number_of_attempts() -> None:
    got: list[Delivered[Any]] = []
    headers = {"X-CloudTasks-TaskExecutionCount": "2", "X-CloudTasks-TaskRetryCount": "5", "traceparent": TRACE}
    assert called(task_entry("page")(lambda _, delivered: got.append(delivered)), headers=headers).status_code == 204
    assert got == [Delivered("op-1", {}, 2, 5, "page", "refresh", {"key": "a"}, trace=TRACE)]


def test_a_task_that_a_shard_delivers_is_one_of_its_queue() -> None:
    backoffs = {"flows": Backoff(0.1, 60, 10)}
    before = settings.bind(replace(settings.settings(), queue_prefix="x-2-", queue_backoffs=backoffs))
    got: list[Delivered[Any]] = []
    called(task_entry("page")(lambda _, delivered: got.append(delivered)), headers={QUEUE_HEADER: "x-2-flows-12"})
    settings.bind(before)
    assert (got[0].queue, got[0].backoff) == ("flows", backoffs["flows"])


@pytest.mark.parametrize("count", [None, "", "many", "-1", "9" * 50])
def test_a_count_that_is_none_counts_as_zero(count: str | None) -> None:
    got: list[Delivered[Any]] = []
    headers = {} if count is None else {"X-CloudTasks-TaskExecutionCount": count}
    called(task_entry("page")(lambda _, delivered: got.append(delivered)), headers=headers)
    assert got[0].executions == 0


def test_a_problem_is_acknowledged_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(failing(BadValue("no songs"))).status_code == 204
    abandoned, handled = lines(capsys)
    assert (abandoned["severity"], abandoned["message"]) == ("ERROR", "task abandoned")
    assert (abandoned["problem"], abandoned["detail"]) == ("bad-value", "no songs")
    assert (handled["function"], handled["status"]) == ("page", 204)


def test_unavailable_is_retried() -> None:
    answer = called(failing(Unavailable("aborted", retry_after_seconds=2)))
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "2")


def test_an_unhandled_exception_is_retried_and_logged(capsys: pytest.CaptureFixture[str]) -> None:
    assert called(failing(KeyError("secret"))).status_code == 500
    bug, handled = lines(capsys)
    assert bug["exception"].endswith("KeyError: 'secret'\n")
    assert handled["status"] == 500


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"operation": "o", "task": "t"}', b'{"operation": 1, "task": "t", "payload": {}}']
)
def test_a_body_that_is_not_an_envelope_is_abandoned(body: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    assert called(task_entry("page")(lambda *_: None), json=None, data=body).status_code == 204
    assert lines(capsys)[0]["message"] == "task abandoned"


def test_a_task_whose_body_breaks_off_is_retried() -> None:
    got: list[Delivered[Any]] = []
    announced = {"CONTENT_LENGTH": str(len(json.dumps(ENVELOPE)) + 1)}
    answer = called(task_entry("page")(lambda _, delivered: got.append(delivered)), environ_overrides=announced)
    assert (answer.status_code, got) == (503, [])


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "HEAD"])
def test_a_queue_posts_and_nothing_else_is_taken(method: str) -> None:
    answer = called(failing(AssertionError("called")), method=method)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_the_log_line_names_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    called(task_entry("page")(lambda *_: None), headers={"X-CloudTasks-TaskName": "abc"})
    assert lines(capsys)[0]["task"] == "abc"


def test_a_scheduled_call_runs_its_handler_without_a_body(capsys: pytest.CaptureFixture[str]) -> None:
    runs = []

    @schedule_entry("sweep")
    def sweep(_: Ports) -> None:
        runs.append(1)

    answer = called(sweep, json=None, headers={"X-CloudScheduler-JobName": "projects/p/locations/l/jobs/sweep"})
    assert (answer.status_code, runs) == (204, [1])
    assert lines(capsys)[0]["task"] == "sweep"


def test_a_scheduled_call_that_meets_a_problem_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    @schedule_entry("sweep")
    def sweep(_: Ports) -> None:
        raise BadValue("x")

    assert called(sweep).status_code == 204
    assert lines(capsys)[0]["message"] == "scheduled call abandoned"


def test_the_entry_point_is_a_plain_function_of_the_functions_name() -> None:
    assert failing(KeyError()).__name__ == "page"
