"""Create, change and show semaphores."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from shared.core.operations.perform import pause
from shared.core.operations.ports import Condition, Conflict, Must, Ports, Put, Query
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import NoSemaphore, Unavailable
from shared.semaphores.operations.changes import Done, Seen, Step, change, line_query, see
from shared.semaphores.rules import semaphores
from shared.semaphores.rules.requests import Limits, check_name
from shared.semaphores.rules.semaphores import COLLECTION, Semaphore, path_of

Shown = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stored:
    """A semaphore as people see it, and whether this call created it."""

    shown: Shown
    created: bool = False


def put(ports: Ports, name: str, body: Mapping[str, Any]) -> Stored:
    """Create a semaphore or set its limits; leases and line stay. Raises `BadSemaphore`, `BadKey` or `Unavailable`.

    Lowering the number of permits holds for new grants; raising it wakes who waits.
    """
    limits = Limits.parse(body)
    check_name(name)
    for attempt in range(LIMITS.rounds_max):
        try:
            return Stored(_limit(ports, name, lambda _: limits))
        except NoSemaphore:
            if (created := _create(ports, name, limits)) is not None:
                return Stored(created, created=True)
            pause(ports, attempt)
    raise Unavailable(f"semaphore {name} is created and deleted by many at once")


def patch(ports: Ports, name: str, body: Mapping[str, Any]) -> Stored:
    """Set some limits. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    return Stored(_limit(ports, name, lambda seen: Limits.parse(body, _limits(seen.semaphore))))


def _limit(ports: Ports, name: str, limits_of: Any) -> Shown:
    def decide(seen: Seen) -> Step[Semaphore]:
        limits: Limits = limits_of(seen)
        after = replace(seen.semaphore, **{part: getattr(limits, part) for part in Limits.__slots__})
        raised = after.permits > seen.semaphore.permits and after.mode != "open"
        return Step(after, after, nudge=raised)

    done: Done[Semaphore] = change(ports, name, decide)
    return _shown(name, done.answer, done.seen)


def _create(ports: Ports, name: str, limits: Limits) -> Shown | None:
    """Create the semaphore; None: somebody else has."""
    [snapshot] = ports.store.read(path_of(name))
    semaphore = Semaphore(limits.permits, limits.lease_seconds, limits.delete_after_seconds)
    try:
        ports.store.commit([Put(path_of(name), semaphores.encode(semaphore, snapshot.read_time), Must.NOT_EXIST)])
    except Conflict:
        return None
    return _shown(name, semaphore, Seen(name, semaphore, snapshot))


def _limits(semaphore: Semaphore) -> Limits:
    return Limits(semaphore.permits, semaphore.lease_seconds, semaphore.delete_after_seconds)


# --- show ---


def get(ports: Ports, name: str) -> Shown:
    """Show a semaphore with its leases and its line. Raises `NoSemaphore`."""
    seen = see(ports, check_name(name))
    line = ports.store.query(line_query(name, LIMITS.waiters_shown_max))
    waiting = [one for one in line if one.data and one.data["incarnation"] == seen.incarnation]
    shown = [
        {"id": one.id, "since": (one.data or {})["since"], "permits": (one.data or {})["permits"]} for one in waiting
    ]
    return _shown(name, seen.semaphore, seen) | {"line": shown}


def list_waiting(ports: Ports) -> list[Shown]:
    """List the semaphores that somebody waits for, with who holds them and how many wait."""
    modes = Condition(("mode",), "in", ["closed", "opening"])
    found = ports.store.query(Query(COLLECTION, (modes,), limit=LIMITS.semaphores_listed_max))
    counted = ((snapshot, ports.store.count(line_query(snapshot.id, 1))) for snapshot in found)
    return [
        _shown(one.id, decoded := semaphores.decode(one.data or {}), Seen(one.id, decoded, one)) | {"waiting": count}
        for one, count in counted
        if count
    ]


def _shown(name: str, semaphore: Semaphore, seen: Seen) -> Shown:
    live = [lease for lease in semaphore.leases if lease.live(seen.now)]
    ttl = {} if semaphore.delete_after_seconds is None else {"delete_after_seconds": semaphore.delete_after_seconds}
    return {
        "name": name,
        "permits": semaphore.permits,
        "free": max(0, semaphore.free(seen.now)),
        "lease_seconds": semaphore.lease_seconds,
        **ttl,
        "leases": [lease.shown() | {"permits": lease.permits} for lease in live],
    }
