"""A semaphore, as a function of a user's own speaks of it."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.core.rules.calls import Call
from shared.core.rules.task_context import Lease
from shared.kit.idempotency import idempotency_key
from shared.semaphores.operations import semaphores as operations
from shared.semaphores.rules.requests import Wish, check_name

LEASE_SECONDS_DEFAULT = 600.0
"""As long as Cloud Tasks lets a task run, unless the semaphore is told otherwise."""


@dataclass(frozen=True, slots=True)
class Semaphore:
    """So many permits under one name. `Lease` stands for one of them in somebody's hand."""

    name: str

    def ensure(
        self,
        permits: int,
        *,
        lease_seconds: float = LEASE_SECONDS_DEFAULT,
        delete_after_seconds: float | None = None,
    ) -> None:
        """Make the semaphore, or set its limits: said twice it changes nothing. Raises `BadSemaphore`."""
        limits = {"permits": permits, "lease_seconds": lease_seconds, "delete_after_seconds": delete_after_seconds}
        operations.put(runtime.ports(), self.name, limits)

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
    ) -> bool:
        """Have the task run when a permit is ours; tell whether it is already. Nothing waits meanwhile.

        `id` makes a repeat recognisable; in a task the kit makes one that a second delivery repeats. The task may name
        a parameter of type `Lease`. With `release_on_return` the kit signals when the task has returned; otherwise
        somebody must, or the lease ends by itself. Raises `NoSemaphore`, `BadSemaphore` or `BadCall`.
        """
        body = {
            "continuation": _as_json(deployed(call)),
            "permits": permits,
            "lease_seconds": lease_seconds,
            "deadline_seconds": deadline_seconds,
            "on_timeout": None if on_timeout is None else _as_json(deployed(on_timeout, "on_timeout")),
            "release_on_return": release_on_return,
        }
        return bool(self._wait(body, id, f"{call.function} {call.task}")["acquired"])

    def acquire(
        self,
        *,
        id: str | None = None,  # noqa: A002
        permits: int = 1,
        lease_seconds: float | None = None,
    ) -> Lease | None:
        """Take a permit if one is free now, else leave no trace and give None. Raises `NoSemaphore`, `BadSemaphore`."""
        answer = self._wait({"permits": permits, "lease_seconds": lease_seconds}, id, "acquire")
        return Lease(semaphore=self.name, **answer["lease"]) if answer["acquired"] else None

    def signal(self, lease: Lease | str) -> bool:
        """Give a permit back; tell whether it was still ours. `lease` may be a lease's id."""
        operation = idempotency_key("signal", self.name) or ""
        return operations.signal(runtime.ports(), self.name, _id_of(lease), operation)

    def renew(self, lease: Lease | str, lease_seconds: float | None = None) -> bool:
        """Let a lease end later; tell whether it is still ours. A lost one stays lost."""
        return operations.renew(runtime.ports(), self.name, _id_of(lease), lease_seconds) is not None

    def _wait(self, body: dict[str, Any], id_: str | None, what_for: str) -> dict[str, Any]:
        # Not by what the task is given: that may hold a lease, which a second delivery has under another token.
        ports = runtime.ports()
        chosen = id_ or idempotency_key("wait", self.name, what_for) or ports.store.new_id()
        return operations.wait(ports, check_name(self.name), Wish.parse(body, chosen))


def semaphore(name: str) -> Semaphore:
    """Return the semaphore of that name, which need not exist yet."""
    return Semaphore(name)


def _id_of(lease: Lease | str) -> str:
    return lease if isinstance(lease, str) else lease.id


def _as_json(call: Call) -> dict[str, Any]:
    return {**dataclasses.asdict(call), "payload": dict(call.payload)}
