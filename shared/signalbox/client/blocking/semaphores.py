# Generated from client/aio/semaphores.py by `make docs`: change that one.
"""Semaphores, leases that renew themselves, and critical sections."""

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Literal, Self

from signalbox.client import lease_clock
from signalbox.client.answer_types import Lease, Waited
from signalbox.client.answers import Answer
from signalbox.client.blocking.lease_renewal import Repeated, finished, sleep
from signalbox.client.blocking.list_pages import pages
from signalbox.client.blocking.transport import Transport
from signalbox.client.identity import NoIdentity
from signalbox.client.model import Json, TaskCall
from signalbox.client.problems import ApiError, LeaseLost, NotFound, Unavailable
from signalbox.client.requests import keyed
from signalbox.client.retries import Patience, retry_after_seconds
from signalbox.core.given import given

REQUEST_SECONDS_MAX = 30.0
"""The longest `wait_seconds` of a request; a longer one is refused."""

WAIT_SECONDS_MAX = 5.0
"""The time for which one request waits for permits: a caller that dies meanwhile may still be granted them."""

RENEWALS_PER_LEASE = 3
"""A lease is renewed when a third of its time has passed, and, after a failure, of the time that is left. One attempt
takes no longer than the first pause, so that another follows while the lease is held."""

CLEAN_UP_SECONDS = 20.0
"""The time for which a release is repeated that follows an interrupted acquire: its caller waits for it."""

NO_SEMAPHORE = "no-semaphore"
"""The problem of a call for a semaphore that does not exist."""

OVERTAKEN_SECONDS = 2.0
"""How much later than its repeat an acquire may reach the function, by a cold start, and still be released."""


class Semaphore:
    """A semaphore of a deployment, by its name."""

    def __init__(self, transport: Transport, name: str) -> None:
        self._transport = transport
        self.name = name

    def ensure(
        self,
        permits: int,
        lease_seconds: float = 600,
        delete_after_seconds: float | None = None,
        weights: Mapping[str, int] | None = None,
        description: str | None = None,
    ) -> dict[str, Json]:
        """Create the semaphore or set its limits, the weights of keys and the description. Leases and waiters stay."""
        others = given(delete_after_seconds=delete_after_seconds, weights=weights, description=description)
        body = {"permits": permits, "lease_seconds": lease_seconds, **others}
        found = self._transport.send("PUT", "semaphores", self.name, body=body)
        return found.shaped(dict)

    def change(
        self,
        *,
        permits: int | None = None,
        lease_seconds: float | None = None,
        delete_after_seconds: float | None = None,
        weights: Mapping[str, int] | None = None,
        description: str | None = None,
    ) -> dict[str, Json]:
        """Change some settings. Raises `NotFound`."""
        body = given(
            permits=permits,
            lease_seconds=lease_seconds,
            delete_after_seconds=delete_after_seconds,
            weights=weights,
            description=description,
        )
        found = self._transport.send("PATCH", "semaphores", self.name, body=body)
        return found.shaped(dict)

    def show(self) -> dict[str, Json]:
        """Return the limits, the leases and the first hundred waiters. Raises `NotFound`."""
        found = self._show()
        return found.shaped(dict)

    def _show(self) -> Answer:
        return self._transport.send("GET", "semaphores", self.name)

    def pause(self) -> dict[str, Json]:
        """Grant no permits until `resume`; leases continue, and waits stay in their order. Raises `NotFound`."""
        found = self._transport.send("POST", "semaphores", self.name, "pause")
        return found.shaped(dict)

    def resume(self) -> dict[str, Json]:
        """Grant permits again, to those that wait first. Raises `NotFound`."""
        found = self._transport.send("POST", "semaphores", self.name, "resume")
        return found.shaped(dict)

    def delete(self) -> None:
        """Delete the semaphore; its waits end. Raises `NotFound`."""
        self._transport.json("DELETE", "semaphores", self.name)

    def acquire(
        self,
        *,
        id: str | None = None,
        permits: int = 1,
        lease_seconds: float | None = None,
        wait_seconds: float | None = None,
    ) -> Lease | None:
        """Acquire permits if they are free now, or within `wait_seconds` (at most 30); else return None.

        It may return None earlier, if the semaphore is paused or too many requests wait. A repeat under an `id` returns
        the lease that the id has. Without an `id`, an acquire that is interrupted or gets no answer is released, if the
        function can be reached; that takes `wait_seconds` and two seconds more, at most, while no permit is free.
        """
        drawn = str(uuid.uuid4())
        try:
            lease, _ = self._acquire(id or drawn, permits, lease_seconds, wait_seconds)
        except BaseException as error:
            if id is None and not _is_refused(error):
                finished(partial(self._release, drawn, permits, wait_seconds or 0))
            raise
        return lease

    def _soon(self, attempt_seconds: float) -> "Semaphore":
        """Return the same semaphore; an attempt to call it ends after a shorter time, and another follows."""
        return Semaphore(self._transport.trying(attempt_seconds), self.name)

    def _release(self, id: str, permits: int, wait_seconds: float) -> None:
        """End the lease of an acquire whose answer is unknown.

        Only the answer to an acquire names its lease, so it is repeated, for as long as the first may still wait. After
        the release, a request that is still under way is granted nothing under this id.
        """
        briefly = Semaphore(self._transport.within(CLEAN_UP_SECONDS), self.name)
        lease, seconds = None, wait_seconds + OVERTAKEN_SECONDS
        with suppress(ApiError, NoIdentity):
            while lease is None and seconds > 0:
                lease, _ = briefly._acquire(id, permits, None, min(seconds, REQUEST_SECONDS_MAX))
                seconds -= REQUEST_SECONDS_MAX
            if lease is not None:
                briefly.signal(lease)

    def _acquire(
        self, id: str, permits: int, lease_seconds: float | None, wait_seconds: float | None
    ) -> tuple[Lease | None, float]:
        """Acquire permits. Without a lease, the number is the seconds after which the function asks to try again."""
        body = {"id": id, "permits": permits, **given(lease_seconds=lease_seconds)}
        parameters = {"wait_seconds": wait_seconds}
        found = self._transport.send("POST", "semaphore-wait", self.name, body=body, parameters=parameters)
        lease = found.part("lease").shaped(Lease) if found.member("acquired", bool) else None
        return lease, retry_after_seconds(found.headers)

    def wait(
        self,
        continuation: TaskCall,
        *,
        id: str | None = None,
        permits: int = 1,
        lease_seconds: float | None = None,
        deadline_seconds: float | None = None,
        on_timeout: TaskCall | None = None,
        release_on_return: bool | None = None,
        release_on_failure: bool | None = None,
        holder: str | None = None,
        key: str | None = None,
        priority: Literal["high", "normal", "low"] | None = None,
    ) -> Waited:
        """Let a task run, with the lease, once permits are granted. `id` makes a repeat the same wait.

        Keys (of tenants, users) and priorities share the permits by weight while others wait.
        """
        body = given(
            id=id or str(uuid.uuid4()),
            continuation=continuation,
            permits=permits,
            lease_seconds=lease_seconds,
            deadline_seconds=deadline_seconds,
            on_timeout=on_timeout,
            release_on_return=release_on_return,
            release_on_failure=release_on_failure,
            holder=holder,
            key=key,
            priority=priority,
        )
        found = self._transport.send("POST", "semaphore-wait", self.name, body=body)
        return found.shaped(Waited)

    def cancel(self, id: str) -> bool:
        """Cancel a wait that has a continuation. Returns whether the wait existed; a granted lease is released."""
        found = self._transport.send("DELETE", "semaphore-wait", self.name, id)
        return found.member("cancelled", bool)

    def signal(self, lease: Lease) -> bool:
        """End a lease. Returns whether it was held."""
        body = {"lease": lease["id"]}
        key = keyed(str(uuid.uuid4()))
        found = self._transport.send("POST", "semaphore-signal", self.name, body=body, headers=key)
        return found.member("released", bool)

    def renew(self, lease: Lease, lease_seconds: float | None = None) -> bool:
        """Extend a lease. Returns whether it was still held."""
        body = {"lease": lease["id"], **given(lease_seconds=lease_seconds)}
        found = self._transport.send("POST", "semaphore-renew", self.name, body=body)
        return found.member("renewed", bool)

    def end_lease(self, id: str, reason: str | None = None) -> bool:
        """End a lease as an operator; the reason is logged. Returns whether it was held."""
        parameters = {"reason": reason}
        found = self._transport.send("DELETE", "semaphores", self.name, "leases", id, parameters=parameters)
        return found.member("released", bool)

    @contextmanager
    def lease(
        self, timeout_seconds: float, *, permits: int = 1, lease_seconds: float | None = None
    ) -> Iterator["HeldLease"]:
        """Hold permits during a block: wait for them, renew the lease in the background, and release it at the end.

        Without `lease_seconds`, it first reads the semaphore's. Raises `TimeoutError` if no permits were granted in
        time, and `LeaseLost` if the lease had ended before the block, or ended during it. Permits that are waited for
        here have no place in the queue: tasks that `wait` come first. If it is interrupted while it waits, it releases
        what was granted meanwhile.
        """
        ends_at = lease_clock.monotonic() + timeout_seconds
        seconds = lease_seconds or (self._show()).member("lease_seconds", float)
        asked_at, id_, held = lease_clock.monotonic(), str(uuid.uuid4()), HeldLease(self, seconds)
        patience, wait_seconds, may_hold = Patience(ends_at), 0.0, False
        # A lease is released whatever interrupts this code, at any line: a cancel, a signal's handler, an error.
        try:
            while True:
                wait_seconds = round(min(WAIT_SECONDS_MAX, max(0.0, ends_at - lease_clock.monotonic())), 3)
                may_hold = True
                found, least = self._acquire(id_, permits, seconds, wait_seconds)
                if found is not None:
                    break
                may_hold = False
                sleep(patience.next_pause(lease_clock.monotonic(), f"{self.name} has no free permit", least))
            held.begin(found, asked_at)
            with held:
                yield held
        except BaseException as error:
            if may_hold and not held.is_released and (held.id or not _is_refused(error)):
                finished(partial(held.abandon, id_, permits, 0 if held.id else wait_seconds))
            raise


def _is_refused(error: BaseException) -> bool:
    """Return whether a request has certainly had no effect."""
    if isinstance(error, Unavailable) or not isinstance(error, ApiError):
        return isinstance(error, NoIdentity)
    return 400 <= error.status < 500 and not error.is_repeated


def _is_deleted(error: BaseException) -> bool:
    """Return whether an answer says that there is no semaphore: its leases have ended with it."""
    return isinstance(error, NotFound) and error.slug == NO_SEMAPHORE


class HeldLease:
    """A lease that is renewed in the background while its block runs.

    - ``token``: grows with each grant: a resource that refuses smaller ones is safe from a holder whose lease is lost.
    - ``is_lost``: whether the lease ended, or could not be renewed until it must have ended.
    """

    def __init__(self, semaphore: Semaphore, seconds: float) -> None:
        self._semaphore = semaphore
        self._seconds = seconds
        self._ends_at = 0.0
        self._renewal = Repeated(self._renew, self._pause_seconds)
        self._is_refused = False
        self.is_released = False
        self.id, self.token = "", 0

    def begin(self, lease: Lease, asked_at: float) -> None:
        """Hold a lease that was granted after `asked_at`: the answer may have come long after the grant."""
        self._ends_at = asked_at + self._seconds
        self.id, self.token = lease["id"], lease["token"]
        self._lease = lease

    @property
    def is_lost(self) -> bool:
        """Whether another holder may have the permits."""
        return self._is_refused or lease_clock.monotonic() >= self._ends_at

    def check(self) -> None:
        """Raise `LeaseLost` if the lease is lost. Call it before each effect that only the holder may have."""
        if self.is_lost:
            raise LeaseLost(f"the lease {self.id} of {self._semaphore.name} ended before it was released")
        if self.is_released:
            raise LeaseLost(f"the lease {self.id} of {self._semaphore.name} was released")

    def __enter__(self) -> Self:
        if lease_clock.monotonic() > self._ends_at - self._seconds + self._seconds / RENEWALS_PER_LEASE:
            self._renew()  # it may have been granted any time ago
        self.check()
        self._renewal.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            finished(self._end)
        except (ApiError, NoIdentity):
            if error is None:
                raise
        if error is None and self._is_refused:  # not if only the answer to the release came late
            self.check()

    def _end(self) -> None:
        self._renewal.stop()
        is_lost = self.is_lost
        try:
            is_released = self._semaphore.signal(self._lease)
        except NotFound as error:
            if not _is_deleted(error):
                raise
            is_released = False
        if not is_released or is_lost:
            self._is_refused = True
        self.is_released = True

    def abandon(self, id: str, permits: int, wait_seconds: float) -> None:
        """End the renewals, and release what may have been granted to a wait."""
        self._renewal.stop()
        self._semaphore._release(id, permits, wait_seconds)

    def _pause_seconds(self) -> float:
        left = self._ends_at - lease_clock.monotonic()
        return max(left, self._seconds / 10) / RENEWALS_PER_LEASE

    def _renew(self) -> bool:
        """Renew the lease; return whether it is still held, or may be."""
        asked_at = lease_clock.monotonic()
        try:
            renewed = self._semaphore._soon(self._seconds / RENEWALS_PER_LEASE).renew(self._lease, self._seconds)
        except (ApiError, NoIdentity) as error:
            self._is_refused |= _is_deleted(error)
            return not self.is_lost
        if renewed:
            self._ends_at = asked_at + self._seconds
        else:
            self._is_refused = True
        return renewed


class Semaphores:
    """The semaphores of a deployment."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def list(self, *, waiting: bool = False, prefix: str | None = None) -> Iterator[dict[str, Json]]:
        """Iterate over the semaphores by name: all, or those that have waiters, or whose names begin with `prefix`."""
        parameters = {"waiting": waiting or None, "prefix": prefix}
        return pages(self._transport, "semaphores", "semaphores", parameters=parameters)

    def deadlocks(self) -> dict[str, Json]:
        """Return circles among waits that name a holder."""
        found = self._transport.send("GET", "semaphores", parameters={"deadlocks": True})
        return found.shaped(dict)


class CriticalSection:
    """At most one run at a time under a key; calls during a run share the next one."""

    def __init__(self, transport: Transport, key: str) -> None:
        self._transport = transport
        self.key = key

    def run(
        self,
        continuation: TaskCall,
        *,
        debounce_seconds: float | None = None,
        debounce_max_seconds: float | None = None,
        collect: str | None = None,
        lease_seconds: float | None = None,
        id: str | None = None,
    ) -> bool:
        """Run a task alone under the key. Returns whether its run is enqueued already."""
        body = given(
            continuation=continuation,
            debounce_seconds=debounce_seconds,
            debounce_max_seconds=debounce_max_seconds,
            collect=collect,
            lease_seconds=lease_seconds,
            id=id or str(uuid.uuid4()),
        )
        found = self._transport.send("POST", "critical-section", self.key, body=body)
        return found.member("granted", bool)

    def show(self) -> dict[str, Json]:
        """Return the run under the key, and the next one. Raises `NotFound`."""
        found = self._transport.send("GET", "critical-section", self.key)
        return found.shaped(dict)
