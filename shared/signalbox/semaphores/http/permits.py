"""Wait for permits, cancel a wait, signal a semaphore and renew a lease. Each function mounts its own routes.

The functions are `{base}semaphore-wait`, `{base}semaphore-signal` and `{base}semaphore-renew`. The routes of
`{base}semaphores` are in another module, so that these functions do not load the code for lists, deadlocks and
removal.
"""

from collections.abc import Hashable
from functools import partial
from typing import Any

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.waiting_requests import Lines
from signalbox.core.ports import Ports
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.waits import retry_after_seconds
from signalbox.semaphores.model.leases import Lease
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer
from signalbox.semaphores.requests import RenewRequest, SignalRequest, WaitRequest, wait_seconds
from signalbox.semaphores.service import leases, waits

semaphore_wait = Routes("semaphore_wait")
semaphore_signal = Routes("semaphore_signal")
semaphore_renew = Routes("semaphore_renew")

Json = dict[str, Any]

_acquires = Lines(LIMITS.acquires_waiting_max, LIMITS.acquire_away_seconds)
"""The requests of this process that wait for permits."""


@semaphore_wait.on("POST", "/{name}", query=("wait_seconds",))
def wait(ports: Ports, request: Request, name: str) -> Response:
    new_id = ports.store.new_id()
    wanted = WaitRequest.from_request(request.json_object(), request.header("Idempotency-Key") or new_id)
    check_calls(request, continuation=wanted.continuation, on_timeout=wanted.on_timeout)
    expected_seconds = None
    if seconds := wait_seconds(request.query.get("wait_seconds"), wanted):
        answer = acquire_in_turn(_acquires, ports, name, wanted, seconds, comes_back=wanted.id != new_id)
        expected_seconds = _acquires.seconds_until_turn(_line(ports, name), wanted.id)
    else:
        answer = waits.wait(ports, name, wanted)
    seconds_until_next = retry_after_seconds(answer, ports.clock.jitter(), expected_seconds)
    headers = {} if seconds_until_next is None else {"Retry-After": str(seconds_until_next)}
    return Response(202 if wanted.continuation else 200, _answer(answer), headers)


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


@semaphore_wait.on("DELETE", "/{name}/{id}")
def cancel(ports: Ports, _: Request, name: str, id: str) -> Response:
    return Response(200, {"cancelled": waits.cancel(ports, name, id)})


@semaphore_signal.on("POST", "/{name}")
def signal(ports: Ports, request: Request, name: str) -> Response:
    signalled = SignalRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    return Response(200, {"released": leases.signal(ports, name, signalled)})


@semaphore_renew.on("POST", "/{name}")
def renew(ports: Ports, request: Request, name: str) -> Response:
    ends_at = leases.renew(ports, name, RenewRequest.from_request(request.json_object()))
    return Response(200, {"renewed": True, "ends_at": ends_at} if ends_at else {"renewed": False})


# --- renderings ---


def _answer(answer: WaitAnswer) -> Json:
    """Render the answer of a wait; only the states that hold are members."""
    if answer.lease:
        return {"acquired": True, "lease": _lease(answer.lease)}
    states = {"waiting": answer.waiting, "ended": answer.ended, "paused": answer.paused}
    return {"acquired": False} | {name: True for name, holds in states.items() if holds}


def _lease(lease: Lease) -> Json:
    return {"id": lease.id, "token": lease.token, "ends_at": lease.ends_at}
