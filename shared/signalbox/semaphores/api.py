"""`semaphore`, as users import it from `signalbox`."""

from collections.abc import Mapping
from functools import partial

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import check_deployed
from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.idempotency_keys import (
    Leaves,
    content_of,
    has_leases,
    hold,
    id_of_call,
    idempotency_key,
    needs_ids,
)
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import LeaseEnded
from signalbox.semaphores.limits import LEASE_SECONDS_DEFAULT
from signalbox.semaphores.model.leases import Lease, stable_names
from signalbox.semaphores.model.priorities import Priority
from signalbox.semaphores.model.semaphore import waiter_path
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.requests import WAIT_IDS, RenewRequest, SignalRequest, WaitRequest
from signalbox.semaphores.service import leases, settings, waits


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
        weights: Mapping[str, int] | None = None,
        description: str = "",
    ) -> None:
        """Create the semaphore, or set its settings; leases and waiters stay. Idempotent.

        - `lease_seconds`: the time after which a lease expires.
        - `delete_after_seconds`: the time without use after which the semaphore is deleted; None: it is never deleted.
        - `weights`: the shares of the keys that waits name. A key without one has the weight 1.
        - `description`: the purpose of the semaphore, which the console shows.

        Raises `BadKey`, `BadSemaphore` or `Unavailable`.
        """
        wanted = SemaphoreSettings(permits, lease_seconds, delete_after_seconds, weights or {}, description)
        settings.put(runtime.ports(), self.name, wanted)

    def wait(
        self,
        call: Call,
        *,
        id: str | None = None,
        permits: int = 1,
        lease_seconds: float | None = None,
        deadline_seconds: float | None = None,
        on_timeout: Call | None = None,
        release_on_return: bool = False,
        release_on_failure: bool = False,
        holder: str = "",
        key: str = "",
        priority: Priority = "normal",
    ) -> bool:
        """Call the task when the permits are granted. Return whether they are granted already. No process waits.

        The task can declare a parameter of type `Lease`.

        - `id`: identifies a repeated wait. In a task, the kit derives an id, which a second delivery repeats.
        - `lease_seconds`: the length of the lease (None: the semaphore's default).
        - `deadline_seconds`: the time after which the wait ends without permits, and `on_timeout` is called.
        - `release_on_return`: the kit releases the lease when the task has returned. Otherwise the task must signal, or
          the lease expires.
        - `release_on_failure`: if the task raises an error that is retried, the kit releases its permits. The next
          attempt waits for them in the queue.
        - `holder`: the name of the caller. If waits of several semaphores name one holder, the kit can find deadlocks.
        - `key`: a tenant or a user. While others wait, keys share the permits by their weights.
        - `priority`: "high", "normal" or "low", with the weights 16, 4 and 1. Within one key and priority, the first
          wait is served first.

        Raises `NoSemaphore`, `BadSemaphore`, `BadCall`, `OtherBody` if the id was used for another call or number of
        permits, or `Unavailable`.
        """
        check_deployed(continuation=call, on_timeout=on_timeout)
        late = on_timeout and content_of(on_timeout)
        lane = (key, priority) if key or priority != "normal" else ()
        request = WaitRequest(
            id=self._wait_id(
                id, "task", content_of(call), permits, release_on_return, release_on_failure, holder, late, *lane
            ),
            continuation=call,
            lease_seconds=lease_seconds,
            permits=permits,
            deadline_seconds=deadline_seconds,
            on_timeout=on_timeout,
            release_on_return=release_on_return,
            release_on_failure=release_on_failure,
            holder=holder,
            key=key,
            priority=priority,
            named=bool(id) and not has_leases(call.payload),
        )
        return waits.wait(runtime.ports(), self.name, request).acquired

    def acquire(
        self,
        *,
        id: str | None = None,
        permits: int = 1,
        lease_seconds: float | None = None,
    ) -> Lease | None:
        """Acquire permits if they are free now. If not, return None and write nothing.

        The lease expires after `lease_seconds` (None: the semaphore's). A repeat with the same `id` returns the lease
        while it is held, and raises `LeaseEnded` after that. In a task, the kit derives an id; a second delivery
        acquires again after the lease has ended. Raises `NoSemaphore`, `BadSemaphore`, `OtherBody` if the id was used
        for another number of permits, or `Unavailable`.
        """
        request = WaitRequest(self._wait_id(id, "acquire", permits), lease_seconds=lease_seconds, permits=permits)
        answer = waits.wait(runtime.ports(), self.name, request)
        while answer.ended:
            if id is not None:
                raise LeaseEnded(f"The lease that {id!r} acquired has ended. Acquire with a new id.", field="id")
            request = replace(request, id=WAIT_IDS.derived(name_of(request.id, "anew")))
            answer = waits.wait(runtime.ports(), self.name, request)
        if answer.lease is not None:
            hold(stable_names(answer.lease))
        return answer.lease

    def signal(self, lease: Lease | str) -> bool:
        """Release a lease, given as a `Lease` or by its id. Return whether it was still held.

        Raises `NoSemaphore` or `Unavailable`.
        """
        key = None if needs_ids() else idempotency_key("signal", self.name, _id_of(lease))
        return leases.signal(runtime.ports(), self.name, SignalRequest(_id_of(lease), key or ""))

    def renew(self, lease: Lease | str, lease_seconds: float | None = None) -> bool:
        """Extend a lease to `lease_seconds` from now (None: the semaphore's). Return whether it is still held.

        A lost lease stays lost. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`.
        """
        return leases.renew(runtime.ports(), self.name, RenewRequest(_id_of(lease), lease_seconds)) is not None

    def pause(self) -> None:
        """Grant no permits until `resume`. Leases continue; tasks wait in their order; `acquire` returns None.

        Idempotent. Raises `NoSemaphore` or `Unavailable`.
        """
        settings.pause_grants(runtime.ports(), self.name)

    def resume(self) -> None:
        """Grant permits again, to the tasks that wait first. Idempotent. Raises `NoSemaphore` or `Unavailable`."""
        settings.resume_grants(runtime.ports(), self.name)

    def _wait_id(self, id_: str | None, *content: object) -> str:
        leaves = Leaves(f"wait for {self.name}", partial(waiter_path, self.name))
        return id_of_call(WAIT_IDS, id_, "wait", self.name, *content, leaves=leaves) or runtime.ports().store.new_id()


def semaphore(name: str) -> Semaphore:
    """Return the semaphore of a name; it does not have to exist yet."""
    return Semaphore(name)


def _id_of(lease: Lease | str) -> str:
    return lease if isinstance(lease, str) else lease.id
