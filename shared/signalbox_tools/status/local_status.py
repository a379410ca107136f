"""The status and the logs of the local stack that serves this clone."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from signalbox.adapters.settings import Settings, from_environment
from signalbox.catalogue.parts import SWEEP
from signalbox.core import outbox
from signalbox.core.given import given
from signalbox.core.ports import Query, Store
from signalbox.core.records.queries import Condition, Order
from signalbox.flows.model.addresses import FlowAddress
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import HEADER_SINCE, collection_of
from signalbox.objects.machine.deadly_calls import is_call_given_up
from signalbox.tasks.model import failures
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.logs.log_entries import entry_of, time_of
from signalbox_tools.local.scheduler import paused_in
from signalbox_tools.local.services.command_lines import stats
from signalbox_tools.local.store.local_store import local_store
from signalbox_tools.status.status_lines import OBJECTS_MAX, Objects, Outbox, Part, Queue, StuckFlows, Sweep

ERRORS_MAX = 10
READ_MAX = 300


class LocalSource:
    """Reads a running stack by its own services, and by the logs in its folder."""

    def __init__(self, stack: RunningStack) -> None:
        self._stack = stack

    def parts(self) -> Sequence[Part]:
        """Return the stack and each of its services."""
        stack = self._stack
        answers = {
            "functions": stack.serves(),
            "cloud-tasks": self._queues is not None,
            **given(events=(self._events is not None) if self._settings.triggers or self._events else None),
        }
        services = [Part(name, "up" if up else "does not respond", up) for name, up in answers.items()]
        return [Part("stack", f"{stack.base_url}, store: {stack.store}, process {stack.pid}"), *services]

    def queues(self) -> Sequence[Queue]:
        named = {name.rpartition("/")[2]: counts for name, counts in (self._queues or {}).items()}
        queues = {**named, **given(events=self._events or None)}
        return [Queue(name, counts["waiting"], counts["running"]) for name, counts in queues.items()]

    def paused_schedules(self) -> Sequence[str]:
        return paused_in(Path(self._stack.folder))

    def outbox(self) -> Outbox:
        found = self._store.query(Query(outbox.COLLECTION, limit=READ_MAX))
        ages = [(each.read_time - each.create_time).total_seconds() for each in found if each.create_time]
        return Outbox(len(found), max(ages, default=None), len(found) == READ_MAX)

    def objects(self) -> Objects:
        cards = self._store.query(Query(ObjectAddress.COLLECTION, limit=OBJECTS_MAX))
        waits = Condition(("since",), ">", HEADER_SINCE), Order(("since",))
        waiting = sum(self._store.count(Query(collection_of(card.path), waits[:1], waits[1:])) for card in cards)
        latest = Query(failures.FAILURES, order_by=(Order((failures.FAILED_AT,), descending=True),), limit=READ_MAX)
        given_up = sum(is_call_given_up(each.data or {}) for each in self._store.query(latest))
        return Objects(len(cards), waiting, given_up, len(cards) == OBJECTS_MAX)

    def last_sweep(self) -> Sweep | None:
        parts = self._settings.parts
        if parts is not None and SWEEP not in parts:
            return None
        last: Mapping[str, Any] | None = None
        for entry in entries(self._stack.functions_log):
            if entry.get("function") == "sweep" and entry.get("message") == "handled" and time_of(entry):
                last = entry
        if last is None or (at := time_of(last)) is None:
            return Sweep(None)
        ago = datetime.now(UTC) - at
        return Sweep(ago.total_seconds(), int(last.get("status", 500)) < 400)

    def stuck_flows(self) -> StuckFlows:
        found = self._store.query(
            Query(FlowAddress.COLLECTION, (Condition(("state",), "==", "stuck"),), limit=READ_MAX)
        )
        runs = ["/".join(each.id.split("~", 1)) for each in found]
        return StuckFlows(runs, len(found) == READ_MAX)

    def errors(self) -> Sequence[Mapping[str, Any]]:
        found = (entry for entry in entries(self._stack.functions_log) if entry.get("severity") == "ERROR")
        return list(deque(found, ERRORS_MAX))

    @cached_property
    def _store(self) -> Store:
        return local_store(self._settings, self._stack.environment)

    @property
    def _settings(self) -> Settings:
        return from_environment(self._stack.environment)

    @cached_property
    def _queues(self) -> Any:
        return stats(self._stack.queues_url)

    @cached_property
    def _events(self) -> Any:
        return stats(self._stack.events_url)


def entries(log: Path) -> Iterator[dict[str, Any]]:
    """Iterate over the JSON lines of a log."""
    with log.open("rb") as lines:
        for line in lines:
            if line.startswith(b"{") and (entry := entry_of(line)):
                yield entry


def last_lines(log: Path, count: int, is_shown: Callable[[str, str], bool]) -> list[tuple[str, str]]:
    """Return the last lines of a log that are shown, with its service's name."""
    with log.open("rb") as lines:
        texts = (line.decode("utf-8", "replace").rstrip("\n") for line in lines)
        return [(log.stem, text) for text in deque((text for text in texts if is_shown(log.stem, text)), count)]


def follow(log: Path, show: Any) -> None:
    """Show new lines of a log until Ctrl-C."""
    from signalbox_tools.local.logs.follower import LogFollower

    follower = LogFollower([log], show, from_end=True)
    follower.start()
    try:
        while True:
            time.sleep(3600)
    except KeyboardInterrupt:
        follower.stop()
