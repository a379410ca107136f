"""Acquires over HTTP that wait: they poll the semaphore for a few seconds, and hold no place in its wait queue."""

from collections.abc import Callable, Iterator
from threading import Event

import pytest

from signalbox.adapters.waiting_requests import Lines
from signalbox.core.problems import Unavailable
from signalbox.semaphores.http import permits
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.model.waiters import PAUSED
from signalbox.semaphores.requests import SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits
from tests.unit.cost_table import row_cost, total
from tests.unit.semaphores.test_semaphores_http import CALL, World


class Polled(World):
    """A world in which others act during sleeps, one act a sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: list[Callable[[], object]] = []

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.meanwhile:
            self.meanwhile.pop(0)()


@pytest.fixture
def world() -> Iterator[Polled]:
    world = Polled()
    with world.bound():
        settings.put(world.ports, "door", SemaphoreSettings(1, 60))
        yield world


def hold(world: Polled) -> str:
    lease = waits.wait(world.ports, "door", WaitRequest("holder")).lease
    assert lease is not None
    return lease.id


def test_an_acquire_is_granted_once_the_permit_is_free(world: Polled) -> None:
    lease = hold(world)
    world.meanwhile = [lambda: None, lambda: leases.signal(world.ports, "door", SignalRequest(lease))]
    answer = waits.acquire_within(world.ports, "door", WaitRequest("me"), 10)
    assert answer.lease is not None
    assert len(world.slept_seconds) == 2


def test_an_acquire_that_waits_costs_a_read_a_poll(world: Polled) -> None:
    hold(world)
    world.slept_seconds.clear()
    cost = world.cost_of(lambda: waits.acquire_within(world.ports, "door", WaitRequest("me"), 2))
    assert cost == total(*[row_cost("semaphores", "acquire_none")] * (len(world.slept_seconds) + 1))
    assert len(world.slept_seconds) <= 12
    assert sum(world.slept_seconds) == pytest.approx(2)


def test_a_lost_answer_is_repeated_under_its_id(world: Polled) -> None:
    first = waits.wait
    failed: list[object] = []

    def once(*arguments: object) -> object:
        if not failed:
            failed.append(first(*arguments))  # type: ignore[arg-type]  # as they were given
            raise Unavailable("lost")
        return first(*arguments)  # type: ignore[arg-type]  # as they were given

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waits, "wait", once)
        answer = waits.acquire_within(world.ports, "door", WaitRequest("me"), 2)
    assert answer == failed[0]
    failed.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(waits, "wait", once)
        with pytest.raises(Unavailable):
            waits.acquire_within(world.ports, "door", WaitRequest("me"), 0)


def test_it_is_asked_for_over_http(world: Polled) -> None:
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"id": "a"})[1]["acquired"]
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=0.05", {"id": "b"}) == (200, {"acquired": False})
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"id": "c", "continuation": CALL})[0] == 400
    for wrong in ("31", "-1", "soon"):
        status, problem = world.ask("POST", f"semaphore-wait/door?wait_seconds={wrong}", {})
        assert (status, problem["field"]) == (400, "wait_seconds")


@pytest.mark.parametrize("places", [0, 1])
def test_a_repeat_finds_its_lease_behind_others_and_with_no_place(
    world: Polled, monkeypatch: pytest.MonkeyPatch, places: int
) -> None:
    lines = Lines(places, 6)
    monkeypatch.setattr(permits, "_acquires", lines)
    if places:
        lines.enter((id(world.ports.store), "door"), "another", Event())  # another request looks for the permit
    first = waits.wait(world.ports, "door", WaitRequest("a")).lease
    assert first is not None
    repeated = world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"id": "a"})[1]
    assert (repeated["acquired"], repeated["lease"]["id"]) == (True, first.id)
    leases.signal(world.ports, "door", SignalRequest(first.id))
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"id": "a"})[1]["ended"]


def test_each_semaphore_has_a_line_of_its_own(world: Polled, monkeypatch: pytest.MonkeyPatch) -> None:
    lines, found = Lines(2, 6), list[object]()
    monkeypatch.setattr(permits, "_acquires", lines)
    monkeypatch.setattr(waits, "acquire_within", lambda *_: found.extend(lines._lines))
    for name in ("door", "gate", "door"):
        world.ask("POST", f"semaphore-wait/{name}?wait_seconds=5", {})
    assert len(found) == 3
    assert len(set(found)) == 2


def test_a_paused_semaphore_is_not_polled(world: Polled) -> None:
    settings.pause_grants(world.ports, "door")
    world.slept_seconds.clear()
    assert waits.acquire_within(world.ports, "door", WaitRequest("me"), 10) == PAUSED
    assert world.slept_seconds == []


def test_a_request_without_a_place_is_answered_at_once_by_the_record(
    world: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permits, "_acquires", Lines(0, 6))
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"id": "a"}) == (200, {"acquired": False})
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {"permits": 2})[0] == 400
    assert world.ask("POST", "semaphore-wait/gate?wait_seconds=5", {})[0] == 404
    settings.pause_grants(world.ports, "door")
    assert world.ask("POST", "semaphore-wait/door?wait_seconds=5", {})[1] == {"acquired": False, "paused": True}


def test_a_refused_request_is_awaited_if_it_has_an_id_and_asked_back_when_its_turn_is_expected(
    world: Polled, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines, expected, line = Lines(0, 6), dict[str, float](), (id(world.ports.store), "door")
    monkeypatch.setattr(permits, "_acquires", lines)
    monkeypatch.setattr(lines, "seconds_until_turn", lambda key, name: expected.get(name) if key == line else None)

    def retry_after(**body: str) -> str | None:
        answer = world.call("semaphore_wait", "/door?wait_seconds=5", method="POST", json=body, headers={})
        return answer.headers.get("Retry-After")

    assert retry_after() == "3"  # the clock's jitter is always 0.5
    assert lines._away == {}
    assert retry_after(id="a") == "3"
    assert list(lines._away) == [(line, "a")]
    expected["a"] = 1.4
    assert retry_after(id="a") == "1"
