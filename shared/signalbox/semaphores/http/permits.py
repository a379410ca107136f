"""Wait for permits, cancel a wait, signal a semaphore and renew a lease. Each function mounts its own routes.

The functions are `{base}semaphore-wait`, `{base}semaphore-signal` and `{base}semaphore-renew`. The routes of
`{base}semaphores` are in another module, so that these functions do not load the code for lists, deadlocks and
removal.
"""

from collections.abc import Hashable
from functools import partial
from typing import Annotated

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY, Answer, Parameter
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.waiting_requests import Lines
from signalbox.core.effects import name_of
from signalbox.core.ports import Ports
from signalbox.core.problems import OtherBody, WaitOfFlow
from signalbox.core.surface.field_rules import Range, Seconds
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.waits import retry_after_seconds
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.requests import RenewRequest, SemaphoreName, SignalRequest, WaitId, WaitRequest, wait_seconds
from signalbox.semaphores.service import leases, waits
from signalbox.semaphores.shown import CancelledShown, ReleasedShown, RenewedShown, WaitedShown

semaphore_wait = Routes("semaphore_wait")
semaphore_signal = Routes("semaphore_signal")
semaphore_renew = Routes("semaphore_renew")

WAIT_SECONDS = Parameter(
    "wait_seconds",
    Annotated[float, Seconds(LIMITS.acquire_wait_seconds_max, zero=True)],
    "Without a continuation: how long to wait for the permits. If the semaphore is paused, or if too many requests "
    "wait already, the response comes at once.",
    default=0,
)
ASK_AGAIN = Parameter(
    "Retry-After",
    Annotated[int, Range(1, 60)],
    "The number of seconds after which to ask again, if no permits were granted. With `wait_seconds`, it is the time "
    "until the request's turn is expected, if that is known. Ask again under the same `id` to keep the turn. Otherwise "
    "it is random, so that callers do not all ask at once. It is larger while the semaphore is paused. Absent if the "
    "answer contains a lease, or if the wait has ended.",
)
_acquires = Lines(LIMITS.acquires_waiting_max, LIMITS.acquire_away_seconds)
"""The requests of this process that wait for permits."""


@semaphore_wait.on(
    "POST",
    "/{name}",
    query=(WAIT_SECONDS,),
    headers=(IDEMPOTENCY_KEY,),
    body=WaitRequest,
    example={"id": "me"},
    answers={
        200: Answer(WaitedShown, "Without a continuation.", (ASK_AGAIN,)),
        202: Answer(WaitedShown, "With a continuation. A lease is the continuation's."),
    },
    refuses=(NoSemaphore, OtherBody),
)
def wait(ports: Ports, request: Request, name: SemaphoreName) -> Response:
    """Wait for permits.

    Without a continuation, the response comes at once, with or without a lease, or within `wait_seconds`. With one, its
    task runs when the permits have been granted. A repeated wait with the same id changes nothing; the response is its
    current state.
    """
    new_id = ports.store.new_id()
    wanted = WaitRequest.from_request(request.json_object(), id=request.caller_key or new_id)
    check_calls(request, continuation=wanted.continuation, on_timeout=wanted.on_timeout)
    expected_seconds = None
    if seconds := wait_seconds(request.query.get("wait_seconds"), wanted):
        answer = acquire_in_turn(_acquires, ports, name, wanted, seconds, comes_back=wanted.id != new_id)
        expected_seconds = _acquires.seconds_until_turn(_line(ports, name), wanted.id)
    else:
        answer = waits.wait(ports, name, wanted)
    seconds_until_next = retry_after_seconds(answer, ports.clock.jitter(), expected_seconds)
    headers = {} if seconds_until_next is None else {"Retry-After": str(seconds_until_next)}
    return Response(202 if wanted.continuation else 200, WaitedShown.of(answer), headers)


def acquire_in_turn(
    lines: Lines, ports: Ports, name: str, wanted: WaitRequest, seconds: float, *, comes_back: bool = True
) -> WaitAnswer:
    """Acquire permits within `seconds`, after earlier requests of this process, also those that will be repeated."""

    def look(seconds: float) -> WaitAnswer | None:
        answer = waits.acquire_within(ports, name, wanted, seconds)
        return None if answer == NOT_ACQUIRED else answer

    before = partial(waits.acquired_before, ports, name, wanted)
    return lines.in_turn(_line(ports, name), wanted.id if comes_back else "", seconds, look, before) or NOT_ACQUIRED


def _line(ports: Ports, name: str) -> Hashable:
    return id(ports.store), name


@semaphore_wait.on("DELETE", "/{name}/{id}", answers={200: CancelledShown}, refuses=(NoSemaphore, WaitOfFlow))
def cancel_wait(ports: Ports, _: Request, name: SemaphoreName, id: WaitId) -> Response:
    """Cancel a wait that has a continuation. If it was granted in the meantime, its lease is released."""
    return Response(200, CancelledShown(waits.cancel(ports, name, id)))


@semaphore_signal.on(
    "POST",
    "/{name}",
    headers=(IDEMPOTENCY_KEY,),
    body=SignalRequest,
    answers={200: ReleasedShown},
    refuses=(NoSemaphore,),
)
def signal(ports: Ports, request: Request, name: SemaphoreName) -> Response:
    """End a lease, and grant its permits to waiters."""
    key = request.caller_key
    operation = name_of("key of a signal", key) if key else ""  # a short one, which no task's signal has
    signalled = SignalRequest.from_request(request.json_object(), operation=operation)
    return Response(200, ReleasedShown(leases.signal(ports, name, signalled)))


@semaphore_renew.on("POST", "/{name}", body=RenewRequest, answers={200: RenewedShown}, refuses=(NoSemaphore,))
def renew(ports: Ports, request: Request, name: SemaphoreName) -> Response:
    """Extend a lease that is still held."""
    ends_at = leases.renew(ports, name, RenewRequest.from_request(request.json_object()))
    return Response(200, RenewedShown(ends_at is not None, ends_at))
