"""Draw a run of a flow in text: the entries of its log with their times, and its pending commands with their ages."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from signalbox_tools.status.status_lines import duration

VALUE_LETTERS_MAX = 60
INDENT = "  "

Json = Mapping[str, Any]


def drawn(status: Json, entries: Sequence[Json], now: datetime) -> Iterator[str]:
    """Iterate over the lines of a run, by its status and its log as the HTTP API returns them."""
    yield f"{status['flow']}/{status['id']}: {status['state']}, {status.get('log_length', len(entries)):,} log entries"
    if status.get("progress") is not None:
        yield f"{INDENT}progress  {_short(status['progress'])}"
    yield from _log(entries)
    yield from _waiting(status, now)
    yield from _unawaited(status)
    yield from _end(status)


def _log(entries: Sequence[Json]) -> Iterator[str]:
    before: datetime | None = None
    for entry in entries:
        at = datetime.fromisoformat(entry["at"])
        passed = duration((at - before).total_seconds()) if before else ""
        yield f"{INDENT}{at:%Y-%m-%d %H:%M:%S}  {passed and f'+{passed}':>8}  {_entry(entry)}"
        before = at


def _entry(entry: Json) -> str:
    """Return an entry's text. The text is indented if the entry is one of several concurrent ones."""
    match entry["entry"]:
        case "done":
            error = entry.get("error")
            ended = f"failed: {error['detail'] or error['title']}" if error else _short(entry.get("result"))
            attempts = (
                f"  (attempt {entry['attempt']}, last error: {entry.get('last_error')})" if entry.get("attempt") else ""
            )
            return f"{INDENT * str(entry.get('path', '')).count('.')}{entry['command']}  {ended}{attempts}"
        case "event" | "update" as kind:
            return f"{kind} {entry['name']} came  {_short(entry.get('value'))}"
    return f"cancelled  {entry.get('reason', '')}".rstrip()


def _waiting(status: Json, now: datetime) -> Iterator[str]:
    for waits in status.get("waiting_for", ()):
        asked = waits.get("asked_at")
        since = f" for {duration((now - datetime.fromisoformat(asked)).total_seconds())}" if asked else ""
        attempt = f", attempt {waits['attempt']}" if waits.get("attempt", 1) > 1 else ""
        attempt += f", {waits['starts']} start{'s' if waits['starts'] > 1 else ''}" if waits.get("starts") else ""
        error = f", last error: {waits['last_error']}" if waits.get("last_error") else ""
        again = f", again at {datetime.fromisoformat(waits['next_at']):%H:%M:%S}" if waits.get("next_at") else ""
        yield f"{INDENT}waits{since}: {INDENT * str(waits['path']).count('.')}{waits['command']}{attempt}{error}{again}"


def _unawaited(status: Json) -> Iterator[str]:
    if unawaited := status.get("unawaited"):
        events, names = unawaited["events"], ", ".join(unawaited["names"])
        yield f"{INDENT}{events:,} event{'s' if events > 1 else ''} that nothing waits for: {names}"
    if unanswered := status.get("unanswered"):
        updates, names = unanswered["updates"], ", ".join(unanswered["names"])
        yield f"{INDENT}{updates:,} update{'s' if updates > 1 else ''} without an answer: {names}"


def _end(status: Json) -> Iterator[str]:
    if problem := status.get("problem"):
        yield f"{INDENT}stuck: {problem['detail']}"
    if error := status.get("error"):
        yield f"{INDENT}{status['state']}: {error.get('detail') or error.get('title')}"
    elif status["state"] == "completed":
        yield f"{INDENT}result  {_short(status.get('result'))}"


def _short(value: Any) -> str:
    match value:
        case {"$payload": {"bytes": int(size), "sha256": str(sha256)}}:  # `signalbox flows value` needs all of the hash
            return f"large value, {size:,} bytes, {sha256}"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= VALUE_LETTERS_MAX else f"{text[: VALUE_LETTERS_MAX - 1]}…"
