"""List tasks and calls that were given up; in the cloud also events, which can be delivered again."""

import shlex
from collections.abc import Iterator
from urllib.parse import quote

from signalbox_tools.status.base_url import Get
from signalbox_tools.status.dead_events import DeadEvents

SHOWN_MAX = 100
DETAIL_MAX = 100
REPLAY = (
    "Deliver them again, once their function is corrected: signalbox failures -p {project} -e {environment} --replay"
)


def lines_of(get: Get, events: DeadEvents | None) -> Iterator[str]:
    """Iterate over the lines: one for each task, then one for each event; `events` is None for the local stack."""
    failures = get("failures")
    listed = failures["failures"]
    more = "+" if failures.get("next_page_token") else ""
    yield f"Tasks and calls that were given up: {len(listed)}{more}"
    for each in listed:
        why = _short(each.get("detail") or each["error"])
        yield f"  {each['failed_at']}  {each['id']}  {each['function']}.{each['task']}  {why}"
    if listed:
        first = listed[0]["id"]
        place = f" -p {events.target.project} -e {events.target.environment}" if events else ""
        yield f"Run one again, once its cause is corrected: signalbox failures retry {shlex.quote(first)}{place}"
        yield f"or POST {{base}}failures/{quote(first)}/retry"
    if events is not None:
        yield from _events(events)


def _events(events: DeadEvents) -> Iterator[str]:
    found = events.listed(SHOWN_MAX)
    yield f"Events that were given up: {len(found)}{'+' if len(found) >= SHOWN_MAX else ''}"
    for each in found:
        yield f"  {each.time}  {each.function}  {each.document}  after {each.deliveries} deliveries"
    if found:
        target = events.target
        yield REPLAY.format(project=target.project, environment=target.environment)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= DETAIL_MAX else f"{line[:DETAIL_MAX]}…"
