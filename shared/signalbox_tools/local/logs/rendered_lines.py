"""Show log lines to a person: one line a request, task and event, and prints under their function's name.

A traceback is cut to the user's frames, below a line that names the task or request; a repetition is not shown.

The input is the JSON lines of the functions' log, and the plain lines of the other services. Colours only on a
terminal; ``LOG=json`` passes the lines on.

User code and callers choose parts of a line. So no line raises an error here, none takes more than a screen, and the
terminal obeys none.
"""

import json
import re
import threading
from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.syntax import Syntax
from rich.text import Text

from signalbox_tools.local.functions.request_labels import CONSOLE
from signalbox_tools.local.logs.log_entries import entry_of, object_of, time_of
from signalbox_tools.local.logs.tracebacks import cut, has_own_frame
from signalbox_tools.local.services.command_lines import READY
from signalbox_tools.terminal_text import visible

SHOWN_OF_A_KIND = 3
KIND_FOLDED = 10
"""If more successful lines of one kind arrive together, only the first few are shown."""

TRACES_REMEMBERED = 50
SCREEN_CHARACTERS = 2_000
"""A line of 25 rows of 80 characters. The log has the whole line."""

TRACE_LINES_MAX = 200

LABELS = ("kind", "path", "method", "id", "task_name", "attempt", "page")
CHANGES = ("writes", "deletes", "tasks")
NOT_SHOWN = frozenset({"severity", "message", "time", "function", "service", *LABELS, "task"})
KINDS = {"http": "cyan", "task": "magenta", "event": "blue", "schedule": "green"}
QUIET_SERVICES = frozenset({"firestore"})
LEVEL = re.compile(r"(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")

Line = tuple[str, str]
"""A service and a line of its log."""


class Terminal:
    """Writes to a console. `machine` is the form of ``LOG=json``; `full` is ``LOG=full``: all frames, every time."""

    def __init__(self, console: Console, machine: bool = False, full: bool = False) -> None:
        self._console = console
        self._machine = machine
        self._full = full
        self._traces_shown: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def announce(self, text: str, trace: str = "") -> None:
        """Write lines of the stack, and a traceback below them. They are red if they begin with "not"."""
        with self._lock:
            if self._machine:
                self._raw(json.dumps({"severity": "NOTICE", "message": text, "exception": trace}))
                return
            style = "bold red" if text.startswith("not ") else "bold green"
            for line in text.split("\n"):
                self._write(Text(shown(line), style=style))
            self._traceback(trace if self._full else cut(trace))
            self._traces_shown.clear()

    def shows(self, service: str, line: str) -> bool:
        """Return whether a line is written, by itself or folded with others."""
        return self._machine or _shown(service, line) is not None

    def show(self, lines: Iterable[Line]) -> None:
        """Write lines that arrived together."""
        with self._lock:
            if self._machine:
                for service, line in lines:
                    is_json = object_of(line) is not None
                    self._raw(visible(line) if is_json else json.dumps({"service": service, "message": line}))
                return
            entries = [entry for service, line in lines if (entry := _shown(service, line))]
            for _, group in groupby(entries, key=_fold_key):
                self._fold(list(group))

    def _fold(self, entries: list[Mapping[str, Any]]) -> None:
        folded = len(entries) > KIND_FOLDED and bool(_fold_key(entries[0]))
        for entry in entries[:SHOWN_OF_A_KIND] if folded else entries:
            self._entry(entry)
        if folded:
            more = len(entries) - SHOWN_OF_A_KIND
            self._write(Text(f"         … and {more:,} more like the last, all well", style="dim"))

    def _entry(self, entry: Mapping[str, Any]) -> None:
        message = str(entry.get("message", ""))
        if message == "printed":
            self._printed(entry)
        elif "status" in entry and message in ("handled", "not handled"):
            self._write(request_line(entry))
        else:
            self._message(entry, message)

    def _printed(self, entry: Mapping[str, Any]) -> None:
        name = str(entry.get("function") or entry.get("service", ""))
        line = Text.assemble((shown(f"{name} │ "), "yellow"), overflow="fold")
        line.append(shown(str(entry.get("text", ""))))
        self._write(line)

    def _message(self, entry: Mapping[str, Any], message: str) -> None:
        severity = str(entry.get("severity", "INFO"))
        style = "bold red" if severity == "ERROR" else "yellow" if severity == "WARNING" else "dim"
        values = {name: value for name, value in entry.items() if name not in NOT_SHOWN and "/" not in name}
        trace = str(values.pop("exception", "")).strip()
        is_refusal = "problem" in entry and not has_own_frame(trace)  # its detail is enough
        trace = trace if self._full else "" if is_refusal else cut(trace)
        earlier = self._shown_before(entry, trace)
        more = [f"{name}={_text(value)}" for name, value in values.items() if value not in ("", None)]
        more += [f"{trace.splitlines()[-1]}  (traceback: {earlier})"] if earlier else []
        said = f"{_clock(entry)} {severity.lower():7} {_subject(entry)}: {message}  {'  '.join(more)}"
        self._write(Text(shown(said.rstrip()), style=style))
        self._traceback("" if earlier else trace)

    def _shown_before(self, entry: Mapping[str, Any], trace: str) -> str:
        """Return the time at which the function's traceback has been shown, or an empty text if it is new."""
        if not trace or self._full:
            return ""
        key, now = (str(entry.get("function", "")), trace), _clock(entry)
        if key in self._traces_shown:
            return self._traces_shown[key]
        while len(self._traces_shown) >= TRACES_REMEMBERED:
            del self._traces_shown[next(iter(self._traces_shown))]
        self._traces_shown[key] = now.strip() or "above"
        return ""

    def _traceback(self, trace: str) -> None:
        if trace:
            syntax = Syntax("", "pytb", theme="ansi_dark", background_color="default")
            text = syntax.highlight("\n".join(map(shown, _screens_of(trace))))
            text.rstrip()
            self._write(text)

    def _write(self, text: Text) -> None:
        self._console.print(text, soft_wrap=True, highlight=False)

    def _raw(self, line: str) -> None:
        self._console.file.write(line + "\n")
        self._console.file.flush()


def parsed(service: str, line: str) -> dict[str, Any] | None:
    """Return a line's values, or None if it is not shown. A line that is not JSON is a message of its service."""
    if line.startswith("{") and (entry := entry_of(line)) is not None:
        return {"service": service, **entry}
    if service in ("functions", ""):
        return {"message": "printed", "service": service, "text": line}
    level = LEVEL.match(line)
    worth = service not in QUIET_SERVICES and level is not None and level[1] not in ("DEBUG", "INFO")
    return {"message": "printed", "service": service, "text": line} if worth else None


def _shown(service: str, line: str) -> dict[str, Any] | None:
    entry = parsed(service, line)
    return None if entry is None or is_idle(entry) else entry


def is_idle(entry: Mapping[str, Any]) -> bool:
    """Return whether a line reports a visit of the sweeper that found nothing to do, or a check by stack or command."""
    if str(entry.get("path", "")).endswith(f"/{READY}"):
        return True
    well = entry.get("message") in ("handled", "not handled") and entry.get("status", 500) < 400
    is_check = (entry.get("method"), entry.get("path")) == (
        "HEAD",
        "/",
    )  # a command checks whether the stack runs
    by_itself = is_check or entry.get("function") == "sweep" or entry.get("page") == CONSOLE
    return well and by_itself and not any(entry.get(name) for name in CHANGES)


def request_line(entry: Mapping[str, Any]) -> Text:
    """Return the line of a request: its time, name, result and duration."""
    kind, status = str(entry.get("kind", "http")), int(entry.get("status", 0))
    method = shown(str(entry.get("method") or kind)[:20])
    line = Text.assemble((f"{_clock(entry)} ", "dim"), (f"{method:8} ", KINDS.get(kind, "")))
    line.append(f"{shown(_what(entry, kind)):46} ", style="")
    line.append(f"{status} ", style="green" if status < 400 else "yellow" if status < 500 else "bold red")
    line.append(f"{entry.get('milliseconds', 0):7.0f} ms", style="dim")
    if (attempt := entry.get("attempt", 1)) > 1:
        line.append(f"  attempt {attempt}", style="yellow")
    if kind == "schedule" and entry.get("function") == "sweep":
        line.append("  " + ", ".join(f"{entry[name]} {name}" for name in CHANGES if entry.get(name)), style="dim")
    return line


def _subject(entry: Mapping[str, Any]) -> str:
    """Return the source of a message: the request, task or event and its attempt, or else a function or service."""
    if "kind" not in entry:
        return str(entry.get("function") or entry.get("service", ""))
    what = f"{entry.get('method', '')} {_what(entry, str(entry['kind']))}".strip()
    return f"{what}, attempt {attempt}" if (attempt := entry.get("attempt", 0)) else what


def _what(entry: Mapping[str, Any], kind: str) -> str:
    function = str(entry.get("function", ""))
    if kind == "task":
        return f"{function}.{entry.get('task_name') or '?'} {entry.get('id', '')}"
    if kind in ("event", "schedule"):
        return f"{function} {entry.get('id', '')}"
    return str(entry.get("path") or function)


def _fold_key(entry: Mapping[str, Any]) -> tuple[object, ...]:
    """Return the key of lines that may be folded into one, or an empty text if the line is never folded."""
    if entry.get("message") != "handled" or entry.get("status", 500) >= 400 or entry.get("attempt", 1) > 1:
        return ()
    return tuple(entry.get(name) for name in ("kind", "function", "task_name", "method", "status"))


def _clock(entry: Mapping[str, Any]) -> str:
    at = time_of(entry)
    return at.strftime("%H:%M:%S") if at else " " * 8


def shown(text: str) -> str:
    """Return a text as it is written: on one line, with its hidden characters as escapes, and at most a screen."""
    whole = visible(text[: SCREEN_CHARACTERS + 1])
    return whole if len(whole) <= SCREEN_CHARACTERS else f"{whole[:SCREEN_CHARACTERS]} … ({len(text):,} characters)"


def _text(value: object) -> str:
    try:
        return str(value)
    except (ValueError, RecursionError):  # too many digits, or too many levels
        return "…"


def _screens_of(trace: str) -> Iterable[str]:
    """Return the lines of a traceback, without its middle if there are too many."""
    lines = trace.split("\n")
    if len(lines) <= TRACE_LINES_MAX:
        return lines
    half = TRACE_LINES_MAX // 2
    return (*lines[:half], f"… {len(lines) - 2 * half:,} lines …", *lines[-half:])
