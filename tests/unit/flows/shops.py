"""Flows of a shop for tests, and a platform that runs them."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from signalbox.adapters.http.json_bodies import json_of
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import WAKE_UP_TASK, Effect
from signalbox.core.ports import Ports
from signalbox.core.problems import Problem
from signalbox.core.wake_ups import WakeUp
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED, Keeping
from signalbox.flows.service import messages, reads, starts
from signalbox.flows.shown import FlowStatusShown
from signalbox.flows.tasks import archives, steps, turns
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.payloads.model import opened_members
from signalbox.tasks.api import Call
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.contexts import parsed
from tests.unit.objects.accounts import Objects
from tests.unit.operations_platform import OperationsPlatform

FUNCTION = "shop"
Task = Callable[[Mapping[str, Any]], Any]


def step(name: str, **payload: Any) -> Call[Any]:
    """Return a call of a task of the shop."""
    return Call(FUNCTION, name, payload)


def flows_of(*codes: Callable[..., Any], revision: int = 0, keeping: Keeping = AS_LONG_AS_NEEDED) -> Flows:
    """Return a deployment with these flow functions."""
    definitions = {code.__name__: FlowDefinition.from_function(code, keeping=keeping) for code in codes}
    return Flows(FUNCTION, definitions, revision)


class Workers:
    """Runs the code of inline steps when their delivery waits, one after another; time passes only in the code."""

    def __init__(self, world: OperationsPlatform) -> None:
        self.codes: dict[str, turns.Code] = {}
        self._world, self._began_at = world, world.now

    @property
    def running(self) -> list[str]:
        return list(self.codes)

    def begin(self, path: str, code: turns.Code) -> None:
        self.codes[path] = code

    def wait(self, _: float) -> dict[str, CallOutcome]:
        path = next(iter(self.codes))
        return {path: self.codes.pop(path)()}

    def abandon(self, path: str) -> None:
        self.codes.pop(path, None)

    def seconds(self) -> float:
        return (self._world.now - self._began_at).total_seconds()

    def seconds_left(self) -> float:
        return 540 - self.seconds()


@dataclass
class Shop:
    """A function with flows on a platform whose tasks a test delivers. `tasks` are the codes of its tasks by name.

    `archives` has the rows of the archives that were written, by name. `storage_fails`: none can be written.
    """

    flows: Flows
    tasks: dict[str, Task] = field(default_factory=dict)
    world: OperationsPlatform = field(default_factory=OperationsPlatform)
    ran: list[str] = field(default_factory=list)
    archives: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    storage_fails: bool = False

    @property
    def ports(self) -> Ports:
        return self.world.ports

    def start(self, flow: str, id_: str = "1", on_complete: Call[Any] | None = None, **arguments: Any) -> bool:
        address = FlowAddress(flow, id_)
        return starts.start(self.ports, self.flows, FUNCTION, address, arguments, on_complete).created

    def status(self, flow: str, id_: str = "1") -> dict[str, Any]:
        shown: dict[str, Any] = json_of(FlowStatusShown.of(reads.get(self.ports, FlowAddress(flow, id_))))
        return shown

    def event(self, flow: str, name: str, value: Any = None, id_: str = "e") -> None:
        messages.post_event(self.ports, FlowAddress(flow, "1"), name, value, id_)

    def write(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write an archive, unless the storage fails."""
        written = list(rows)
        if self.storage_fails:
            raise OSError("the bucket is not there")
        self.archives[name] = written

    # --- deliveries ---

    def deliver(self, task: Effect, deliveries: int = 0) -> None:
        """Deliver a task once, at its time."""
        self.world.pass_time(max(0.0, ((task.not_before or self.world.now) - self.world.now).total_seconds()))
        what = task.function, task.task, task.payload, task.queue
        delivered: Any = parsed(Delivered(task.name, task.context, deliveries, deliveries, *what))
        if task.task == WAKE_UP_TASK and task.payload["mailbox"].startswith(ObjectAddress.COLLECTION):
            Objects(self.world).run(task, deliveries)
        elif task.task == WAKE_UP_TASK:
            wake = Delivery(WakeUp.from_payload(task.payload), task.name, deliveries)
            turns.run_turn(self.ports, self.flows, wake, Workers(self.world))
        elif archives.is_archive(task.payload):
            archives.archive(self.ports, task.payload, self.write)
        elif task.task in steps.OWN_TASKS:
            steps.run_own_task(self.ports, delivered)
        elif "step" in task.context:
            steps.run_step(self.ports, self.flows, delivered, RetryLimits(10), lambda _, __: self.run_step(task))
        else:
            self.run_task(task)

    def run_step(self, task: Effect) -> Any:
        """Run the code of a task as a step, which receives its large arguments."""
        return self.run_task(replace(task, payload=opened_members(task.payload)))

    def run_task(self, task: Effect) -> Any:
        """Run a task's code: what `tasks` has for it, or nothing."""
        self.ran.append(task.task)
        code = self.tasks.get(task.task)
        return code(task.payload) if code else task.task

    def take(self, task: str) -> Effect:
        """Return the only waiting task of a name, and take it from the queue."""
        [found] = [each for each in self.world.tasks if each.task == task]
        self.world.tasks.remove(found)
        return found

    def settle(self) -> None:
        """Deliver all tasks, the earliest first, until none waits."""
        while self.world.tasks:
            first = min(self.world.tasks, key=lambda task: (task.not_before or self.world.now, task.name))
            self.world.tasks.remove(first)
            self.deliver(first)


def raising(detail: str, times: int = 1_000) -> Task:
    """Return the code of a task that raises a `Problem` the first times."""
    left = [times]

    def code(_: Mapping[str, Any]) -> str:
        left[0] -= 1
        if left[0] >= 0:
            raise Problem(detail)
        return "done"

    return code
