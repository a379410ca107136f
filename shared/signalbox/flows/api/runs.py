"""Runs of flows, for users' functions (docs/flows.md).

@app.flow
async def checkout(order: int, amount: int) -> str:
    paid = await charge.call(order=order, amount=amount)
    ...

run = checkout.start("order-7", order=7, amount=30)
flows("checkout", "order-7").event("approved", {"by": "ann"})
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from datetime import datetime
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

from signalbox.adapters import runtime
from signalbox.adapters.deployed_catalogue import catalogue_settings, deployed
from signalbox.adapters.http.json_bodies import json_of
from signalbox.adapters.http.request_log import current_function
from signalbox.adapters.known_requests import REQUESTS
from signalbox.adapters.settings import settings
from signalbox.core.calls import Call
from signalbox.core.codec.annotations import encode_unannotated
from signalbox.core.codec.json_forms import WrongValue
from signalbox.core.effects import Json
from signalbox.core.idempotency_keys import content_of, id_of_call, idempotency_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Unavailable
from signalbox.flows import sweep
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.machine.running_flow import created, is_running
from signalbox.flows.model.addresses import RUN_IDS, FlowAddress
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.headers import RUNNING, STUCK, SUSPENDED, FlowHeader
from signalbox.flows.model.labels import NO_LABELS
from signalbox.flows.model.messages import MESSAGE_IDS
from signalbox.flows.model.payloads import opened_entry
from signalbox.flows.problems import BadFlow, NoFlow
from signalbox.flows.requests import IfExists, check_choice, checked_if_exists
from signalbox.flows.service import messages, queries, reads, retries, sends, starts, suspensions
from signalbox.flows.service.sends import Sent, Starting
from signalbox.flows.shown import FlowLogShown, FlowRetryShown, waits_shown
from signalbox.objects.problems import NotReady
from signalbox.payloads.model import escaped, opened
from signalbox.payloads.service import opening_those_of

P = ParamSpec("P")
R = TypeVar("R")

FlowCode = Callable[P, Coroutine[Any, Any, R]]
"""The code of a flow, an ``async def``."""

NO_FLOWS = Flows("", {})

SERVED: dict[str, Callable[[], Flows]] = {}
"""The flows of each function of this process. On a laptop and in tests, one process serves many functions."""


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """The status of a run.

    - `state` is running, suspended, stuck, completed, failed or cancelled.
    - `result` is the value that the code returned, also if it is stored as a payload.
    - `error` is the problem that ended the run, and `trace` the place where the code raised it.
    - `problem` is the reason why the run is stuck. Both `error` and `problem` are empty if there is none.
    - `progress` is the last value of `flow.progress`.
    - `waiting_for` has the pending commands, and `log_length` is the number of entries in the log.
    - `deadline_at` is the end of the run's time-out, if it has one.
    - `suspended` has the time and the reason of a suspension.
    """

    id: str
    state: str
    result: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)
    progress: Any = None
    waiting_for: Sequence[Mapping[str, Any]] = ()
    log_length: int = 0
    problem: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    deadline_at: datetime | None = None
    trace: str = ""
    suspended: Mapping[str, str] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether the run has completed, failed or been cancelled."""
        return self.state not in (RUNNING, SUSPENDED, STUCK)

    @classmethod
    def of(cls, header: FlowHeader) -> Self:
        """Return the status of a run from its header and from the stuck sub-flows below the run."""
        outcome = header.end.outcome.to_json() if header.end else {}
        store = runtime.ports().store
        with opening_those_of(runtime.ports()):
            result = opened(outcome.get("result"))
        waits = waits_shown(header, reads.stuck_below(store, header), reads.retried_steps(store, header))
        return cls(
            header.address.key,
            header.state,
            result,
            outcome.get("error", {}),
            header.progress,
            json_of(waits),
            header.log_length,
            dict(header.stuck or {}),
            dict(header.labels),
            header.deadline_at,
            header.trace if header.end else "",
            dict(header.suspended or {}),
        )


def _of_a_known_flow(method: Callable[Concatenate["FlowRun", P], R]) -> Callable[Concatenate["FlowRun", P], R]:
    """Return a method whose `NoFlow` also names the catalogue's flows, if the run's flow is not among them."""

    @wraps(method)
    def checked(run: "FlowRun", /, *args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(run, *args, **kwargs)
        except NoFlow as error:
            flow = run._address.name
            with suppress(Unavailable):
                if (functions := _functions(flow)) and flow not in functions:
                    raise NoFlow(f"{error.detail} {_not_among(functions, flow)}", field="id") from error
            raise

    return checked


class FlowRun:
    """A run of a flow, addressed by the run's id. The run may not exist."""

    def __init__(
        self, address: FlowAddress, labels: Mapping[str, str] = NO_LABELS, timeout_seconds: float | None = None
    ) -> None:
        self._address = address
        self._labels = labels
        self._timeout_seconds = timeout_seconds

    def __repr__(self) -> str:
        return f"<FlowRun {self._address.name}/{self._address.key}>"

    @property
    def id(self) -> str:
        """The id of the run."""
        return self._address.key

    def with_(self, *, labels: Mapping[str, str] | None = None, timeout_seconds: float | None = None) -> Self:
        """Return the same run with other labels or another time-out for its start. Other options keep their values."""
        labels_after = self._labels if labels is None else labels
        return type(self)(
            self._address, labels_after, self._timeout_seconds if timeout_seconds is None else timeout_seconds
        )

    def start(self, on_complete: Call | None = None, **arguments: Any) -> "FlowRun":
        """Start the run, whichever function has its code. A repeat with the same arguments changes nothing.

        `on_complete` is a task that receives the `Outcome`. Raises `BadFlow` for an unknown flow, and `OtherBody` if
        the id was used with other arguments.
        """
        address = FlowAddress.chosen(self._address.name, self.id)
        written = {argument: _written(value, argument) for argument, value in arguments.items()}
        return started(NO_FLOWS, address, written, on_complete, self._labels, self._timeout_seconds)

    @_of_a_known_flow
    def event(
        self,
        name: str,
        value: Any = None,
        *,
        id: str | None = None,
        start: "Starting | None" = None,
        if_exists: IfExists = "same",
    ) -> Sent:
        """Send an event, which is kept until the flow waits for it. Calls with the same `id` send the same event once.

        With `start`, for instance `checkout.starting(order=7)`, the event starts the run if there is none, in one
        commit. If there is a run, `if_exists` decides: `same`, it receives the event; `replace_ended`, the same, but an
        ended run is removed and another one starts; `replace`, it is terminated and removed, and another one starts;
        `refuse`, `RunExists` is raised. The answer has a `warning` if the code does not wait for the event now.

        Raises `NoFlow` or `FlowEnded`, and `BadFlow` for another `if_exists` than `same` without `start`.
        """
        sent, new = _written(value, "value"), self._new(start, if_exists)
        id_ = _message_id(id, "event", self._address.base, name, sent)
        with REQUESTS.handled():
            return sends.send_event(runtime.ports(), self._address, name, sent, id_, new)

    @_of_a_known_flow
    def update(
        self,
        name: str,
        value: Any = None,
        *,
        id: str | None = None,
        start: "Starting | None" = None,
        if_exists: IfExists = "same",
    ) -> "SentUpdate":
        """Send an update, which the code receives once and answers (`flow.update`). Return at once.

        `wait` waits for the answer, and `result` returns it. Calls with the same `id` send the same update once, and
        all of them receive its answer. `start` and `if_exists` mean the same as for `event`. Raises `NoFlow`,
        `FlowEnded` or `TooManyUpdates`.
        """
        sent, new = _written(value, "value"), self._new(start, if_exists)
        id_ = _message_id(id, "update", self._address.base, name, sent)
        with REQUESTS.handled():
            return SentUpdate(self._address, sends.send_update(runtime.ports(), self._address, name, sent, id_, new))

    def sent_update(self, id: str) -> "SentUpdate":
        """Return the update that was sent under an id, without checking that it exists."""
        return SentUpdate(self._address, Sent(messages.check_update_id(id)))

    def _new(self, start: "Starting | None", if_exists: str) -> "Starting | None":
        check_choice(start, checked_if_exists(if_exists))
        if start is None:
            return None
        if start.flow != self._address.name:
            raise BadFlow(f"`start` is for the flow {start.flow}, not for {self._address.name}.", field="start")
        return replace(start, if_exists=if_exists)

    @_of_a_known_flow
    def cancel(self, reason: str = "") -> None:
        """Cancel the run: `flow.Cancelled` is raised at the place where the run's code waits.

        An ended run does not change.
        """
        key = idempotency_key("cancel", self._address.base)
        messages.cancel(runtime.ports(), self._address, reason, key)

    @_of_a_known_flow
    def terminate(self, reason: str = "") -> None:
        """End the run as cancelled without running its code. Locks are released; batches and sub-flows are cancelled.

        Use this for code that catches `flow.Cancelled` and continues. An ended run does not change. Raises `NoFlow`.
        """
        sweep.terminate(runtime.ports(), self._address, reason)

    @_of_a_known_flow
    def suspend(self, reason: str = "") -> None:
        """Let the run take no further step until `resume`. Events and the outcomes of its steps are kept.

        Tasks that the run has already scheduled still run, and its locks expire with their leases. A cancel takes
        effect when the run is resumed; `terminate` ends it at once. A run that is already suspended does not change.
        Raises `NoFlow` or `FlowEnded`.
        """
        suspensions.suspend(runtime.ports(), self._address, reason)

    @_of_a_known_flow
    def resume(self) -> None:
        """Let a suspended run continue. If the run is stuck, replay it with the code that is deployed now.

        Raises `NoFlow`.
        """
        suspensions.resume(runtime.ports(), self._address)

    def retry(
        self,
        from_entry: int | None = None,
        *,
        family: bool = False,
        timeout_seconds: float | None = None,
        reason: str = "",
        dry_run: bool = False,
        key: str | None = None,
    ) -> dict[str, Any]:
        """Let a run that has failed, or is stuck, continue in place: under its id, while its parent waits.

        The failed commands of its last `await` run again, and everything else stays; or the log is cut after
        `from_entry` entries. Effects of the dropped entries are not undone: a `dry_run` changes nothing and
        returns what would be dropped and run again. With `family`, the highest run that has failed because of this
        sub-flow is retried. A run whose deadline is over needs another time-out. Calls with the same `key` retry once.

        Raises `CannotRetry`, whose `reason` is one word, and `NoFlow`.
        """
        ports = runtime.ports()
        own = id_of_call(retries.RETRY_KEYS, key, "retry", self._address.base, from_entry, family)
        id_ = own or ports.store.new_id()
        options = retries.RetryOptions(from_entry, family, timeout_seconds, reason)
        with REQUESTS.handled():
            done = retries.retry(ports, _flows_of(self._address.name), self._address, id_, options, dry_run=dry_run)
        answer: dict[str, Any] = json_of(FlowRetryShown.of(done))
        return answer

    @_of_a_known_flow
    def status(self) -> FlowStatus:
        """Return the status of the run. Raises `NoFlow`."""
        return FlowStatus.of(reads.get(runtime.ports(), self._address))

    @_of_a_known_flow
    def wait(self, seconds: float) -> FlowStatus:
        """Wait until the run has ended, for at most `seconds`, and return its status. The run is read once a second."""
        return FlowStatus.of(reads.wait(runtime.ports(), self._address, seconds))

    def query(self, name: str, /, **arguments: Any) -> Any:
        """Return the answer of the run's code (`flow.answer`), from a replay of its log that changes nothing.

        Only the function that has the flow's code can query it. Raises `CannotQuery`, `NoQuery`, `NoFlow`, and the
        `Problem` that the answer raises.
        """
        written = {argument: _written(value, argument) for argument, value in arguments.items()}
        ports, flows = runtime.ports(), _flows_of(self._address.name)
        with REQUESTS.handled():
            return queries.query(ports, flows, self._address, name, written).result

    @_of_a_known_flow
    def log(self) -> dict[str, Any]:
        """Return the log of the run: its `entries`, and the values that `signalbox.testing.replay` needs."""
        header, stored = reads.get_log(runtime.ports().store, self._address)
        with opening_those_of(runtime.ports()):
            entries = tuple(map(opened_entry, stored))
            arguments = {name: escaped(opened(value)) for name, value in header.arguments.items()}
        log: dict[str, Any] = json_of(FlowLogShown.of(replace(header, arguments=arguments), entries, entries))
        return log

    @_of_a_known_flow
    def delete(self) -> None:
        """Delete a run that has ended or is stuck. Raises `FlowRunning`."""
        sweep.delete(runtime.ports(), self._address)


class SentUpdate:
    """An update that was sent, and its answer, which may not exist yet.

    `warning` is not empty if the code did not wait for the update. `started` is whether it has started the run.
    """

    def __init__(self, address: FlowAddress, sent: Sent) -> None:
        self._address = address
        self.id = sent.id
        self.started = sent.started
        self.warning = sent.warning

    def __repr__(self) -> str:
        warning = f", warning={self.warning!r}" if self.warning else ""
        return f"<SentUpdate {self.id} of {self._address.name}/{self._address.key}, started={self.started}{warning}>"

    def ready(self) -> bool:
        """Return whether the update has an answer. Raises `NotAnswered` if the run has ended without one."""
        return self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the answer; return whether there is one. Raises as `ready` does."""
        return sends.answer_of(runtime.ports(), self._address, self.id, seconds) is not None

    def result(self) -> Any:
        """Return the answer. Raises the `Problem` with which the code refused the update, `NotReady`, `NotAnswered`."""
        answer = sends.answer_of(runtime.ports(), self._address, self.id)
        if answer is None:
            raise NotReady(f"The update {self.id} has no answer yet: wait for it. {self.warning}".rstrip())
        if problem := answer.problem():
            raise problem
        with opening_those_of(runtime.ports()):
            return opened(answer.result)


class Flow(Generic[P, R]):
    """A flow of a user's function. `start` starts a run; `call` runs it as a sub-flow of another flow."""

    def __init__(
        self,
        definition: FlowDefinition,
        local: Callable[[], Flows],
        on_complete: Call | None = None,
        labels: Mapping[str, str] = NO_LABELS,
        timeout_seconds: float | None = None,
    ) -> None:
        self.definition = definition
        self._local = local
        self._on_complete = on_complete
        self._labels = labels
        self._timeout_seconds = timeout_seconds

    @property
    def name(self) -> str:
        """The name of the flow's code."""
        return self.definition.name

    def with_(
        self,
        *,
        on_complete: Call | None = None,
        labels: Mapping[str, str] | None = None,
        timeout_seconds: float | None = None,
    ) -> Self:
        """Return the same flow with other options for its runs.

        When a run ends, the task `on_complete` receives the `Outcome`. A run that has not ended after
        `timeout_seconds`, a year at most, is cancelled; `continue_as_new` does not extend the time.

        Lists and counts find runs by a label. A name must match `[a-z][a-z0-9_-]{0,62}`, and a value is a string of at
        most 200 bytes. Options that are left out keep their values.
        """
        labels_after = self._labels if labels is None else labels
        seconds = self._timeout_seconds if timeout_seconds is None else timeout_seconds
        return type(self)(self.definition, self._local, on_complete or self._on_complete, labels_after, seconds)

    def start(self, id: str, /, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """Start a run under an id. A repeat with the same arguments changes nothing.

        Raises `WrongArguments` (a `TypeError`) if the arguments do not fit the signature, and `OtherBody` if the id was
        used with other arguments.
        """
        arguments = self._checked(args, kwargs)
        address = FlowAddress.chosen(self.name, id)
        return started(self._local(), address, arguments, self._on_complete, self._labels, self._timeout_seconds)

    def starting(self, *args: P.args, **kwargs: P.kwargs) -> Starting:
        """Return the run that an event or an update starts if there is none.

        It is an argument: `run.event("add", item, start=cart.starting(owner="ann"))`.

        Raises `WrongArguments` (a `TypeError`).
        """
        options = self._on_complete, self._labels, self._timeout_seconds
        return starting(self._local(), self.name, self._checked(args, kwargs), *options)

    def start_new(self, *args: P.args, **kwargs: P.kwargs) -> FlowRun:
        """Start a run under an id that the kit draws, and return the run.

        In a task, a second delivery draws the same ids as the first delivery. Raises `WrongArguments` (a `TypeError`).
        """
        arguments = self._checked(args, kwargs)
        address = _drawn(self.name, arguments, self._on_complete, self._labels, self._timeout_seconds)
        return started(self._local(), address, arguments, self._on_complete, self._labels, self._timeout_seconds)

    def fork(self, run: str, id: str, from_entry: int, *, arguments: Mapping[str, Any] | None = None) -> FlowRun:
        """Start a run under `id` from the first `from_entry` entries of another run's log.

        The effects of the code up to that entry count as done; commands that the code waits for there are scheduled
        again. The new run has the other run's arguments and labels, unless `arguments` or labels are given. The other
        run may have ended, and does not change. A repeat changes nothing.

        Raises `CannotFork` if the log has fewer entries, or if the code has ended at the last of these entries, holds a
        lock there, or does not fit the entries. Also raises `OtherBody` if the id was used in another way, `NoFlow`,
        and `BadArgument`.
        """
        follow = self._on_complete and deployed(self._on_complete, "on_complete")
        labels = None if self._labels is NO_LABELS else self._labels
        written = None if arguments is None else self._checked((), arguments)
        wanted = starts.Fork(id, from_entry, written, follow, labels, self._timeout_seconds)
        ports, local, origin = runtime.ports(), self._local(), FlowAddress.checked(self.name, run)
        with REQUESTS.handled():
            return FlowRun(starts.fork(ports, local, origin, wanted).address)

    def call(self, *args: P.args, **kwargs: P.kwargs) -> SubFlow[R]:
        """Return the command that runs this flow as a sub-flow; its result is the result of the command.

        Raises `WrongArguments` (a `TypeError`), and `BadFlow` outside of a flow.
        """
        arguments = self._checked(args, kwargs)
        if not is_running():
            detail = f"{self.name}.call() works only inside the code of a flow. Elsewhere, use {self.name}.start()."
            raise BadFlow(detail)
        if self._timeout_seconds is not None:
            raise BadFlow(f"A sub-flow has no time-out: write `flow.wait_for({self.name}.call(…), seconds)`.")
        function, result = self._local().function or function_of(self.name), self.definition.signature.result
        command: SubFlow[R] = SubFlow(function, self.name, arguments, result)
        return created(command, f"{self.name}.call()")

    def call_as(self, id: str, /, *args: P.args, **kwargs: P.kwargs) -> SubFlow[R]:
        """Return the same command as `call`, for a run with the given id. Callers can address the run by this id.

        If there is a run with this id, even one that has ended, the command raises `FlowExists`, a `Problem`.
        """
        FlowAddress.chosen(self.name, id)
        command = self.call(*args, **kwargs)
        return created(replace(command, id=id), f"{self.name}.call_as()", instead_of=command)

    def _checked(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        signature = self.definition.signature
        return dict(signature.encode(signature.named(args, kwargs)))


class NewRun:
    """A run of a flow. The run has not been started, and its start draws its id."""

    def __init__(self, flow: str, labels: Mapping[str, str] = NO_LABELS, timeout_seconds: float | None = None) -> None:
        self._flow = flow
        self._labels = labels
        self._timeout_seconds = timeout_seconds

    def with_(self, *, labels: Mapping[str, str] | None = None, timeout_seconds: float | None = None) -> Self:
        """Return the same run with other labels or another time-out for its start. Other options keep their values."""
        labels_after = self._labels if labels is None else labels
        return type(self)(
            self._flow, labels_after, self._timeout_seconds if timeout_seconds is None else timeout_seconds
        )

    def starting(self, on_complete: Call | None = None, **arguments: Any) -> Starting:
        """Return the run that an event or an update starts if there is none, whichever function has its code."""
        written = {argument: _written(value, argument) for argument, value in arguments.items()}
        return starting(NO_FLOWS, self._flow, written, on_complete, self._labels, self._timeout_seconds)

    def start(self, on_complete: Call | None = None, **arguments: Any) -> FlowRun:
        """Start the run, whichever function has its code. In a task, a second delivery starts the same run.

        `on_complete` is a task that receives the `Outcome`. Raises `BadFlow` for an unknown flow.
        """
        written = {argument: _written(value, argument) for argument, value in arguments.items()}
        address = _drawn(self._flow, written, on_complete, self._labels, self._timeout_seconds)
        return started(NO_FLOWS, address, written, on_complete, self._labels, self._timeout_seconds)


@overload
def flows(name: str, id: str) -> FlowRun: ...


@overload
def flows(name: str) -> NewRun: ...


@overload
def flows(name: "FlowCode[P, R]") -> Flow[P, R]: ...


def flows(name: "str | FlowCode[P, R]", id: str | None = None) -> "FlowRun | NewRun | Flow[P, R]":
    """Return a run of a flow, by the flow's name and the run's id. Without an id, the start of the run draws an id.

    With an ``async def`` of the flow's name and signature instead of the name, return the flow of another function, so
    that a type checker sees the arguments of its starts. The code of this ``async def`` never runs here.

    Raises `BadFlow` or `BadKey`, and `TypeError` for another function than an ``async def``.
    """
    if not isinstance(name, str):
        return Flow(FlowDefinition.from_function(name), lambda: NO_FLOWS)
    if id is None:
        return NewRun(FlowAddress.checked(name, "new").name)
    return FlowRun(FlowAddress.checked(name, id))


def _drawn(
    flow: str, arguments: Mapping[str, Json], on_complete: Call | None, labels: Mapping[str, str], seconds: float | None
) -> FlowAddress:
    """Return the address of a new run.

    In a task, the id follows from the arguments: a second delivery has the same id.
    """
    new_id = runtime.ports().store.new_id
    _check_follow(flow, on_complete)
    follow = content_of(on_complete) if on_complete else ""
    id_ = id_of_call(RUN_IDS, None, "start", flow, arguments, follow, dict(labels), seconds) or new_id()
    return FlowAddress.checked(flow, id_)


def _message_id(chosen: str | None, *content: Any) -> str:
    return id_of_call(MESSAGE_IDS, chosen, *content) or runtime.ports().store.new_id()


def _flows_of(flow: str) -> Flows:
    """Return the flows of the running function.

    Outside of requests, as in a test, return the flows of the function that has `flow`.
    """
    served = SERVED.get(current_function.get() or function_of(flow))
    return served() if served else NO_FLOWS


def _written(value: Any, field: str) -> Json:
    """Return a value as JSON, encoded by its own type. Raises `BadFlow` if that is impossible."""
    try:
        return encode_unannotated(value, field)
    except WrongValue as error:
        raise BadFlow(f"{error}.", field=field) from error


def starting(
    local: Flows,
    flow: str,
    arguments: Mapping[str, Json],
    on_complete: Call | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    timeout_seconds: float | None = None,
) -> Starting:
    """Return the run that a message starts if there is none. Raises `BadFlow` for an unknown flow."""
    function, follow = _placed(local, flow, on_complete)
    return Starting(flow, local, function, arguments, follow, labels, timeout_seconds)


def started(
    local: Flows,
    address: FlowAddress,
    arguments: Mapping[str, Json],
    on_complete: Call | None = None,
    labels: Mapping[str, str] = NO_LABELS,
    timeout_seconds: float | None = None,
) -> FlowRun:
    """Start a run. If `local` has the flow's code, the start includes the first turn."""
    function, follow = _placed(local, address.name, on_complete)
    ports = runtime.ports()
    with REQUESTS.handled():  # the code of the flow may run: its threads must not act, also outside of a request
        starts.start(ports, local, function, address, dict(arguments), follow, labels, timeout_seconds)
    return FlowRun(address)


def _placed(local: Flows, flow: str, on_complete: Call | None) -> tuple[str, Call | None]:
    """Return the function that has a flow's code, and the call with its deployed function. Raises `BadFlow`."""
    _check_follow(flow, on_complete)
    follow = on_complete and deployed(on_complete, "on_complete")
    return (local.function if flow in local.definitions else function_of(flow)), follow


def _check_follow(flow: str, on_complete: object) -> None:
    """Raise `BadFlow` for an `on_complete` that is not a call, such as the id of a run in its place."""
    if on_complete is None or isinstance(on_complete, Call):
        return
    form = f"flows({flow!r}, id).start(name=value)"
    advice = f" Write the run's id, and the arguments by their names: {form}." if isinstance(on_complete, str) else ""
    detail = f"`on_complete` must be a call of a task, such as `printed.call(…)`, not {on_complete!r:.80}.{advice}"
    raise BadFlow(detail, field="on_complete")


def _functions(flow: str) -> Mapping[str, str]:
    """Return the functions that have the code of flows, read again if `flow` is not among them."""
    return catalogue_settings(settings(), lambda known: flow in known.flow_functions).flow_functions


def _not_among(functions: Mapping[str, str], flow: str) -> str:
    return f"The catalogue has no flow {flow!r}. Its flows: {', '.join(sorted(functions)) or 'none'}."


def function_of(flow: str) -> str:
    """Return the function that has the code of a flow. Raises `BadFlow` if no function has the flow."""
    functions = _functions(flow)
    if flow not in functions:
        raise BadFlow(_not_among(functions, flow), field="flow")
    return functions[flow]
