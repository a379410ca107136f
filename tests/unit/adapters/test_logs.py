"""Log lines as Cloud Logging parses them, and the trace that connects them."""

import json
import re
import threading
import warnings

import pytest

from signalbox.adapters import runtime
from signalbox.adapters.http.request_log import logged_request
from signalbox.adapters.logs import (
    JsonLog,
    current_trace,
    given_trace,
    log_forgotten_awaits,
    new_trace,
    noted,
    traced,
)

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"


def last_line(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    line: dict[str, object] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return line


def test_a_log_line_is_one_line_of_json_with_message_and_values(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLog("p").info("permit passed on", semaphore="fork\n3", lease=7)
    line = last_line(capsys)
    assert re.fullmatch(r"2\d{3}-\d\d-\d\dT.+\+00:00", str(line.pop("time")))
    assert line == {"severity": "INFO", "message": "permit passed on", "semaphore": "fork\n3", "lease": 7}


def test_a_value_cannot_take_the_place_of_severity_or_message(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLog("p").error("true", message="false", severity="DEBUG")
    line = last_line(capsys)
    assert (line["severity"], line["message"]) == ("ERROR", "true")


def test_an_error_has_the_database_of_its_deployment_by_which_alerts_find_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log = JsonLog("p", "signalbox-dev")
    log.error("flow stuck", database="of a value")
    assert last_line(capsys)["database"] == "signalbox-dev"
    log.info("handled")
    assert "database" not in last_line(capsys)


def test_an_exception_is_written_as_its_traceback_with_its_cause(capsys: pytest.CaptureFixture[str]) -> None:
    outer = ValueError("outer")
    outer.__cause__ = KeyError("inner")
    JsonLog("p").error("bug", exception=outer)
    text = str(last_line(capsys)["exception"])
    assert text.startswith("KeyError: 'inner'\n")
    assert text.endswith("ValueError: outer\n")


def test_a_value_that_json_lacks_is_written_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    JsonLog("p").info("odd", value={1j}, half="\ud800")
    line = last_line(capsys)
    assert (line["value"], line["half"]) == ("{1j}", "\ud800")


def test_lines_of_a_call_carry_its_trace_and_lines_after_it_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    with traced(PARENT):
        JsonLog("p").info("inside")
        assert current_trace() == PARENT
    inside = last_line(capsys)
    assert inside["logging.googleapis.com/trace"] == f"projects/p/traces/{TRACE}"
    assert inside["logging.googleapis.com/spanId"] == "b7ad6b7169203331"
    JsonLog("p").info("outside")
    assert "logging.googleapis.com/trace" not in last_line(capsys)


def test_a_trace_stays_in_its_own_thread() -> None:
    seen = []
    with traced(PARENT):
        thread = threading.Thread(target=lambda: seen.append(current_trace()))
        thread.start()
        thread.join()
    assert seen == [""]


def test_a_given_traceparent_is_kept() -> None:
    assert given_trace({"traceparent": PARENT, "X-Cloud-Trace-Context": "f" * 32 + "/1"}) == PARENT


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (f"{TRACE}/255;o=1", f"00-{TRACE}-00000000000000ff-01"),
        (f"{TRACE.upper()}/255;o=0", f"00-{TRACE}-00000000000000ff-00"),
        (TRACE, f"00-{TRACE}-0000000000000001-00"),
    ],
)
def test_the_platforms_trace_header_becomes_a_traceparent(given: str, expected: str) -> None:
    assert given_trace({"X-Cloud-Trace-Context": given}) == expected


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-{TRACE}-{'0' * 16}-01"])
def test_a_call_without_a_proper_trace_begins_one(given: str) -> None:
    assert given_trace({"traceparent": given}) == ""
    first, second = new_trace(), new_trace()
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", first)
    assert first != second


def test_of_durations_that_are_noted_in_a_request_the_longest_is_kept() -> None:
    log = JsonLog("p")
    log.note(copy_seconds=9)  # outside of a request
    with noted() as durations:
        log.note(copy_seconds=1.23456)
        log.note(copy_seconds=3, grant_seconds=0.5)
        log.note(copy_seconds=2)
    assert durations == {"copy_seconds": 3, "grant_seconds": 0.5}


def test_the_line_of_a_request_has_the_durations_that_were_noted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = JsonLog("p")
    monkeypatch.setattr(runtime, "log", lambda: log)
    with logged_request("documents", {}, "GET"):
        log.note(grant_seconds=2.0)
    with logged_request("documents", {}, "GET"):
        pass
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("grant_seconds") for line in lines] == [2.0, None]


def test_a_coroutine_that_is_never_awaited_is_a_line_with_its_place_and_other_warnings_stay(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def refund() -> None: ...

    shown: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda *of: shown.append(str(of[0]))
        log_forgotten_awaits(JsonLog("p"))
        str(refund())
        warnings.warn("else", RuntimeWarning, stacklevel=1)
    line = last_line(capsys)
    assert (line["severity"], line["message"]) == ("WARNING", "await forgotten")
    assert "refund" in str(line["detail"])
    assert re.fullmatch(r"test_logs\.py:\d+", str(line["place"]))
    assert shown == ["else"]
