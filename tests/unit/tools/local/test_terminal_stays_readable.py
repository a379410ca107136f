"""Nothing that user code or a caller writes into the log ends what `signalbox dev` shows, fills it, or is obeyed."""

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.logs.call_totals import LogStats
from signalbox_tools.local.logs.follower import BYTES_AT_ONCE, LogFollower
from signalbox_tools.local.logs.log_entries import NUMBERS, TEXTS
from signalbox_tools.local.logs.rendered_lines import SCREEN_CHARACTERS, Terminal
from signalbox_tools.status.local_status import LocalSource, entries
from signalbox_tools.terminal_text import HIDDEN

LONG = "x" * 100_000
ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[1A\u202ereversed\u2066\u200f\u061c\x9b31m\ud800"
DEEP = "[" * 100_000 + "]" * 100_000
LINES: dict[str, str] = {
    "a status in words": '{"severity": "INFO", "message": "handled", "status": "ok"}',
    "a status that is a list": '{"message": "handled", "status": [1], "kind": "http"}',
    "a status beyond numbers": '{"message": "handled", "status": 1e999}',
    "milliseconds in words": '{"message": "handled", "status": 200, "milliseconds": "5"}',
    "milliseconds that are no number": '{"message": "handled", "status": 200, "milliseconds": NaN}',
    "an attempt in words": '{"message": "handled", "status": 200, "attempt": "2"}',
    "writes in words": '{"message": "handled", "status": 200, "kind": "schedule", "function": "sweep", "writes": "no"}',
    "a kind that is an object": '{"message": "handled", "status": 200, "kind": {"a": 1}}',
    "a function that is a list": '{"message": "handled", "status": 200, "function": [], "task_name": {}}',
    "a time before all": '{"message": "m", "time": "0001-01-01T00:00:00+14:00"}',
    "a time after all": '{"message": "m", "time": "9999-12-31T23:59:59-14:00"}',
    "a time that is a number": '{"message": "m", "time": 5}',
    "a traceback of one empty line": '{"message": "m", "exception": "\\n", "function": "f"}',
    "a traceback that is a number": '{"message": "m", "exception": 7}',
    "many levels": '{"message": "m", "a": ' + DEEP + "}",
    "many digits": '{"message": "m", "a": ' + "9" * 10_000 + "}",
    "no object": "[1]",
    "a long print": LONG,
    "a long message": json.dumps({"message": LONG, "severity": "ERROR"}),
    "a long value": json.dumps({"message": "m", "a": LONG}),
    "a long name": json.dumps({"message": "m", LONG: 1}),
    "a long path": json.dumps({"message": "handled", "status": 200, "path": LONG, "method": LONG}),
    "a long traceback": json.dumps({"message": "m", "exception": "\n".join([LONG[:5_000]] * 300)}),
    "escapes printed": json.dumps({"message": "printed", "function": ESCAPES, "text": ESCAPES}),
    "escapes as they are": ESCAPES.encode("utf-8", "replace").decode(),
    "escapes in JSON that is none": "{" + ESCAPES.encode("utf-8", "replace").decode(),
    "escapes in a message": json.dumps({"message": ESCAPES, "severity": ESCAPES, "exception": ESCAPES, ESCAPES: 1}),
    "escapes in a request": json.dumps({"message": "handled", "status": 200, "method": ESCAPES, "path": ESCAPES}),
}
HEARD = '{"message": "still heard", "severity": "ERROR", "function": "shop"}'


def shown(*lines: str, machine: bool = False) -> str:
    file = io.StringIO()
    Terminal(Console(file=file, width=200, highlight=False), machine).show([("functions", line) for line in lines])
    return file.getvalue()


def assert_readable(text: str) -> None:
    text.encode("utf-8")
    assert HIDDEN.sub("", text.replace("\n", "")) == text.replace("\n", "")
    assert max(map(len, text.split("\n"))) < SCREEN_CHARACTERS + 200
    assert text.count("\n") < 300


@pytest.mark.parametrize("kind", LINES)
def test_the_terminal_shows_each_line_and_the_next_one(kind: str) -> None:
    text = shown(*[LINES[kind]] * 12, HEARD)
    assert_readable(text)
    assert "still heard" in text


@pytest.mark.parametrize("kind", LINES)
def test_the_machines_form_has_one_line_each_without_escapes(kind: str) -> None:
    line, heard = shown(LINES[kind], HEARD, machine=True).splitlines()
    assert HIDDEN.sub("", line) == line
    assert heard == HEARD


NAMES = st.sampled_from(sorted(TEXTS | NUMBERS | {"other"}))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
MESSAGES = st.fixed_dictionaries({"message": st.sampled_from(["handled", "not handled", "printed", "other"])})


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(MESSAGES, st.dictionaries(NAMES, VALUES, max_size=6)), min_size=1, max_size=12))
def test_members_of_any_type_are_shown_or_left_out(entries: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    lines = [json.dumps({**message, **members}) for message, members in entries]
    text = shown(*lines, HEARD)
    assert_readable(text)
    assert "still heard" in text


@pytest.mark.parametrize("read", [lambda log: list(entries(log)), lambda log: LogStats(log).sums()])
def test_the_other_readers_of_the_log_take_every_line(tmp_path: Path, read: Callable[[Path], object]) -> None:
    log = tmp_path / "functions.log"
    log.write_bytes("".join(f"{line}\n" for line in LINES.values()).encode("utf-8", "replace"))
    assert read(log)


def test_the_status_shows_the_last_sweep_also_after_lines_that_look_like_one(tmp_path: Path) -> None:
    sweep = {"message": "handled", "function": "sweep", "status": 204, "time": "2026-05-02T03:00:00+00:00"}
    forged = [sweep | {"time": "noon"}, sweep | {"time": 5}, {"message": "handled", "function": "sweep"}]
    (tmp_path / "functions.log").write_text("".join(f"{json.dumps(each)}\n" for each in (sweep, *forged)))
    last = LocalSource(RunningStack(str(tmp_path), 1, "", "", "", "", {})).last_sweep()
    assert last is not None
    assert last.seconds_ago is not None


@pytest.mark.parametrize("length", [BYTES_AT_ONCE - 1, BYTES_AT_ONCE, BYTES_AT_ONCE + 1, 3 * BYTES_AT_ONCE + 7])
def test_a_line_longer_than_a_read_is_begun_once_and_the_next_lines_are_shown(tmp_path: Path, length: int) -> None:
    log, lines = tmp_path / "functions.log", list[tuple[str, str]]()
    log.write_text("before\n")
    follower = LogFollower([log], lines.extend)
    follower.read()
    with log.open("a") as opened:
        opened.write("x" * length)
    for _ in range(6):
        follower.read()
    with log.open("a") as opened:
        opened.write("\nafter\n\nlast\n")
    while follower.read():
        pass
    first, *long, after, empty, last = [line for _, line in lines]
    assert (first, after, empty, last) == ("before", "after", "", "last")
    assert [len(line) <= BYTES_AT_ONCE and line.startswith("xxx") for line in long] == [True]
