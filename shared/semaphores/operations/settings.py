"""Create, change and show semaphores."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Condition, Conflict, Must, Ports, Put, Query
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Unavailable
from shared.semaphores.operations.records import read_waiter, waiters_query
from shared.semaphores.operations.transitions import SemaphoreReads, change, load
from shared.semaphores.rules import upkeep as rules
from shared.semaphores.rules.requests import SemaphoreSettings, SettingsPatch, check_name
from shared.semaphores.rules.semaphores import COLLECTION, Semaphore, path_of
from shared.semaphores.rules.transitions import Loaded, QueueReads, Transition
from shared.semaphores.rules.wait_queue import head_of

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PutSemaphore:
    """A semaphore as people see it, and whether this call created it."""

    shown: Json
    created: bool


def put(ports: Ports, name: str, settings: SemaphoreSettings) -> PutSemaphore:
    """Create a semaphore or set its settings; leases and waiters stay. Raises `BadKey` or `Unavailable`.

    Fewer permits hold for new grants, and end waits that want more than that; more are granted to those who wait.
    """
    check_name(name)
    for attempt in range(LIMITS.rounds_max):
        try:
            return PutSemaphore(_set(ports, name, lambda _: settings), created=False)
        except NoSemaphore:
            if (created := _create(ports, name, settings)) is not None:
                return PutSemaphore(created, created=True)
            pause(ports, attempt)
    raise Unavailable(f"semaphore {name} is created and deleted by many at once")


def patch(ports: Ports, name: str, request: SettingsPatch) -> Json:
    """Change some settings; return the semaphore, and how many waits that ended.

    Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`.
    """
    return _set(ports, name, request.applied_to)


def _set(ports: Ports, name: str, settings: Callable[[SemaphoreSettings], SemaphoreSettings]) -> Json:
    def changed_to(loaded: Loaded) -> SemaphoreSettings:
        return settings(rules.settings_of(loaded.semaphore))

    def reads(loaded: Loaded) -> QueueReads:
        return rules.settings_reads(loaded, changed_to(loaded))

    def rule(loaded: Loaded) -> Transition[Semaphore]:
        return rules.change_settings(loaded, changed_to(loaded))

    changed = change(ports, SemaphoreReads(name, reads), rule)
    ended = len(changed.transition.waiters)
    return changed.answer.to_json(name, changed.loaded.now) | ({"waits_ended": ended} if ended else {})


def _create(ports: Ports, name: str, settings: SemaphoreSettings) -> Json | None:
    """Create the semaphore; None: it was created meanwhile."""
    [snapshot] = ports.store.read(path_of(name))
    semaphore = rules.create(settings)
    try:
        ports.store.commit([Put(path_of(name), semaphore.to_record(snapshot.read_time), Must.NOT_EXIST)])
    except Conflict:
        return None
    return semaphore.to_json(name, snapshot.read_time)


# --- show ---


def get(ports: Ports, name: str) -> Json:
    """Return a semaphore with its leases and the head of its wait queue. Raises `NoSemaphore`."""
    loaded = load(ports, name)
    found = map(read_waiter, ports.store.query(waiters_query(name, LIMITS.waiters_shown_max)))
    in_order = head_of([one for one in found if one], more=False)
    waiters = [one.to_json() for one in in_order if one.incarnation == loaded.incarnation]
    return loaded.semaphore.to_json(name, loaded.now) | {"waiters": waiters}


def list_waiting(ports: Ports) -> list[Json]:
    """List the semaphores with waiters: who holds them, and how many wait."""
    modes = Condition(("mode",), "in", ["closed", "opening"])
    found = ports.store.query(Query(COLLECTION, (modes,), limit=LIMITS.semaphores_listed_max))
    counted = ((snapshot, ports.store.count(waiters_query(snapshot.id, 1))) for snapshot in found)
    return [
        Semaphore.from_record(one.data or {}).to_json(one.id, one.read_time) | {"waiting": count}
        for one, count in counted
        if count
    ]
