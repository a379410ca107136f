"""Flows, for a user's own functions: a generator that runs for minutes or months (docs/flows.md).

    @app.flow
    def checkout(order: int, amount: int):
        paid = yield charge.call(order=order, amount=amount)
        ...

    run = checkout.start("order-7", order=7, amount=30)
    flows("checkout", "order-7").event("approved", {"by": "ann"})

A name of this module is loaded when a function imports it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Generic, ParamSpec, Self, TypeVar

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.core.rules.calls import Call
from shared.core.rules.effects import Json
from shared.core.rules.problems import BadFlow
from shared.flows.operations import flows as operations
from shared.flows.operations import posts, removal, starts
from shared.flows.rules import flow
from shared.flows.rules.addresses import FlowAddress
from shared.flows.rules.commands import SubFlow
from shared.flows.rules.definitions import FlowDefinition, Flows
from shared.flows.rules.running import is_running, made
from shared.kit import flow_logs
from shared.kit.flow_functions import function_of
from shared.kit.idempotency import idempotency_key

P = ParamSpec("P")
R = TypeVar("R")

NO_FLOWS = Flows("", {})


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """How far a run is: `state` is running, stuck, completed, failed or cancelled.

    `result` is what it returned, `error` the problem that ended it, `progress` what its code showed last, `waiting_for`
    its commands, `told` how many entries its log has, and `problem` why it is stuck. `error` and `problem` are empty
    where there is none.
    """

    id: str
    state: str
    result: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)
    progress: Any = None
    waiting_for: Sequence[Mapping[str, Any]] = ()
    told: int = 0
    problem: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Return whether it has ended, well or not."""
        return self.state not in ("running", "stuck")

    @classmethod
    def of(cls, status: operations.FlowStatus) -> Self:
        """Return the status of a run as a user's code sees it."""
        shown = status.to_json()
        return cls(**{each.name: shown[each.name] for each in fields(cls) if each.name in shown})


class FlowRun:
    """A run of a flow, by its id; it need not exist."""

    def __init__(self, address: FlowAddress) -> None:
        self._address = address

    @property
    def id(self) -> str:
        """Return the id."""
        return self._address.id

    def start(self, on_complete: Call | None = None, **arguments: Json) -> "FlowRun":
        """Start the run, whichever function has its code. The same again changes nothing.

        `on_complete` gets the `Outcome`. Raises `BadFlow` for an unknown flow, `OtherBody` if the id was used with
        other arguments.
        """
        return started(NO_FLOWS, self._address, arguments, on_complete)

    def event(self, name: str, value: Json = None, *, id: str | None = None) -> None:  # noqa: A002
        """Send an event; it is kept until the flow waits for it. A repeat with the same `id` is the same event.

        Raises `NoFlow`, or `FlowEnded`.
        """
        key = idempotency_key("event", self._address.base, name, value)
        posts.post_event(runtime.ports(), self._address, name, value, id or key or runtime.ports().store.new_id())

    def cancel(self, reason: str = "") -> None:
        """Cancel the run: `flow.Cancelled` is raised where its code waits. One that has ended stays as it is."""
        posts.cancel(runtime.ports(), self._address, reason)

    def resume(self) -> None:
        """Wake a stuck run, so that it tries again now."""
        posts.resume(runtime.ports(), self._address)

    def status(self) -> FlowStatus:
        """Return how far it is. Raises `NoFlow`."""
        return FlowStatus.of(operations.get(runtime.ports(), self._address))

    def wait(self, seconds: float) -> FlowStatus:
        """Wait for the end, for so many seconds at most; return how far it is. It reads once a second."""
        return FlowStatus.of(operations.wait(runtime.ports(), self._address, seconds))

    def log(self) -> dict[str, Any]:
        """Return what it was told, in order, under `entries`, and what `shared.testing.replay` needs besides."""
        return flow_logs.whole_log(runtime.ports().store, self._address)

    def delete(self) -> None:
        """Remove a run that has ended or is stuck. Raises `FlowRunning`."""
        removal.delete(runtime.ports(), self._address)


class Flow(Generic[P, R]):
    """A flow of a user's function. `start` starts a run; inside another flow, `call` runs it as a part of that one."""

    def __init__(self, definition: FlowDefinition, local: Callable[[], Flows]) -> None:
        self.definition = definition
        self._local = local

    @property
    def name(self) -> str:
        """Return the name of its code."""
        return self.definition.name

    def start(self, id: str, *, on_complete: Call | None = None, **arguments: Json) -> FlowRun:  # noqa: A002
        """Start a run under an id. The same again changes nothing.

        `on_complete` is a task that gets the `Outcome`. Raises `WrongArguments` (a `TypeError`) if the arguments do not
        fit the signature, `OtherBody` if the id was used with others.
        """
        self.definition.signature.check(arguments)
        return started(self._local(), FlowAddress.checked(self.name, id), arguments, on_complete)

    def call(self, **arguments: Json) -> SubFlow:
        """Return the command that runs this flow as a part of the one whose code runs; its result is the result.

        Raises `BadFlow` outside of a flow.
        """
        self.definition.signature.check(arguments)
        if not is_running():
            raise BadFlow(f"{self.name}.call() belongs inside a flow; elsewhere use {self.name}.start().")
        command = SubFlow(self._local().function, self.name, arguments)
        return made(command, f"{self.name}.call()")


def flows(name: str, id: str) -> FlowRun:  # noqa: A002  the word of the HTTP API
    """Return a run of a flow, by the flow's name and the run's id. Raises `BadFlow` or `BadKey`."""
    return FlowRun(FlowAddress.checked(name, id))


def started(
    local: Flows, address: FlowAddress, arguments: Mapping[str, Json], on_complete: Call | None = None
) -> FlowRun:
    """Start a run; at once where `local` has the flow's code."""
    follow = on_complete and deployed(on_complete, "on_complete")
    function = local.function if address.flow in local.definitions else function_of(address.flow)
    starts.start(runtime.ports(), local, function, address, dict(arguments), follow)
    return FlowRun(address)


__all__ = ["Flow", "FlowRun", "FlowStatus", "flow", "flows", "started"]
