"""`rate`, as users import it from `signalbox`."""

from functools import partial

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import check_deployed
from signalbox.core.calls import Call
from signalbox.core.idempotency_keys import Leaves, content_of, has_leases, id_of_call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.rates import service
from signalbox.rates.model import Acquired, RateSettings, wait_path
from signalbox.rates.requests import WAIT_IDS, AcquireRequest, RateWaitRequest


@dataclass(frozen=True, slots=True)
class Rate:
    """Permits under one name that become free again as time passes."""

    name: str

    def ensure(self, per_minute: float, *, burst: int = 1, description: str = "") -> None:
        """Create the rate, or set its settings; waits stay. Idempotent.

        `per_minute` permits come back in a minute, and at most `burst` are granted at once. In any window of t seconds
        at most `burst + per_minute * t / 60` permits are granted. `description` is the purpose of the rate, which the
        console shows. Raises `BadKey`, `BadRate` or `Unavailable`.
        """
        service.put(runtime.ports(), self.name, RateSettings(per_minute, burst, description))

    def limits(self) -> RateSettings:
        """Return the settings. Raises `NoRate` or `Unavailable`."""
        return service.get(runtime.ports(), self.name).rate.settings

    def acquire(self, weight: int = 1, *, id: str | None = None) -> Acquired:
        """Take permits if they are free now. The result is true if they were taken; otherwise it has the time to retry.

        The result is false while tasks wait, because they were first, and while the rate is paused. A repeat with the
        same `id`, among the last 100, takes nothing and gets the same answer. Raises `NoRate`, `BadRate`, `OtherBody`
        if the id was used with another weight, or `Unavailable`.
        """
        return service.acquire(runtime.ports(), self.name, AcquireRequest(weight, id or ""))

    def wait(self, call: Call, *, weight: int = 1, id: str | None = None) -> str:
        """Call the task when its permits are granted, in the order of the waits. Return the wait's id.

        No process waits. `weight` is the number of permits, for example the tokens of a request. `id` identifies a
        repeated wait; in a task, the kit derives an id, which a second delivery repeats. Raises `NoRate`, `BadRate`,
        `BadCall`, `OtherBody` if the id was used for another call or weight, or `Unavailable`.
        """
        check_deployed(continuation=call)
        ports = runtime.ports()
        leaves = Leaves(f"wait for {self.name} with {call.task}", partial(wait_path, self.name))
        own = id_of_call(WAIT_IDS, id, "rate", self.name, content_of(call), weight, leaves=leaves)
        key = own or ports.store.new_id()
        named = bool(id) and not has_leases(call.payload)
        return service.wait(ports, self.name, RateWaitRequest(key, call, weight, named=named)).id

    def pause(self) -> None:
        """Grant no permits until `resume`; tasks wait in their order, and `acquire` is refused. Idempotent.

        Raises `NoRate` or `Unavailable`.
        """
        service.pause(runtime.ports(), self.name)

    def resume(self) -> None:
        """Grant permits again, to the tasks that wait first. Idempotent. Raises `NoRate` or `Unavailable`."""
        service.resume(runtime.ports(), self.name)

    def cancel(self, id: str) -> bool:
        """End a wait; return whether its task will not be called. Raises `NotFound` or `Unavailable`."""
        return service.cancel(runtime.ports(), self.name, id)


def rate(name: str) -> Rate:
    """Return the rate of a name; it does not have to exist yet."""
    return Rate(name)
