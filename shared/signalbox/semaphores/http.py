"""The HTTP of semaphores. Each function mounts its own routes.

`{base}semaphores`, `{base}semaphore-wait`, `{base}semaphore-signal` and `{base}semaphore-renew`.
"""

from functools import partial
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.adapters.waiting_requests import Lines
from signalbox.core.paging import OF_NAMES
from signalbox.core.ports import Ports
from signalbox.semaphores import sweep
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.machine.lanes import weight_of
from signalbox.semaphores.machine.waits import retry_after_seconds
from signalbox.semaphores.model.lanes import Lane
from signalbox.semaphores.model.leases import Lease, LeaseRecord
from signalbox.semaphores.model.semaphore import Semaphore, SemaphoreView
from signalbox.semaphores.model.waiters import NOT_ACQUIRED, WaitAnswer, Waiter
from signalbox.semaphores.requests import (
    RenewRequest,
    SemaphoreSettings,
    SemaphoresQuery,
    SettingsPatch,
    SignalRequest,
    WaitRequest,
    wait_seconds,
)
from signalbox.semaphores.service import leases, settings, views, waits

semaphores = Routes("semaphores")
semaphore_wait = Routes("semaphore_wait")
semaphore_signal = Routes("semaphore_signal")
semaphore_renew = Routes("semaphore_renew")

Json = dict[str, Any]

_acquires = Lines(LIMITS.acquires_waiting_max)
"""The requests of this process that wait for permits."""


# --- waits and leases ---


@semaphore_wait.on("POST", "/{name}", query=("wait_seconds",))
def wait(request: Request, name: str) -> Response:
    ports = runtime.ports()
    id_ = request.header("Idempotency-Key") or ports.store.new_id()
    wanted = WaitRequest.from_request(request.json_object(), id_)
    check_calls(request, continuation=wanted.continuation, on_timeout=wanted.on_timeout)
    if seconds := wait_seconds(request.query.get("wait_seconds"), wanted):
        answer = acquire_in_turn(_acquires, ports, name, wanted, seconds)
    else:
        answer = waits.wait(ports, name, wanted)
    seconds_until_next = retry_after_seconds(answer, ports.clock.jitter())
    headers = {} if seconds_until_next is None else {"Retry-After": str(seconds_until_next)}
    return Response(202 if wanted.continuation else 200, _answer(answer), headers)


def acquire_in_turn(lines: Lines, ports: Ports, name: str, wanted: WaitRequest, seconds: float) -> WaitAnswer:
    """Acquire permits within `seconds`, after the earlier requests of this process."""
    look = partial(waits.acquire_within, ports, name, wanted)
    before = partial(waits.acquired_before, ports, name, wanted)
    return lines.in_turn((id(ports.store), name), seconds, look, before) or NOT_ACQUIRED


@semaphore_wait.on("DELETE", "/{name}/{id}")
def cancel(_: Request, name: str, id: str) -> Response:
    return Response(200, {"cancelled": waits.cancel(runtime.ports(), name, id)})


@semaphore_signal.on("POST", "/{name}")
def signal(request: Request, name: str) -> Response:
    signalled = SignalRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    return Response(200, {"released": leases.signal(runtime.ports(), name, signalled)})


@semaphore_renew.on("POST", "/{name}")
def renew(request: Request, name: str) -> Response:
    ends_at = leases.renew(runtime.ports(), name, RenewRequest.from_request(request.json_object()))
    return Response(200, {"renewed": True, "ends_at": ends_at} if ends_at else {"renewed": False})


# --- semaphores ---


@semaphores.on("PUT", "/{name}")
def put(request: Request, name: str) -> Response:
    stored = settings.put(runtime.ports(), name, SemaphoreSettings.from_request(request.json_object()))
    return Response(201 if stored.created else 200, _changed(stored))


@semaphores.on("PATCH", "/{name}")
def patch(request: Request, name: str) -> Response:
    changes = SettingsPatch.from_request(request.json_object())
    return Response(200, _changed(settings.patch(runtime.ports(), name, changes)))


@semaphores.on("GET", "/{name}")
def get(_: Request, name: str) -> Response:
    return Response(200, _semaphore(views.get(runtime.ports(), name)))


@semaphores.on("GET", "/", query=("waiting", "deadlocks", *OF_NAMES))
def find(request: Request) -> Response:
    query = SemaphoresQuery.from_request(request.query)
    if query.deadlocks:
        return Response(200, views.find_deadlocks(runtime.ports()))
    page = views.find(runtime.ports(), query)
    return Response(200, {"semaphores": [_semaphore(view) for view in page.semaphores], **page.more})


@semaphores.on("POST", "/{name}/pause")
def pause(_: Request, name: str) -> Response:
    return Response(200, _semaphore(settings.pause_grants(runtime.ports(), name)))


@semaphores.on("POST", "/{name}/resume")
def resume(_: Request, name: str) -> Response:
    return Response(200, _semaphore(settings.resume_grants(runtime.ports(), name)))


@semaphores.on("DELETE", "/{name}")
def delete(_: Request, name: str) -> Response:
    sweep.delete(runtime.ports(), name)
    return Response(204)


@semaphores.on("DELETE", "/{name}/leases/{id}", query=("reason",))
def end(request: Request, name: str, id: str) -> Response:
    reason = request.query.get("reason", "")
    return Response(200, {"released": leases.end_by_hand(runtime.ports(), name, SignalRequest(id), reason)})


# --- renderings ---


def _answer(answer: WaitAnswer) -> Json:
    """Render the answer of a wait; only the states that hold are members."""
    if answer.lease:
        return {"acquired": True, "lease": _lease(answer.lease)}
    states = {"waiting": answer.waiting, "ended": answer.ended, "paused": answer.paused}
    return {"acquired": False} | {name: True for name, holds in states.items() if holds}


def _lease(lease: Lease) -> Json:
    return {"id": lease.id, "token": lease.token, "ends_at": lease.ends_at}


def _changed(changed: settings.ChangedSettings) -> Json:
    return _semaphore(changed.view) | ({"waits_ended": changed.waits_ended} if changed.waits_ended else {})


def _semaphore(view: SemaphoreView) -> Json:
    """Render a semaphore; the parts of its wait queue that were not read are absent."""
    semaphore = view.semaphore
    waiters = None if view.waiters is None else [_waiter(waiter) for waiter in view.waiters]
    return {
        "name": view.name,
        "permits": semaphore.permits,
        "free": view.free,
        "lease_seconds": semaphore.lease_seconds,
        **_given({"delete_after_seconds": semaphore.delete_after_seconds}),
        **_given({"weights": dict(semaphore.weights) or None}),
        "leases": [_held(view, lease) for lease in view.leases],
        **_given({"waiters": waiters, "waiting": view.waiting}),
        **_given({"lanes": _lanes(semaphore) or None, "paused_at": semaphore.paused_at}),
    }


def _lanes(semaphore: Semaphore) -> list[Json]:
    """Render the lanes that may have waiters, each with its weight and its share of the permits."""
    lanes = [lane for lane in semaphore.lanes if lane.mode != "open"]
    total = sum(weight_of(semaphore, lane) for lane in lanes)
    return [_lane(lane, weight_of(semaphore, lane), total) for lane in lanes]


def _lane(lane: Lane, weight: int, total: int) -> Json:
    """Render a lane; `key` is absent without one, and `shared` true if keys share the lane for want of room."""
    whose: Json = {"shared": True} if lane.key is None else _given({"key": lane.key or None})
    return whose | {"priority": lane.priority, "weight": weight, "share": round(weight / total, 4)}


def _held(view: SemaphoreView, lease: LeaseRecord) -> Json:
    """Render a lease; its task and holder are known if its wait's receipt was read."""
    holder = view.holders.get(lease.lease_id)
    return _lease(lease.held(view.name)) | {"permits": lease.permits} | (_task(holder) if holder else {})


def _waiter(waiter: Waiter) -> Json:
    lane = _given({"key": waiter.key or None, "priority": waiter.priority or None})
    return {"id": waiter.id, "since": waiter.since, "permits": waiter.permits} | lane | _task(waiter)


def _task(waiter: Waiter) -> Json:
    """Render the task of a wait, without its payload, which may be large, and the holder that the wait names."""
    return {"task": waiter.task_shown()} | ({"holder": waiter.holder} if waiter.holder else {})


def _given(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}
