"""`{base}semaphores`: create, change, show, list and delete semaphores, and end a lease as an operator."""

from typing import Any

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.paging import OF_NAMES
from signalbox.core.ports import Ports
from signalbox.semaphores import sweep
from signalbox.semaphores.machine.lanes import weight_of
from signalbox.semaphores.model.lanes import Lane
from signalbox.semaphores.model.leases import LeaseRecord
from signalbox.semaphores.model.semaphore import Semaphore, SemaphoreView
from signalbox.semaphores.model.waiters import Waiter
from signalbox.semaphores.requests import SemaphoreSettings, SemaphoresQuery, SettingsPatch, SignalRequest
from signalbox.semaphores.service import leases, settings, views

routes = Routes("semaphores")

Json = dict[str, Any]


@routes.on("PUT", "/{name}")
def put(ports: Ports, request: Request, name: str) -> Response:
    stored = settings.put(ports, name, SemaphoreSettings.from_request(request.json_object()))
    return Response(201 if stored.created else 200, _changed(stored))


@routes.on("PATCH", "/{name}")
def patch(ports: Ports, request: Request, name: str) -> Response:
    changes = SettingsPatch.from_request(request.json_object())
    return Response(200, _changed(settings.patch(ports, name, changes)))


@routes.on("GET", "/{name}")
def get(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _semaphore(views.get(ports, name)))


@routes.on("GET", "/", query=("waiting", "deadlocks", *OF_NAMES))
def find(ports: Ports, request: Request) -> Response:
    query = SemaphoresQuery.from_request(request.query)
    if query.deadlocks:
        return Response(200, views.find_deadlocks(ports))
    page = views.find(ports, query)
    return Response(200, {"semaphores": [_semaphore(view) for view in page.semaphores], **page.more})


@routes.on("POST", "/{name}/pause")
def pause(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _semaphore(settings.pause_grants(ports, name)))


@routes.on("POST", "/{name}/resume")
def resume(ports: Ports, _: Request, name: str) -> Response:
    return Response(200, _semaphore(settings.resume_grants(ports, name)))


@routes.on("DELETE", "/{name}")
def delete(ports: Ports, _: Request, name: str) -> Response:
    sweep.delete(ports, name)
    return Response(204)


@routes.on("DELETE", "/{name}/leases/{id}", query=("reason",))
def end(ports: Ports, request: Request, name: str, id: str) -> Response:
    reason = request.query.get("reason", "")
    return Response(200, {"released": leases.end_by_hand(ports, name, SignalRequest(id), reason)})


# --- renderings ---


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
    held = {"id": lease.lease_id, "token": lease.token, "ends_at": lease.ends_at, "permits": lease.permits}
    return held | (_task(holder) if holder else {})


def _waiter(waiter: Waiter) -> Json:
    lane = _given({"key": waiter.key or None, "priority": waiter.priority or None})
    return {"id": waiter.id, "since": waiter.since, "permits": waiter.permits} | lane | _task(waiter)


def _task(waiter: Waiter) -> Json:
    """Render the task of a wait, without its payload, which may be large, and the holder that the wait names."""
    return {"task": waiter.task_shown()} | ({"holder": waiter.holder} if waiter.holder else {})


def _given(values: Json) -> Json:
    return {name: value for name, value in values.items() if value is not None}
