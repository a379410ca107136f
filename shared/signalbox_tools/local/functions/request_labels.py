"""Labels of the local log's lines that the cloud's lines lack: path, task, key, attempt, and the author of a `print`.

In the cloud, Cloud Run's own log of requests has them, under the same trace. The labels are in a context variable,
which a request has, but not the threads that it may start.

A caller chooses most of them, so each is cut: refused requests of another site's page could fill the log with long
addresses. The token in the address of a callback, whose holder may use it, is left out.
"""

import io
import json
import re
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import unquote

from signalbox.adapters import runtime
from signalbox.core.effects import RecordedSpan
from signalbox.core.ports import Log

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

BODY_BYTES_MAX = 2**20
LABEL_CHARACTERS_MAX = 500
TOKEN = re.compile(r"(?<=/callbacks)/+[^/?#]+")
CONSOLE = "console"
"""The page whose reads, one every two seconds, the terminal does not show."""

ID_FIELDS = ("semaphore", "key", "id", "batch", "source")
"""The members of a payload that can name the subject of a task. The first that exists is shown."""

_labels: ContextVar[dict[str, Any] | None] = ContextVar("signalbox.request_labels", default=None)


def labelled(app: "WSGIApplication") -> "WSGIApplication":
    """Label each request, and log a line for one that no function has handled, or that ended without a response."""

    def entry(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        labels, statuses, started = labels_of(environ), [], time.perf_counter()

        def noting(status: str, headers: Any, error: Any = None) -> Any:
            statuses.append(int(status[:3]))
            return start_response(status, headers, error) if error else start_response(status, headers)

        token = _labels.set(labels)
        try:
            return app(environ, noting)
        except BaseException as error:  # such as that of `sys.exit`, which no function handles
            runtime.log().error("unhandled exception", exception=error)
            raise
        finally:
            if "logged" not in labels and statuses:
                milliseconds = round((time.perf_counter() - started) * 1000, 1)
                runtime.log().info("not handled", status=statuses[-1], milliseconds=milliseconds)
            _labels.reset(token)

    return entry


def current_labels() -> Mapping[str, Any]:
    """Return the labels of the current request."""
    return _labels.get() or {}


def labels_of(environ: "WSGIEnvironment") -> dict[str, Any]:
    """Return the labels of a request, from its address and headers, and for a task from its body."""
    return {name: _cut(value) if isinstance(value, str) else value for name, value in _labels_of(environ).items()}


def _cut(text: str) -> str:
    return text if len(text) <= LABEL_CHARACTERS_MAX else f"{text[:LABEL_CHARACTERS_MAX]}…"


def _labels_of(environ: "WSGIEnvironment") -> dict[str, Any]:
    path = str(environ.get("RAW_URI") or environ.get("PATH_INFO", ""))
    function = path.lstrip("/").partition("?")[0].partition("/")[0].replace("-", "_")
    if "HTTP_X_CLOUDTASKS_QUEUENAME" in environ:
        attempt = environ.get("HTTP_X_CLOUDTASKS_TASKRETRYCOUNT", "0")
        return {"kind": "task", "function": function, **_task(environ), "attempt": _number(attempt) + 1}
    if "HTTP_X_CLOUDSCHEDULER" in environ:
        return {"kind": "schedule", "function": function, "id": environ.get("HTTP_X_CLOUDSCHEDULER_JOBNAME", "")}
    if "HTTP_CE_ID" in environ:
        return {"kind": "event", "function": function, "id": unquote(environ.get("HTTP_CE_DOCUMENT", ""))}
    by_console = {"page": CONSOLE} if environ.get("HTTP_REFERER", "").endswith(f"/{CONSOLE}") else {}
    method = environ.get("REQUEST_METHOD", "")
    return {"kind": "http", "function": function, "method": method, "path": _without_token(path), **by_console}


def _without_token(path: str) -> str:
    """Return an address without the token of a callback, also if letters of the address are percent-encoded."""
    is_encoded = TOKEN.search(path) is None
    return TOKEN.sub("/…", unquote(path) if is_encoded and TOKEN.search(unquote(path)) else path)


def _task(environ: "WSGIEnvironment") -> dict[str, str]:
    """Return a task's name and its subject. Its body can be read again afterwards."""
    length = min(_number(str(environ.get("CONTENT_LENGTH") or "0")), BODY_BYTES_MAX)
    body = environ["wsgi.input"].read(length) if length else b""
    if body:
        environ["wsgi.input"] = io.BytesIO(body)
    try:
        envelope = json.loads(body)
        return {"task_name": str(envelope["task"]), "id": _about(envelope)}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {"task_name": "", "id": ""}


def _about(envelope: Mapping[str, Any]) -> str:
    """Return the subject of a task: its unit, flow, lease or batch, else a key in its payload, else its operation."""
    payload = envelope["payload"]
    if flow := _flow(envelope.get("step"), payload):
        return flow
    if isinstance(unit := envelope.get("unit"), dict):
        return f"{unit.get('batch')}/{unit.get('index')}"
    work = payload.get("work")  # a task of the kit for links
    for about in (envelope.get("lease"), envelope.get("batch"), payload, work if isinstance(work, dict) else {}):
        if isinstance(about, dict) and (named := next((str(about[name]) for name in ID_FIELDS if name in about), "")):
            return named
    return " ".join(f"{name}={value}" for name, value in (work or {}).items()) or str(envelope["operation"])[:12]


def _flow(step: object, payload: Mapping[str, Any]) -> str:
    """Return the run that a task belongs to, with the place in its log, or the object, as class and key."""
    place = step if isinstance(step, dict) else payload
    mailbox = str(place.get("flow") or payload.get("mailbox") or "")
    named = mailbox.partition("/")[2].replace("~", "/", 1)
    return f"{named} step {place['path']}" if named and "path" in place else named


def _number(digits: str) -> int:
    return int(digits) if digits.isdecimal() and len(digits) < 20 else 0


class LabelledLog:
    """A log that adds the labels of the current request to each line."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def note(self, **seconds: float) -> None:
        self._log.note(**seconds)

    def span(self, recorded: RecordedSpan) -> None:
        self._log.span(recorded)

    def info(self, message: str, /, **values: object) -> None:
        self._log.info(message, **self._labelled(message, values))

    def warning(self, message: str, /, **values: object) -> None:
        self._log.warning(message, **self._labelled(message, values))

    def error(self, message: str, /, **values: object) -> None:
        self._log.error(message, **self._labelled(message, values))

    def _labelled(self, message: str, values: Mapping[str, object]) -> dict[str, object]:
        labels = _labels.get() or {}
        if message == "handled":
            labels["logged"] = True
        return {**{name: value for name, value in labels.items() if name != "logged"}, **values}


class MarkedOutput(io.TextIOBase):
    """Standard output that writes each line of a `print` as a JSON line with the function's name.

    Lines of JSON with a severity are written unchanged, as Cloud Logging accepts them.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._thread = threading.local()

    def write(self, text: str) -> int:
        if text.startswith("{") and text.endswith("}\n") and '"severity"' in text:
            return self._stream.write(text)
        *lines, self._thread.rest = (getattr(self._thread, "rest", "") + text).split("\n")
        function = (_labels.get() or {}).get("function", "")
        for line in lines:
            printed = {"severity": "DEFAULT", "message": "printed", "function": function, "text": line}
            self._stream.write(json.dumps(printed) + "\n")
        return len(text)

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return self._stream.fileno()


def mark_output() -> None:
    """Label everything that this process prints from now on."""
    for name in ("stdout", "stderr"):
        if not isinstance(getattr(sys, name), MarkedOutput):
            setattr(sys, name, MarkedOutput(getattr(sys, name)))
