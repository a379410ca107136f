"""Flows of a shop for tests, and a platform that runs them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.core.operations.ports import Ports
from shared.core.rules.calls import Call
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem
from shared.core.rules.wake_ups import TASK, WakeUp
from shared.flows.operations import flows as flow_operations
from shared.flows.operations import own_tasks, posts, runs, starts, steps
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.definitions import FlowDefinition, Flows
from shared.tasks.rules.attempts import Attempt, RetryLimits
from tests.unit.operations_platform import OperationsPlatform

FUNCTION = "shop"
Task = Callable[[Mapping[str, Any]], Any]


def step(name: str, **payload: Any) -> Call:
    """Return a call of a task of the shop."""
    return Call(FUNCTION, name, payload)


def flows_of(*codes: Callable[..., Any], revision: int = 0) -> Flows:
    """Return what a deployment has: these generator functions."""
    return Flows(FUNCTION, {code.__name__: FlowDefinition.from_function(code) for code in codes}, revision)


@dataclass
class Shop:
    """A function with flows on a platform whose tasks a test delivers. `tasks` are the codes of its tasks by name."""

    flows: Flows
    tasks: dict[str, Task] = field(default_factory=dict)
    world: OperationsPlatform = field(default_factory=OperationsPlatform)
    ran: list[str] = field(default_factory=list)

    @property
    def ports(self) -> Ports:
        return self.world.ports

    def start(self, flow: str, id_: str = "1", on_complete: Call | None = None, **arguments: Any) -> bool:
        address = FlowAddress(flow, id_)
        return starts.start(self.ports, self.flows, FUNCTION, address, arguments, on_complete).created

    def status(self, flow: str, id_: str = "1") -> dict[str, Any]:
        return flow_operations.get(self.ports, FlowAddress(flow, id_)).to_json()

    def event(self, flow: str, name: str, value: Any = None, id_: str = "e") -> None:
        posts.post_event(self.ports, FlowAddress(flow, "1"), name, value, id_)

    # --- deliveries ---

    def deliver(self, task: Effect, deliveries: int = 0) -> None:
        """Deliver a task once, at its time."""
        self.world.pass_time(max(0.0, ((task.not_before or self.world.now) - self.world.now).total_seconds()))
        attempt = Attempt(
            task.name, task.context, deliveries, deliveries, task.function, task.task, task.payload, task.queue
        )
        if task.task == TASK:
            runs.run(self.ports, self.flows, runs.Run(WakeUp.from_payload(task.payload), task.name, deliveries))
        elif task.task in own_tasks.NAMES:
            own_tasks.run(self.ports, attempt)
        elif steps.is_step(task.context):
            steps.run(self.ports, self.flows, attempt, RetryLimits(10), lambda _, __: self.run_task(task))
        else:
            self.run_task(task)

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
