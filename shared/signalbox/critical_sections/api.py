"""`critical_section`, as users import it from `signalbox`."""

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import check_deployed
from signalbox.core.calls import Call
from signalbox.core.idempotency_keys import content_of, has_leases, id_of_call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.critical_sections import service
from signalbox.critical_sections.limits import LIMITS
from signalbox.critical_sections.requests import CALL_IDS, SectionRequest


@dataclass(frozen=True, slots=True)
class CriticalSection:
    """A key under which at most one task runs at a time. Calls that arrive during a run share the next one."""

    key: str

    def run(
        self,
        call: Call,
        *,
        debounce_seconds: float = 0,
        debounce_max_seconds: float | None = None,
        collect: str = "",
        lease_seconds: float = LIMITS.section_lease_seconds,
        id: str | None = None,
    ) -> bool:
        """Run the task after this call, with no other run under the key. Return whether its run is enqueued already.

        If not, the call is part of the next run, which starts when the current one has ended. That run receives the
        arguments of its last call. The task can declare a parameter of type `SectionRun`.

        - `debounce_seconds`: the next run starts only when no call has arrived for this time.
        - `debounce_max_seconds`: the longest time from the first call of a run to its start, however many calls arrive.
        - `collect`: the name of a list argument. The run receives in it the items of all its calls.
        - `lease_seconds`: if a run's task dies, its redelivery takes the run over after this time.
        - `id`: identifies a repeated call.

        Raises `BadKey`, `BadCriticalSection`, `BadCall`, `OtherTask`, `OtherBody` if the id was used for another call,
        or `Unavailable`.
        """
        check_deployed(continuation=call)
        id_ = id_of_call(CALL_IDS, id, "critical section", self.key, content_of(call), collect) or ""
        named = bool(id) and not has_leases(call.payload)
        request = SectionRequest(call, debounce_seconds, debounce_max_seconds, collect, lease_seconds, id_, named=named)
        return service.call(runtime.ports(), self.key, request)


def critical_section(key: str) -> CriticalSection:
    """Return the critical section of a key. It needs no set-up."""
    return CriticalSection(key)
