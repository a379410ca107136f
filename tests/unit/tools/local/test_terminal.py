"""What `signalbox dev` shows of a log, to people and to machines."""

import io
import json
import traceback
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from signalbox.catalogue.project import KIT
from signalbox_tools.local.logs.rendered_lines import KIND_FOLDED, Terminal
from signalbox_tools.local.logs.tracebacks import cut, summary
from signalbox_tools.local.services.command_lines import READY
from signalbox_tools.status.local_status import last_lines

HANDLED: dict[str, Any] = {"message": "handled", "severity": "INFO", "status": 200, "milliseconds": 12.3, "writes": 0}


OF_THE_KIT = f'''Traceback (most recent call last):
  File "{KIT.root}/shared/signalbox/adapters/http/task_deliveries.py", line 96, in _response
    invocation.handle(request)
    ~~~~~~~~~~~~~~~~~^^^^^^^^^
  File "{KIT.root}/albums/main.py", line 24, in thumbnail
    raise OSError("no disk")
OSError: no disk

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/usr/lib/python3.11/concurrent/futures/thread.py", line 58, in run
    result = self.fn(*self.args, **self.kwargs)
  File "{KIT.root}/.venv/lib/python3.11/site-packages/flask/app.py", line 1, in f
    f()
RuntimeError: worker ended
'''

OF_REGISTER = (
    f'  File "{KIT.root}/shared/signalbox/function/user_function.py", line 145, in register\nValueError: two tasks'
)


def shown(
    *lines: object, service: str = "functions", colour: bool = False, machine: bool = False, full: bool = False
) -> str:
    """Return the output for lines that are given as text or as JSON values."""
    file = io.StringIO()
    terminal = Terminal(Console(file=file, force_terminal=colour, width=200, highlight=False), machine, full)
    terminal.show([(service, line if isinstance(line, str) else json.dumps(line)) for line in lines])
    return file.getvalue()


def failure() -> str:
    try:
        return str({"a": 1}["missing"])
    except KeyError:
        return traceback.format_exc()


@pytest.mark.parametrize(
    ("labels", "parts"),
    [
        (
            {"kind": "http", "method": "PUT", "path": "/documents/fred", "status": 201},
            ["PUT /documents/fred 201"],
        ),
        (
            {"kind": "task", "function": "printers", "task_name": "printed", "id": "printer", "attempt": 3},
            ["task printers.printed printer 200 12 ms attempt 3"],
        ),
        ({"kind": "event", "function": "link_fan_out", "id": "documents/a"}, ["event link_fan_out documents/a 200"]),
        ({"kind": "schedule", "function": "sweep", "id": "sweep", "writes": 2}, ["sweep sweep 200 12 ms 2 writes"]),
        ({"kind": "schedule", "function": "tidy", "id": "nightly"}, ["schedule tidy nightly 200"]),
    ],
    ids=["request", "task", "event", "sweeper", "schedule"],
)
def test_a_request_a_task_and_an_event_are_a_line_each(labels: dict[str, Any], parts: list[str]) -> None:
    [line] = shown({**HANDLED, **labels}).splitlines()
    for part in parts:
        assert part in " ".join(line.split())


def test_a_sweeper_that_finds_nothing_and_the_stacks_own_look_are_not_shown() -> None:
    idle = {**HANDLED, "kind": "schedule", "function": "sweep", "status": 204}
    assert shown(idle, {**HANDLED, "message": "not handled", "kind": "http", "path": f"/{READY}"}) == ""
    assert shown(idle, {**HANDLED, "message": "not handled", "kind": "http", "method": "HEAD", "path": "/"}) == ""
    assert "503" in shown({**idle, "status": 503})


def test_the_consoles_reads_are_not_shown_unless_they_fail() -> None:
    read = {**HANDLED, "kind": "http", "method": "GET", "path": "/semaphores", "function": "semaphores"}
    assert shown({**read, "page": "console"}, {**read, "message": "not handled", "page": "console"}) == ""
    assert "503" in shown({**read, "page": "console", "status": 503})
    assert "/semaphores" in shown(read)


def test_a_print_is_marked_with_its_function() -> None:
    assert shown({"message": "printed", "function": "printers", "text": "7 [b]hello"}) == "printers │ 7 [b]hello\n"
    assert shown("a line that nobody marked") == "functions │ a line that nobody marked\n"


def test_a_users_json_that_resembles_a_line_of_the_kit_is_a_print() -> None:
    assert shown('{"message": "handled", "status": "ok"}') == 'functions │ {"message": "handled", "status": "ok"}\n'
    assert shown("[" * 100_000).startswith("functions │ [[")
    assert shown('{"a": ' + "[" * 100_000).startswith('functions │ {"a": [[')


def test_what_callers_choose_is_shown_and_not_obeyed() -> None:
    put = {**HANDLED, "kind": "task", "function": "albums", "task_name": "made", "id": "a\x1b[2J"}
    error = {**put, "message": "unhandled exception", "severity": "ERROR", "exception": "KeyError: '\x9b2J'\n"}
    assert r"a\u001b[2J" in shown(put)
    assert r"a\u001b[2J" in (seen := shown(error))
    assert r"\u009b2J" in seen
    assert not {"\x1b", "\x9b"} & set(seen)


def test_an_exception_is_shown_in_full_and_in_colour_on_a_terminal_only() -> None:
    error = {"message": "unhandled exception", "severity": "ERROR", "function": "albums", "exception": failure()}
    plain, coloured = shown(error), shown(error, colour=True)
    assert "error   albums: unhandled exception" in plain
    assert 'test_terminal.py", line' in plain
    assert "KeyError: 'missing'" in plain
    assert "\x1b[" not in plain
    assert "\x1b[" in coloured


def test_a_traceback_has_the_users_frames_only() -> None:
    assert cut(OF_THE_KIT).splitlines() == [
        "Traceback (most recent call last; LOG=full shows 3 frames of the kit and of packages too):",
        '  File "albums/main.py", line 24, in thumbnail',
        '    raise OSError("no disk")',
        "OSError: no disk",
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        "RuntimeError: worker ended",
    ]


def test_a_traceback_without_a_frame_of_the_users_is_whole() -> None:
    of_kit_only = OF_THE_KIT.replace("albums/", "functions/documents/")
    assert cut(of_kit_only) == of_kit_only


@pytest.mark.parametrize(
    ("trace", "said"),
    [
        (
            f'  File "{KIT.root}/press/main.py", line 9, in <module>\n    @app.task\n{OF_REGISTER}',
            "press/main.py:9: ValueError: two tasks",
        ),
        (
            OF_REGISTER,
            "shared/signalbox/function/user_function.py:145: ValueError: two tasks",
        ),
        ("", "unknown error"),
    ],
    ids=["the user's line", "the kit's, where there is no other", "nothing"],
)
def test_a_load_error_is_summed_up_at_the_users_line(trace: str, said: str) -> None:
    assert summary(trace) == said


UNHANDLED: dict[str, Any] = {
    "message": "unhandled exception",
    "severity": "ERROR",
    "function": "albums",
    "kind": "task",
    "task_name": "thumbnail",
    "id": "paris/0",
    "exception": OF_THE_KIT,
}


def test_a_traceback_is_headed_by_what_ran_and_is_shown_once() -> None:
    first, again = ({**UNHANDLED, "attempt": attempt, "time": f"2026-01-01T12:00:0{attempt}Z"} for attempt in (1, 2))
    lines = shown(first, again, {**again, "function": "other"}).splitlines()
    assert "error   albums.thumbnail paris/0, attempt 1: unhandled exception" in lines[0]
    assert "albums.thumbnail paris/0, attempt 2: unhandled exception  RuntimeError: worker ended" in lines[9]
    assert lines[9].endswith(":00:01)")
    assert len(lines) == 9 + 1 + 9


def test_a_refusal_of_the_kits_has_no_traceback() -> None:
    refusal = {**UNHANDLED, "problem": "unknown-task", "exception": OF_REGISTER}
    assert len(shown(refusal).splitlines()) == 1
    assert len(shown({**refusal, "exception": OF_THE_KIT}).splitlines()) == 9


def test_log_full_shows_every_frame_every_time() -> None:
    assert shown(UNHANDLED, UNHANDLED, full=True).count("shared/signalbox") == 2


def test_many_lines_of_one_kind_at_once_are_folded_but_not_one_that_failed() -> None:
    events = [{**HANDLED, "kind": "event", "function": "f", "id": f"documents/{n}"} for n in range(KIND_FOLDED + 20)]
    lines = shown(*events, {**events[0], "status": 500}).splitlines()
    assert "… and 27 more like the last, all well" in lines[3]
    assert "500" in lines[4]
    assert len(lines) == 5


def test_other_services_are_heard_when_they_warn() -> None:
    assert shown("INFO scheduler: fine", service="scheduler") == ""
    assert shown("WARNING scheduler: not fine", service="scheduler") == "scheduler │ WARNING scheduler: not fine\n"
    assert shown("WARNING: noise", service="firestore") == ""


def test_the_machines_form_is_a_json_object_a_line() -> None:
    lines = [json.loads(line) for line in shown(HANDLED, "plain", machine=True).splitlines()]
    assert lines == [HANDLED, {"service": "functions", "message": "plain"}]


def test_an_announcement_has_its_traceback_below() -> None:
    file = io.StringIO()
    Terminal(Console(file=file, width=200)).announce("not reloaded: a/main.py:1: IndexError", failure())
    assert file.getvalue().startswith("not reloaded: a/main.py:1: IndexError\nTraceback")


def test_each_line_of_an_announcement_is_a_line_of_the_terminal() -> None:
    file = io.StringIO()
    text = "not all runs continue with the new shop: 1 of 2 runs would be stuck with this code:\n  waits/w1: \x1b[2J"
    Terminal(Console(file=file, width=200)).announce(text)
    assert file.getvalue().splitlines() == [text.split("\n")[0], "  waits/w1: \\u001b[2J"]


def test_the_last_lines_of_a_log_are_those_that_are_shown(tmp_path: Path) -> None:
    log = tmp_path / "functions.log"
    idle = json.dumps({**HANDLED, "function": "sweep", "kind": "schedule"})
    log.write_text("\n".join(["first", "second", *[idle] * 40, "third", idle, ""]))
    terminal = Terminal(Console(file=io.StringIO()))
    assert [line for _, line in last_lines(log, 2, terminal.shows)] == ["second", "third"]
    assert last_lines(log, 1, Terminal(Console(), machine=True).shows) == [("functions", idle)]
