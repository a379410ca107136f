"""The flows of a user's function: registration, and the deliveries of its queues."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.http.open_function_access import AccessRules
from signalbox.adapters.http.routes import Routes
from signalbox.adapters.row_files import write_archive
from signalbox.adapters.settings import settings
from signalbox.core import flow_hooks
from signalbox.core.codec.annotations import hints_of
from signalbox.core.codec.json_forms import Codec
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.effects import Json
from signalbox.core.kit_names import TASKS_QUEUE
from signalbox.core.ports import Ports
from signalbox.flows.api.runs import SERVED, Flow, FlowCode, P, R
from signalbox.flows.api.step_threads import Threads
from signalbox.flows.http import routes as flow_routes
from signalbox.flows.machine.commands import ContinueAsNew, ObjectCall
from signalbox.flows.machine.running_flow import created, is_replayed, is_running, note_refused, refusal_of_query
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.retention import Keeping
from signalbox.flows.tasks import archives, bulk, steps, turns
from signalbox.mailboxes.http import delivery_of
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.objects.api import local_classes
from signalbox.tasks.api import Task
from signalbox.tasks.limits import LIMITS as TASKS_LIMITS
from signalbox.tasks.machine.attempts import RetryLimits
from signalbox.tasks.model.attempts import TaskContext
from signalbox.tasks.model.contexts import Context, OfStep


class InFlow(RuntimeError):
    """A flow's code made a read or a write, which each replay would repeat. The run is stuck."""


CONTEXT = "task_context_"
"""The parameter of the task that starts scheduled runs. No flow may have a parameter of this name."""

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY


class FlowHost:
    """The flows of a function.

    A function without flows also has a host if it runs steps of another function's flows.
    """

    def __init__(self, function: str) -> None:
        self._function = function
        self._definitions: dict[str, FlowDefinition] = {}

    def add(self, code: FlowCode[P, R], retention_days: int | None = None, archive: str = "") -> Flow[P, R]:
        """Add a flow under the name of its code, and warn about calls that a replay would repeat.

        Raises `TypeError` for code that cannot be a flow or has a visible error, `ValueError` for a second flow of the
        same name or an impossible option.
        """
        keeping = Keeping.checked(retention_days, archive)
        definition = FlowDefinition.from_function(code, (ContinueAsNew,), keeping)
        if definition.name in self._definitions:
            raise ValueError(f"{self._function} has two flows of the name {definition.name}")
        self._definitions[definition.name] = definition
        if not settings().in_cloud:
            _check(code)
        return Flow(definition, lambda: self.local)

    def start_of(self, flow: Any) -> Callable[..., None]:
        """Return the code of a task that takes a flow's arguments and starts a run.

        The task is named after the flow, and the run's id is the task's operation.
        """
        code = flow.definition.code

        def start(**arguments: Any) -> None:
            context: TaskContext = arguments.pop(CONTEXT)
            flow.start(context.operation, **arguments)

        own = [each.replace(kind=KEYWORD_ONLY) for each in inspect.signature(code).parameters.values()]
        signature = inspect.Signature([*own, inspect.Parameter(CONTEXT, KEYWORD_ONLY)])
        types = {**hints_of(code, flow.name), CONTEXT: TaskContext, "return": None}
        vars(start).update(__signature__=signature)
        start.__name__, start.__annotations__ = flow.name, types
        return start

    def add_routes(self, routes: Routes, rules: AccessRules) -> None:
        flow_routes.add_routes(routes, lambda: self.local, rules)

    def serve(self) -> None:
        """Let `flows(…).query` find the flows of this function."""
        SERVED[self._function] = lambda: self.local

    def run_turn(self, ports: Ports, delivered: Delivered[Members]) -> None:
        """Run a flow's mailbox. Raises `Unavailable` if the wake-up must be delivered again."""
        turns.run_turn(ports, self.local, delivery_of(delivered), Threads(self._function))

    def run_step(self, ports: Ports, delivered: Delivered[OfStep], limits: RetryLimits, code: steps.Code) -> None:
        """Run a task as a step of a flow."""
        steps.run_step(ports, self.local, delivered, limits, code)

    def run_own_task(self, ports: Ports, delivered: Delivered[Context]) -> None:
        """Run an internal task of flows."""
        if archives.is_archive(delivered.payload):
            archives.archive(ports, delivered.payload, write_archive)
        else:
            steps.run_own_task(ports, delivered)

    @property
    def act_on_run(self) -> Task[..., Any]:
        """The internal task that acts on one of the runs that match a request."""

        def act_on_run(
            flow: str, action: str, state: str, label: str, prefix: str, reason: str, batch: str, until: str, id: str
        ) -> str:
            members = {"flow": flow, "action": action, "state": state, "label": label, "prefix": prefix}
            members |= {"reason": reason, "batch": batch, "until": until, "id": id}
            return bulk.act_on_run(runtime.ports(), members, self.local)

        return Task(self._function, act_on_run, RetryLimits(TASKS_LIMITS.attempts_max), TASKS_QUEUE)

    @property
    def local(self) -> Flows:
        """The flows whose code this process has."""
        return Flows(self._function, self._definitions, settings().revision)


def _check(code: Callable[..., Any]) -> None:
    from signalbox.flows.api.warnings import check  # it parses the code, and only outside of the cloud

    check(code, lambda value: isinstance(value, Task | Flow))


# --- other subjects inside the code of a flow ---


def _object_command(
    address: ObjectAddress, method: str, arguments: Mapping[str, Json], result: Codec
) -> ObjectCall | None:
    if not is_running():
        return None
    function = local_classes.get().function_of(address.name)
    command = ObjectCall(function, address, method, dict(arguments), result)
    return created(command, f"objects(…).{method}()", frames=4)


def _note_created(command: object, name: str, instead_of: object = None) -> None:
    if is_running():
        created(command, name, frames=3, instead_of=instead_of)


def _refusal() -> Exception | None:
    if refusal := refusal_of_query("reads or writes"):
        return refusal
    text = "The code of a flow must not read or write by itself. Do it in a task, and await the call of that task."
    return InFlow(text) if is_running() else None


flow_hooks.install_flow_hooks(_object_command, _note_created, is_replayed, note_refused, is_running)
runtime.refuse_where(_refusal)
