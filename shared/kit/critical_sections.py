"""A critical section, as a user's own function calls it."""

from dataclasses import dataclass

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.kit.idempotency import content_of, idempotency_key
from shared.semaphores.operations import critical_sections as operations
from shared.semaphores.rules.section_requests import SectionRequest


@dataclass(frozen=True, slots=True)
class CriticalSection:
    """A key under which at most one task runs at a time, and calls that overlap share the next run."""

    key: str

    def run(
        self,
        call: Call,
        *,
        debounce_seconds: float = 0,
        debounce_max_seconds: float | None = None,
        collect: str = "",
        lease_seconds: float = LIMITS.section_lease_seconds,
        id: str | None = None,  # noqa: A002  the word of the HTTP API
    ) -> bool:
        """Run the task after this call, alone under the key; return whether its run is enqueued already.

        Otherwise it is part of the next run: after the one that goes on, or when nobody has called for
        `debounce_seconds`, at the latest `debounce_max_seconds` after the first call. The next run has the arguments
        of its last call; of the list that `collect` names it has all items. The task may name a parameter of type
        `SectionRun`. Raises `BadKey`, `BadCriticalSection`, `BadCall`, `OtherTask` or `Unavailable`.
        """
        check_deployed(continuation=call)
        id_ = id or idempotency_key("critical section", self.key, content_of(call)) or ""
        request = SectionRequest(call, debounce_seconds, debounce_max_seconds, collect, lease_seconds, id_)
        return operations.call(runtime.ports(), self.key, request)


def critical_section(key: str) -> CriticalSection:
    """Return the critical section of that key; nothing need be created."""
    return CriticalSection(key)
