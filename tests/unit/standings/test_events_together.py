"""Events of yokes that a process receives while it counts others are counted in one commit."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from signalbox.core.ports import DocumentEvent, Ports
from signalbox.standings import http, tasks
from signalbox.testing import Harness
from tests.unit.standings.standings_platform import event

SECONDS_MAX = 30


def test_events_that_arrive_while_one_is_counted_are_counted_together(monkeypatch: pytest.MonkeyPatch) -> None:
    groups: list[list[str]] = []
    begun, gate = Event(), Event()

    def count_events(ports: Ports, events: Mapping[str, DocumentEvent]) -> Mapping[str, bool | Exception]:
        groups.append(sorted(events))
        begun.set()
        assert gate.wait(SECONDS_MAX)
        return count(ports, events)

    count = tasks.count_events
    monkeypatch.setattr(tasks, "count_events", count_events)
    with Harness() as harness, ThreadPoolExecutor() as pool:
        for user in ("ann", "bob", "cyd"):
            harness.put(f"yokes/{user}/tea", json={})
        first = pool.submit(http.count_event, event("ann", "tea"))
        assert begun.wait(SECONDS_MAX)
        others = [pool.submit(http.count_event, event(user, "tea")) for user in ("bob", "cyd")]
        while sum(len(line.waiting) for line in http._GATHERING._lines.values()) < len(others):
            pass
        gate.set()
        for counted in (first, *others):
            counted.result(SECONDS_MAX)
        assert groups == [["ann~tea"], ["bob~tea", "cyd~tea"]]
        harness.run()
        assert harness.get("standings/item/tea").json["count"] == 1 + len(others)
