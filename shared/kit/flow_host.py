"""The flows of a user's function: their code, routes and turns, the ends of steps, and the kit's own tasks."""

from collections.abc import Callable, Generator, Mapping
from typing import Any

from shared.adapters import runtime
from shared.adapters.http.routes import Routes
from shared.adapters.http.tasks import TaskDelivery
from shared.adapters.settings import settings
from shared.core.rules.effects import Json
from shared.core.rules.wake_ups import WakeUp
from shared.flows.operations import own_tasks, runs, steps
from shared.flows.rules.commands import ObjectCall
from shared.flows.rules.definitions import FlowDefinition, Flows
from shared.flows.rules.running import is_running, made
from shared.kit import flow_hooks, flow_http
from shared.kit.flow_functions import declare
from shared.kit.flow_runs import Flow, P, R
from shared.kit.object_classes import local_classes
from shared.objects.rules.addresses import ObjectAddress
from shared.tasks.rules.attempts import Attempt, RetryLimits


class InFlow(RuntimeError):
    """The code of a flow reads or writes by itself: a replay would do it again. So the run is stuck."""


class FlowHost:
    """What a function needs for its flows. It may have none, and still run steps of another function's flows."""

    def __init__(self, function: str) -> None:
        self._function = function
        self._definitions: dict[str, FlowDefinition] = {}

    def add(self, code: Callable[P, Generator[Any, Any, R]]) -> Flow[P, R]:
        """Add a flow under the name of its code, and warn about what a replay would do again.

        Raises `TypeError`, or `ValueError` for a second flow of one name.
        """
        definition = FlowDefinition.from_function(code)
        if definition.name in self._definitions:
            raise ValueError(f"{self._function} has two flows of the name {definition.name}")
        self._definitions[definition.name] = definition
        declare(self._definitions, self._function)
        if not settings().in_cloud:
            _warn(code)
        return Flow(definition, lambda: self.local)

    def add_routes(self, routes: Routes) -> None:
        """Add the routes of the flows."""
        flow_http.add_routes(routes, lambda: self.local)

    def run_turn(self, request: TaskDelivery) -> None:
        """Run a flow's mailbox. Raises `Unavailable` if it is to be delivered again."""
        deliveries = request.executions + request.retries
        delivery = runs.Run(WakeUp.from_payload(request.payload), request.operation, deliveries)
        runs.run(runtime.ports(), self.local, delivery)

    def run_step(self, attempt: Attempt, limits: RetryLimits, code: steps.Code) -> None:
        """Run a task as a step of a flow."""
        steps.run(runtime.ports(), self.local, attempt, limits, code)

    def run_own_task(self, attempt: Attempt) -> None:
        """Run one of the kit's own tasks for flows."""
        own_tasks.run(runtime.ports(), attempt)

    @property
    def local(self) -> Flows:
        """Return the flows that this process has."""
        return Flows(self._function, self._definitions, settings().revision)


def _warn(code: Callable[..., Any]) -> None:
    from shared.kit.flow_warnings import warn  # it parses the code: on the laptop and in tests
    from shared.kit.functions import Task

    warn(code, lambda value: isinstance(value, Task))


def _object_command(address: ObjectAddress, method: str, arguments: Mapping[str, Json]) -> ObjectCall | None:
    if not is_running():
        return None
    function = local_classes.get().function_of(address.class_name)
    command = ObjectCall(function, address, method, dict(arguments))
    return made(command, f"objects(…).{method}()", frames=3)


def _note_made(command: object, what: str) -> None:
    made(command, what, frames=3)


def _refusal() -> Exception | None:
    text = "A flow's code reads and writes nothing by itself: a task does, and the flow yields its call."
    return InFlow(text) if is_running() else None


flow_hooks.install(_object_command, _note_made)
runtime.refuse_where(_refusal)

__all__ = ["FlowHost", "InFlow"]
