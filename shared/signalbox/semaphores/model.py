"""The state of a semaphore: settings, leases, waiters, and their records.

                 a wait that finds no free permit closes it     a decision that read `opening`, and then an empty
                ┌───────────────────────────────────┐           wait queue, opens it
    open ───────┘                                   ▼                              │
      ▲                                          closed ── the wait queue is empty ─► opening ──┐
      └─────────────────────────────────────────────────────────────────────────────────────────┘

One record has the settings, the leases and the mode. While the semaphore is open, the wait queue is empty, and this
record alone decides a wait. Otherwise permits go to the head of the wait queue. The semaphore opens in two steps,
because a wait can join the queue without writing this record. Such a wait reads the record again afterwards: either it
reads `open` and closes the semaphore, or its own record existed before the queue was found empty.

**Leases.** A lease is granted under a fencing token that grows from grant to grant, also when the semaphore is deleted
and created again. The lease id that callers receive contains the wait's id and the token (``ID~TOKEN``), so a late
signal cannot end a later lease of the same wait. A continuation's lease is granted for a short time and starts when its
task claims it. A second delivery of that task claims it again under a new token: `grant` is the token of the grant,
`token` the one that is valid now.

**Waiters.** A wait with a continuation has a record of its own. The wait queue is ordered by these records' create
times. No query can order by a create time, so while a waiter is in the queue, its record has the field `since`, which
is close to its create time. A query ordered by `since` therefore finds the queue and nothing else. After that the
record is a receipt: it identifies a repeated wait, which is then answered with the current state. `joined` keeps the
value of `since`, so a wait whose grant was lost returns to its old place.

**Lanes.** A wait may name a key (whose it is) and a priority. Waits of one key and priority are a lane; a wait with
neither is in the plain lane, whose waiters have the records of a semaphore without lanes. A waiter of another lane has
`lane` and, instead of `since`, the map `places` with one field that is named after its lane: a query ordered by that
field finds the queue of this lane. While there are such waiters, `lanes` in the semaphore's record lists the lanes
(`machine/lanes.py`); then the mode is `closed`, and each lane has a mode of its own.

`alarm_at` is the end of the earliest lease: while the queue may have waiters, an admit run is due then. `sweep_at` is
the time by which the sweeper visits the semaphore, even if all its tasks were lost.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.formats import FORMAT
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.times import microseconds
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.problems import BadSemaphore

COLLECTION = "semaphores"

TOKEN_DIGITS_MAX = 20
"""More digits than a token in microseconds ever has, and few enough to parse quickly."""


def path_of(name: str) -> str:
    return f"{COLLECTION}/{name}"


def waiter_path(name: str, id_: str) -> str:
    return f"{path_of(name)}/waiters/{id_}"


def release_path(name: str, lease_id: str) -> str:
    """Return the path of a release that was left for an admit run."""
    return f"{path_of(name)}/releases/{lease_id}"


# --- leases ---


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as its holder sees it: permits of `semaphore` until `ends_at`, by the server's clock.

    `id` identifies this lease to signal and renew. `token` grows from lease to lease of one semaphore, so whatever the
    permits protect can refuse a smaller one.
    """

    semaphore: str
    id: str
    token: int
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease in the semaphore's record. `id` is the id of its wait.

    `seconds` is its length from its claim. `continued` is true if it belongs to a continuation, and `claimed` once the
    continuation's task has claimed it.
    """

    id: str
    grant: int
    token: int
    ends_at: datetime
    permits: int
    seconds: float
    continued: bool = False
    claimed: bool = False

    @property
    def lease_id(self) -> str:
        """The id that callers signal and renew with."""
        return lease_id(self.id, self.token)

    def live(self, now: datetime) -> bool:
        """Return whether the lease has not expired."""
        return now < self.ends_at

    @property
    def silent_at(self) -> datetime | None:
        """The time at which the task of an unclaimed grant counts as lost; None if there is no such task."""
        if not self.continued or self.claimed:
            return None
        return self.ends_at + timedelta(seconds=LIMITS.grant_silent_seconds)

    def is_ended_by(self, release: "Release | None") -> bool:
        """Return whether this release, left for an admit run, is of this lease under its current token."""
        return release is not None and (release.id, release.token) == (self.id, self.token)

    def held(self, semaphore: str) -> Lease:
        """Return the lease as its holder sees it."""
        return Lease(semaphore, self.lease_id, self.token, self.ends_at)

    def to_record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**record)


@dataclass(frozen=True, slots=True)
class EndedLease:
    """A lease that has ended, kept for a while so that a repeated call is recognised.

    `operation` is the signal that ended it. It is empty if the lease expired, or if the signal was already too late
    when it was decided. `in_time` means that the signal is known to have come before the end of the lease; if it is
    false, the time of the commit decides.
    """

    id: str
    token: int
    ends_at: datetime
    operation: str = ""
    in_time: bool = False

    def to_record(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(**record)


@dataclass(frozen=True, slots=True)
class Release:
    """The end of a token, stored as a record of its own that an admit run applies.

    `operation` identifies the signal, or states that another delivery of the task has taken the lease over.
    `created_at` is the commit time of the record, or None before the commit.
    """

    id: str
    token: int
    operation: str
    incarnation: int
    created_at: datetime | None = None

    @property
    def lease_id(self) -> str:
        """The id of the lease that ends."""
        return lease_id(self.id, self.token)

    def to_record(self) -> dict[str, Any]:
        return {"id": self.id, "token": self.token, "operation": self.operation, "incarnation": self.incarnation}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], created_at: datetime | None) -> Self:
        return cls(**record, created_at=created_at)


def lease_id(id_: str, token: int) -> str:
    """Return the lease id of a wait's id and a token."""
    return f"{id_}~{token}"


def parse_lease_id(text: Any) -> tuple[str, int]:
    """Return the two parts of a lease id, the wait's id and the token. Raises `BadSemaphore`."""
    id_, _, token = text.rpartition("~") if isinstance(text, str) else ("", "", "")
    if not id_ or not token.isascii() or not token.isdecimal() or len(token) > TOKEN_DIGITS_MAX:
        raise BadSemaphore("`lease` must be the id of a lease, as the answer of the wait contains it.", field="lease")
    return id_, int(token)


# --- waiters ---

State = Literal["waiting", "granted", "lost", "cancelled", "timed_out", "refused"]
"""`lost`: its lease expired and was evicted from the semaphore's record. `refused`: the permits of the semaphore were
lowered below the number that the wait needs."""

_CALLS = ("continuation", "on_timeout")
_OPTIONS: Mapping[str, Any] = {
    "permits": 1,
    "lease_seconds": None,
    "release_on_return": False,
    "release_on_failure": False,
    "resumes": "",
    "resumed": 0,
}
"""The options of a wait that its task receives, with their defaults. See `WaitRequest` for the last two."""

_TEXTS = ("holder", "unit", "key", "priority")
"""The options that most waits do not have. They are stored only if they are not empty."""

PAUSED_FORMAT = 3
"""The format of a paused semaphore: earlier releases would grant its permits."""

LANES_FORMAT = 2
"""The format of a semaphore with lanes or weights, and of a waiter with a key or a priority."""

_WAITER_FIELDS = (*_OPTIONS, "incarnation", "deadline_at", "state", "grant")


@dataclass(frozen=True, slots=True)
class Waiter:
    """A wait with a continuation. `grant` is the token of its last grant; `holder` is the name given by the caller.

    `key` and `priority` are the caller's, too, and empty for none and the normal one. `lane` is the lane in whose queue
    the waiter is, and `since` its place there.

    `incarnation` is the create time, in microseconds, of the semaphore it waits for: a later semaphore of the same name
    never grants it. `created_at` and `version` are the create and update time of its record, or None if the record is
    not known to exist.
    """

    id: str
    incarnation: int
    continuation: Call
    permits: int = 1
    lease_seconds: float | None = None
    release_on_return: bool = False
    release_on_failure: bool = False
    resumes: str = ""
    resumed: int = 0
    unit: str = ""
    holder: str = ""
    key: str = ""
    priority: str = ""
    lane: str = ""
    on_timeout: Call | None = None
    deadline_at: datetime | None = None
    state: State = "waiting"
    grant: int | None = None
    joined: datetime | None = None
    since: datetime | None = None
    expires_at: datetime | None = None
    version: datetime | None = None
    created_at: datetime | None = None

    def options(self) -> dict[str, Any]:
        """Return the options of the wait that differ from their defaults: they repeat the same wait."""
        defaults = {**_OPTIONS, **dict.fromkeys(_TEXTS, "")}
        return {name: getattr(self, name) for name, default in defaults.items() if getattr(self, name) != default}

    def task_shown(self) -> dict[str, Any]:
        """Return what lists and log lines show of its task: function, task, and the unit of a batch that it runs."""
        unit = json.loads(self.unit) if self.unit else {}
        return self.continuation.shown() | ({"batch": unit["batch"], "unit": unit["index"]} if unit else {})

    def is_late(self, now: datetime) -> bool:
        """Return whether its deadline has passed."""
        return self.deadline_at is not None and now >= self.deadline_at

    def to_record(self) -> dict[str, Any]:
        """Return the fields of its record, except those of its place and its end, which depend on its commit."""
        plain = {name: getattr(self, name) for name in _WAITER_FIELDS}
        calls = {name: None if (call := getattr(self, name)) is None else call.to_record() for name in _CALLS}
        texts = {name: text for name in _TEXTS if (text := getattr(self, name))}
        return plain | calls | texts | ({FORMAT: LANES_FORMAT} if self.key or self.priority else {})

    @classmethod
    def from_record(
        cls, id_: str, record: Mapping[str, Any], version: datetime | None, created_at: datetime | None
    ) -> Self:
        fields = {name: value for name, value in record.items() if name not in (FORMAT, "places")}
        fields |= {name: Call.from_record(record[name]) for name in _CALLS if record.get(name)}
        for since in record.get("places", {}).values():
            fields["since"] = since
        return cls(id=id_, version=version, created_at=created_at, **fields)


@dataclass(frozen=True, slots=True)
class WaitAnswer:
    """The answer to a wait: its lease, or that it is in the wait queue, or that it has ended, or none of these.

    Without any of them the wait was not granted, and has no record: perhaps because the semaphore is paused.
    """

    lease: Lease | None = None
    waiting: bool = False
    ended: bool = False
    paused: bool = False

    @property
    def acquired(self) -> bool:
        """Whether the wait has its permits."""
        return self.lease is not None

    def retry_after_seconds(self, jitter: float) -> int | None:
        """Return when a caller that was refused should ask again; None if asking again under the id changes nothing."""
        if self.lease or self.waiting or self.ended:
            return None
        most = LIMITS.paused_retry_seconds_max if self.paused else LIMITS.acquire_retry_seconds_max
        return min(1 + int(jitter * most), most)


WAITING = WaitAnswer(waiting=True)
NOT_ACQUIRED = WaitAnswer()
PAUSED = WaitAnswer(paused=True)
ENDED = WaitAnswer(ended=True)


@dataclass(frozen=True, slots=True)
class KnownHead:
    """Waiters at the head of the wait queue whose order has been found: their ids, in that order.

    Finding the first waiters can require reading more of them than there are permits to grant. The order of the others
    is kept in the semaphore's record, so the next grant reads them by their ids, and no more. Later waiters follow
    them, by their create times, so the known head stays correct until its waiters leave. A waiter that returns to an
    old place invalidates it.

    All of them were created by `until`; a later record under one of these ids has another place. With `until` and
    without ids, order had to be found the last time, so the next read is of many waiters at once.
    """

    ids: tuple[str, ...] = ()
    until: datetime | None = None

    def page(self, count: int) -> int:
        """Return how many waiters to read to find the order of `count`: one more, for comparison."""
        return 1 + (count if self.until is None else max(count, LIMITS.known_head_max))

    def behind(self, count: int) -> Self:
        """Return what is known of the order after the first `count` waiters."""
        return type(self)(self.ids[count:], self.until)

    def has(self, waiter: Waiter, incarnation: int) -> bool:
        """Return whether this waiter, whose id is known, still waits in its place."""
        if waiter.state != "waiting" or waiter.incarnation != incarnation:
            return False
        return self.until is not None and waiter.created_at is not None and waiter.created_at <= self.until

    def after(self, waiters: Sequence[Waiter]) -> Self:
        """Return the knowledge after these waiters, in their order, are known to precede all others."""
        ids = (*(waiter.id for waiter in waiters), *self.ids)[: LIMITS.known_head_max]
        until = self.until or max((waiter.created_at for waiter in waiters if waiter.created_at), default=None)
        return type(self)(ids, until)

    def shortened(self, ids_max: int) -> Self:
        """Return the knowledge of fewer waiters; of none if there is no room for any."""
        return replace(self, ids=self.ids[:ids_max]) if ids_max else type(self)()

    def to_record(self) -> dict[str, Any]:
        """Return the fields for the semaphore's record; none if nothing is known."""
        return {"head": {"ids": list(self.ids), "until": self.until}} if self.until else {}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        head = record.get("head", {})
        return cls(tuple(head.get("ids", ())), head.get("until"))


NOTHING_KNOWN = KnownHead()


# --- lanes ---

Mode = Literal["open", "opening", "closed"]

Priority = Literal["high", "normal", "low"]

PLAIN = ""
"""The lane of waits without a key, with the normal priority."""


def lane_id(key: str, priority: str) -> str:
    """Return the lane of a key and a priority that share it with no others. An empty priority is the normal one."""
    priority = priority or "normal"
    return PLAIN if (key, priority) == ("", "normal") else f"{priority}:{key}"


def shared_lane_id(number: int, priority: str) -> str:
    """Return a lane that keys share for which the semaphore's record has no room."""
    return f"{priority or 'normal'}#{number}"


def place_field(lane: str) -> str:
    """Return the field of the map `places` that orders the waiters of a lane."""
    return f"s{name_of('lane', lane)[:24]}"


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane in the semaphore's record. The free permits go to the lane with the least tag, which then grows.

    Tags count from that of the lane that was served last. The mode is of this lane's queue: `open` if it is empty. Such
    a lane is kept for its tag only.
    """

    id: str
    tag: int = 0
    mode: Mode = "closed"
    known: KnownHead = field(default=NOTHING_KNOWN, compare=False)

    @property
    def priority(self) -> str:
        """The priority of its waits."""
        return self.id.partition(":")[0].partition("#")[0] or "normal"

    @property
    def key(self) -> str | None:
        """The key of its waits; None if several keys share it."""
        return None if "#" in self.id.partition(":")[0] else self.id.partition(":")[2]

    def to_record(self) -> dict[str, Any]:
        return {"id": self.id, "tag": self.tag, "mode": self.mode, **self.known.to_record()}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls(record["id"], record["tag"], record["mode"], KnownHead.from_record(record))


# --- the semaphore ---

_PLAIN_FIELDS = ("permits", "lease_seconds", "delete_after_seconds", "next_token", "mode", "alarm_at", "clean_at")


@dataclass(frozen=True, slots=True)
class Semaphore:
    """Settings, leases and the mode. `leases` includes expired leases of continuations whose tasks have not arrived.

    `clean_at` is the time of the next clean-up of receipts. While it is paused, since `paused_at`, no permit is free.
    """

    permits: int
    lease_seconds: float
    delete_after_seconds: float | None = None
    leases: tuple[LeaseRecord, ...] = ()
    ended: tuple[EndedLease, ...] = ()
    next_token: int = 0
    mode: Mode = "open"
    alarm_at: datetime | None = None
    clean_at: datetime | None = None
    known: KnownHead = NOTHING_KNOWN
    weights: Mapping[str, int] = field(default_factory=dict)
    lanes: tuple[Lane, ...] = ()
    revision: int = 0
    paused_at: datetime | None = None

    def __post_init__(self) -> None:
        assert self.permits >= 1, "a semaphore has at least one permit"
        assert len({(lease.id, lease.grant) for lease in self.leases}) == len(self.leases), "each grant is one lease"
        assert not self.lanes or self.mode == "closed", "a semaphore with lanes may have waiters"

    # --- queries ---

    def free(self, now: datetime) -> int:
        """Return the number of free permits; negative if `permits` was lowered below the number that is held.

        In a pause none is free, whoever asks.
        """
        free = self.permits - sum(lease.permits for lease in self.leases if lease.live(now))
        return free if self.paused_at is None else min(0, free)

    def has_room(self, now: datetime) -> bool:
        """Return whether permits are free while the wait queue may have waiters."""
        return self.mode != "open" and self.free(now) > 0

    def lane(self, id_: str) -> Lane | None:
        """Return a lane of the record."""
        return next((lane for lane in self.lanes if lane.id == id_), None)

    def lease(self, id_: str, token: int) -> LeaseRecord | None:
        """Return the lease of a wait under its current token; it may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.token) == (id_, token)), None)

    def granted_as(self, id_: str, grant: int) -> LeaseRecord | None:
        """Return the lease of a wait under the token it was granted with; it may have expired."""
        return next((lease for lease in self.leases if (lease.id, lease.grant) == (id_, grant)), None)

    def ended_lease(self, id_: str, token: int | None = None) -> EndedLease | None:
        """Return the ended lease of a wait under a token; without a token, the last one of this wait."""
        matching = [lease for lease in self.ended if lease.id == id_ and token in (None, lease.token)]
        return matching[-1] if matching else None

    def silent_grants(self, now: datetime) -> list[LeaseRecord]:
        """Return the grants that no task has claimed long after they expired: their tasks may be lost."""
        return [lease for lease in self.leases if (at := lease.silent_at) is not None and at <= now]

    # --- transitions ---

    def grant(
        self, id_: str, permits: int, seconds: float, now: datetime, *, claim_seconds: float | None
    ) -> tuple[Self, LeaseRecord]:
        """Grant permits to a wait. With `claim_seconds` the lease is a continuation's, which must claim it by then."""
        assert permits <= self.free(now), "there are not so many permits"
        token = max(self.next_token, microseconds(now))
        continued = claim_seconds is not None
        ends_at = now + timedelta(seconds=seconds if claim_seconds is None else claim_seconds)
        lease = LeaseRecord(id_, token, token, ends_at, permits, seconds, continued, claimed=not continued)
        return replace(self, leases=(*self.leases, lease), next_token=token + 1), lease

    def claim(self, lease: LeaseRecord, now: datetime) -> tuple[Self, LeaseRecord]:
        """Start a continuation's lease. A second delivery takes it over under a new token, which voids the first's."""
        token = max(self.next_token, microseconds(now)) if lease.claimed else lease.token
        ends_at = now + timedelta(seconds=lease.seconds)
        claimed = replace(lease, token=token, ends_at=ends_at, claimed=True)
        leases = tuple(claimed if other is lease else other for other in self.leases)
        return replace(self, leases=leases, next_token=max(self.next_token, token + 1)), claimed

    def renew(self, lease: LeaseRecord, seconds: float, now: datetime) -> tuple[Self, LeaseRecord]:
        """Extend a lease; it never ends earlier than before."""
        renewed = replace(lease, ends_at=max(lease.ends_at, now + timedelta(seconds=seconds)))
        return replace(self, leases=tuple(renewed if other is lease else other for other in self.leases)), renewed

    def end(self, lease: LeaseRecord, operation: str = "", *, in_time: bool = False) -> Self:
        """End a lease, and store the operation and whether it is known to have been in time."""
        left = tuple(other for other in self.leases if other is not lease)
        return replace(self, leases=left).remember(
            [EndedLease(lease.id, lease.token, lease.ends_at, operation, in_time)]
        )

    def remember(self, ended: Iterable[EndedLease]) -> Self:
        """Append ended leases, and keep the most recent ones."""
        return replace(self, ended=(*self.ended, *ended)[-LIMITS.ended_leases_max :])

    def expire_leases(self, now: datetime) -> tuple[Self, tuple[LeaseRecord, ...]]:
        """Drop expired leases; also return those of continuations that were evicted because there are too many.

        A continuation's expired lease is kept, up to a limit: if its task arrives late, the lease shows that the grant
        was lost. A lease that is absent was ended by a signal.
        """
        expired = [lease for lease in self.leases if not lease.live(now)]
        over = [lease for lease in expired if not lease.continued]
        continued = sorted((lease for lease in expired if lease.continued), key=lambda lease: lease.ends_at)
        evicted = tuple(continued[: max(0, len(continued) - LIMITS.expired_leases_max)])
        gone = {*over, *evicted}
        left = replace(self, leases=tuple(lease for lease in self.leases if lease not in gone))
        return left.remember(EndedLease(lease.id, lease.token, lease.ends_at) for lease in over), evicted

    def moved_to(self, mode: Mode, now: datetime) -> Self:
        """Change the mode, and schedule a clean-up unless it is `open`: a wait queue leaves receipts."""
        moved = replace(self, mode=mode)
        return moved if mode == "open" else moved.with_clean_up(now)

    def with_clean_up(self, now: datetime) -> Self:
        """Schedule a clean-up of receipts, unless one is scheduled."""
        return replace(self, clean_at=self.clean_at or now + timedelta(seconds=CORE_LIMITS.receipt_seconds))

    def with_alarm(self, now: datetime) -> Self:
        """Set the alarm to at most the earliest end of a lease if the queue may have waiters, and to None otherwise."""
        ends = [lease.ends_at for lease in self.leases if lease.live(now)]
        if self.mode == "open" or not ends:
            return replace(self, alarm_at=None)
        if self.alarm_at is not None and now < self.alarm_at <= min(ends):
            return self
        return replace(self, alarm_at=min(ends))

    def sweep_at(self, now: datetime) -> datetime | None:
        """Return the time by which the sweeper visits it; not before now, so those due longest go first."""
        times = [self.alarm_at, self.clean_at, *(lease.silent_at for lease in self.leases)]
        if self.has_room(now):
            times.append(now + timedelta(seconds=LIMITS.admission_lost_seconds))
        if self.delete_after_seconds is not None:
            times.append(now + timedelta(seconds=self.delete_after_seconds))
        return min((max(time, now) for time in times if time is not None), default=None)

    # --- codec ---

    def to_record(self, now: datetime) -> dict[str, Any]:
        """Return the record. It differs from every earlier one, so one of two racing writers always fails."""
        record: dict[str, Any] = {name: getattr(self, name) for name in _PLAIN_FIELDS}
        record["revision"] = self.revision + 1
        record["leases"] = [lease.to_record() for lease in self.leases]
        record["ended"] = [ended.to_record() for ended in self.ended]
        record |= self.known.to_record() | self._lanes_record()
        record |= {} if self.paused_at is None else {"paused_at": self.paused_at, FORMAT: PAUSED_FORMAT}
        sweep_at = self.sweep_at(now)
        return record if sweep_at is None else record | {"sweep_at": sweep_at}

    def _lanes_record(self) -> dict[str, Any]:
        """Return the fields that only a semaphore with lanes or weights has."""
        weights = [{"key": key, "weight": weight} for key, weight in sorted(self.weights.items())]
        fields = {"weights": weights, "lanes": [lane.to_record() for lane in self.lanes]}
        given = {name: value for name, value in fields.items() if value}
        return given | ({FORMAT: LANES_FORMAT} if given else {})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        fields = {name: value for name, value in record.items() if name not in ("sweep_at", "head", FORMAT)}
        leases = tuple(map(LeaseRecord.from_record, record["leases"]))
        ended = tuple(map(EndedLease.from_record, record["ended"]))
        lanes = tuple(map(Lane.from_record, record.get("lanes", ())))
        weights = {each["key"]: each["weight"] for each in record.get("weights", ())}
        known = KnownHead.from_record(record)
        parts = {"leases": leases, "ended": ended, "known": known, "lanes": lanes, "weights": weights}
        return cls(**(fields | parts))


@dataclass(frozen=True, slots=True)
class SemaphoreView:
    """A semaphore at a time of the server, with the parts of its wait queue that were read.

    `waiters` is the head of the wait queue, `waiting` the number of waiters; both are None if they were not read.
    `holders` has the waits of the first leases, by lease id.
    """

    name: str
    semaphore: Semaphore
    now: datetime
    waiters: tuple[Waiter, ...] | None = None
    waiting: int | None = None
    holders: Mapping[str, Waiter] = field(default_factory=dict)

    @property
    def free(self) -> int:
        """The number of free permits."""
        return max(0, self.semaphore.free(self.now))

    @property
    def leases(self) -> tuple[LeaseRecord, ...]:
        """The leases that are held."""
        return tuple(lease for lease in self.semaphore.leases if lease.live(self.now))
