"""Create, change and show semaphores."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Condition, Conflict, Must, Ports, Put, Query, Snapshot
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Unavailable
from shared.semaphores.operations.records import read_waiter, waiter_path, waiters_query
from shared.semaphores.operations.transitions import SemaphoreReads, change, load
from shared.semaphores.rules import upkeep as rules
from shared.semaphores.rules.requests import SemaphoreSettings, SemaphoresQuery, SettingsPatch, check_name
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
    shown = loaded.semaphore.to_json(name, loaded.now)
    tasks = _tasks_of_holders(ports, loaded)
    leases = [lease | tasks.get(lease["id"], {}) for lease in shown["leases"]]
    return shown | {"leases": leases, "waiters": waiters}


def _tasks_of_holders(ports: Ports, loaded: Loaded) -> Mapping[str, Json]:
    """Return the tasks and holders of the first leases, by lease id: the receipts of their waits name them."""
    live = [lease for lease in loaded.semaphore.leases if lease.continued and lease.live(loaded.now)]
    paths = {waiter_path(loaded.name, lease.id): lease for lease in live[: LIMITS.waiters_shown_max]}
    receipts = map(read_waiter, ports.store.read(*paths) if paths else ())
    held = zip(paths.values(), receipts, strict=True)
    return {lease.lease_id: one.named() for lease, one in held if one and one.grant == lease.grant}


@dataclass(frozen=True, slots=True)
class SemaphoresPage:
    """Semaphores by name as people see them; `more` is the token of the next page as the answer holds it."""

    semaphores: list[Json]
    more: Mapping[str, str]

    def to_json(self) -> Json:
        """Return the page as people see it."""
        return {"semaphores": self.semaphores, **self.more}


def find(ports: Ports, request: SemaphoresQuery) -> SemaphoresPage:
    """Return a page of the semaphores with their leases; of those with waiters, also how many wait."""
    modes = (Condition(("mode",), "in", ["closed", "opening"]),) if request.waiting else ()
    listing = request.listing
    found = ports.store.query(Query(COLLECTION, modes, limit=listing.limit, after=listing.after))
    more = listing.next_page([one.id for one in found])
    if request.waiting:
        return SemaphoresPage(_with_waiters(ports, found), more)
    return SemaphoresPage([_shown(one) for one in found], more)


def _with_waiters(ports: Ports, found: Iterable[Snapshot]) -> list[Json]:
    """Count the waiters of each; one that is about to open has none, and is left out."""
    counted = ((one, ports.store.count(waiters_query(one.id, 1))) for one in found)
    return [_shown(one) | {"waiting": count} for one, count in counted if count]


def _shown(one: Snapshot) -> Json:
    return Semaphore.from_record(one.data or {}).to_json(one.id, one.read_time)
