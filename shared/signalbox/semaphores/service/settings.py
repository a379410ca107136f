"""Create a semaphore or change its settings, and pause and resume its grants. Leases and waiters stay."""

from collections.abc import Callable

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import Conflict, Must, Ports, Put
from signalbox.core.problems import Unavailable
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores.machine import settings
from signalbox.semaphores.machine.decision_types import Loaded, QueueReads, Transition
from signalbox.semaphores.model.semaphore import Semaphore, SemaphoreView, path_of
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import check_name
from signalbox.semaphores.storage import SemaphoreReads, change


@dataclass(frozen=True, slots=True)
class ChangedSettings:
    """A semaphore after a `PUT` or `PATCH`, whether the call created it, and the number of waits that it ended."""

    view: SemaphoreView
    created: bool = False
    waits_ended: int = 0


def put(ports: Ports, name: str, wanted: SemaphoreSettings) -> ChangedSettings:
    """Create a semaphore or set its settings; leases and waiters stay. Raises `BadKey` or `Unavailable`.

    Fewer permits limit new grants, and end the waits that need more. Additional permits are granted to waiters.
    """
    check_name(name)
    for attempt in range(CORE_LIMITS.rounds_max):
        try:
            return _set(ports, name, lambda _: wanted)
        except NoSemaphore:
            if (created := _create(ports, name, wanted)) is not None:
                return ChangedSettings(created, created=True)
            pause(ports, attempt)
    raise Unavailable(f"semaphore {name} is created and deleted by many callers at once")


def patch(ports: Ports, name: str, request: SettingsPatch[SemaphoreSettings]) -> ChangedSettings:
    """Change some settings. Raises `NoSemaphore`, `BadSemaphore` or `Unavailable`."""
    return _set(ports, name, request.applied_to)


def pause_grants(ports: Ports, name: str) -> SemaphoreView:
    """Grant no permits until `resume_grants`; leases stay, and waiters keep their places.

    Raises `NoSemaphore` or `Unavailable`.
    """
    return _switch(ports, name, settings.pause)


def resume_grants(ports: Ports, name: str) -> SemaphoreView:
    """Grant permits again, to the waiters first. Raises `NoSemaphore` or `Unavailable`."""
    return _switch(ports, name, settings.resume)


def _switch(ports: Ports, name: str, switched: Callable[[Loaded], Transition[Semaphore]]) -> SemaphoreView:
    done = change(ports, SemaphoreReads(check_name(name), lambda _: QueueReads()), switched)
    return SemaphoreView(name, done.answer, done.loaded.now)


def _set(ports: Ports, name: str, changed: Callable[[SemaphoreSettings], SemaphoreSettings]) -> ChangedSettings:
    def wanted(loaded: Loaded) -> SemaphoreSettings:
        return changed(loaded.semaphore.settings)

    def reads(loaded: Loaded) -> QueueReads:
        return settings.settings_reads(loaded, wanted(loaded))

    def rule(loaded: Loaded) -> Transition[Semaphore]:
        return settings.change_settings(loaded, wanted(loaded))

    done = change(ports, SemaphoreReads(name, reads), rule)
    view = SemaphoreView(name, done.answer, done.loaded.now)
    return ChangedSettings(view, waits_ended=len(done.transition.waiters))


def _create(ports: Ports, name: str, wanted: SemaphoreSettings) -> SemaphoreView | None:
    """Create the semaphore; return None if it was created in the meantime."""
    [snapshot] = ports.store.read(path_of(name))
    semaphore = Semaphore(wanted)
    try:
        ports.store.commit([Put(path_of(name), semaphore.to_record(snapshot.read_time), Must.NOT_EXIST)])
    except Conflict:
        return None
    return SemaphoreView(name, semaphore, snapshot.read_time)
