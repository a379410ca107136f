"""A semaphore, as a user's own function calls it."""

from dataclasses import dataclass, replace

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.core.rules.calls import Call
from shared.core.rules.effects import name_of
from shared.core.rules.problems import LeaseEnded
from shared.core.rules.task_context import Lease
from shared.kit.idempotency import content_of, hold, idempotency_key
from shared.semaphores.operations import semaphores as operations
from shared.semaphores.rules.requests import RenewRequest, SemaphoreSettings, SignalRequest, WaitRequest

LEASE_SECONDS_DEFAULT = 600.0
"""As long as a task of Cloud Tasks may run, unless the semaphore sets another."""


@dataclass(frozen=True, slots=True)
class Semaphore:
    """A number of permits under one name. A `Lease` is a permit that is held."""

    name: str

    def ensure(
        self,
        permits: int,
        *,
        lease_seconds: float = LEASE_SECONDS_DEFAULT,
        delete_after_seconds: float | None = None,
    ) -> None:
        """Create the semaphore, or set its settings; idempotent. Raises `BadSemaphore`."""
        settings = SemaphoreSettings(permits, lease_seconds, delete_after_seconds)
        operations.put(runtime.ports(), self.name, settings)

    def wait(
        self,
        call: Call,
        *,
        id: str | None = None,  # noqa: A002  the word of the HTTP API
        permits: int = 1,
        lease_seconds: float | None = None,
        deadline_seconds: float | None = None,
        on_timeout: Call | None = None,
        release_on_return: bool = False,
        release_on_failure: bool = False,
        holder: str = "",
    ) -> bool:
        """Enqueue the task for when the permits are granted; return whether they are already. No process waits.

        `id` makes a repeat recognisable; in a task the kit derives one that a second delivery repeats. The task may
        name a parameter of type `Lease`. With `release_on_return` the kit signals when the task has returned;
        otherwise the task must, or the lease expires. With `release_on_failure`, a task that raises what is retried
        gives the permits back until its next attempt, which gets them in its turn. `holder` names who waits: waits of
        several semaphores under one holder show a deadlock. Raises `NoSemaphore`, `BadSemaphore` or `BadCall`.
        """
        check_deployed(continuation=call, on_timeout=on_timeout)
        request = WaitRequest(
            id=self._wait_id(id, content_of(call)),
            continuation=call,
            lease_seconds=lease_seconds,
            permits=permits,
            deadline_seconds=deadline_seconds,
            on_timeout=on_timeout,
            release_on_return=release_on_return,
            release_on_failure=release_on_failure,
            holder=holder,
        )
        return operations.wait(runtime.ports(), self.name, request).acquired

    def acquire(
        self,
        *,
        id: str | None = None,  # noqa: A002
        permits: int = 1,
        lease_seconds: float | None = None,
    ) -> Lease | None:
        """Acquire a permit if one is free now; None, and no trace, if not.

        A repeat returns the lease for as long as it lives. After that a task's second delivery acquires anew; with an
        `id` of the caller's, `LeaseEnded` is raised. Raises `NoSemaphore` or `BadSemaphore`.
        """
        request = WaitRequest(self._wait_id(id, "acquire"), lease_seconds=lease_seconds, permits=permits)
        answer = operations.wait(runtime.ports(), self.name, request)
        while answer.ended:
            if id is not None:
                raise LeaseEnded(f"The lease that {id!r} acquired is over.", field="id")
            request = replace(request, id=name_of(request.id, "anew"))
            answer = operations.wait(runtime.ports(), self.name, request)
        lease = answer.lease
        held = Lease(self.name, lease.id, lease.token, lease.ends_at) if lease else None
        hold(held)
        return held

    def signal(self, lease: Lease | str) -> bool:
        """Release a lease, given itself or its id; return whether it was still held."""
        request = SignalRequest(_id_of(lease), idempotency_key("signal", self.name, _id_of(lease)) or "")
        return operations.signal(runtime.ports(), self.name, request)

    def renew(self, lease: Lease | str, lease_seconds: float | None = None) -> bool:
        """Extend a lease; return whether it is still held. A lost one stays lost."""
        return operations.renew(runtime.ports(), self.name, RenewRequest(_id_of(lease), lease_seconds)) is not None

    def _wait_id(self, id_: str | None, what_for: str) -> str:
        return id_ or idempotency_key("wait", self.name, what_for) or runtime.ports().store.new_id()


def semaphore(name: str) -> Semaphore:
    """Return the semaphore of that name, which need not exist yet."""
    return Semaphore(name)


def _id_of(lease: Lease | str) -> str:
    return lease if isinstance(lease, str) else lease.id
