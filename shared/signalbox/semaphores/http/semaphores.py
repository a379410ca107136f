"""`{base}semaphores`: create, change, show, list and delete semaphores, and end a lease as an operator."""

from typing import Annotated

from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import FLAG, PAGE_TOKEN, PREFIX, Answer, Parameter, limit
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.core.surface.settings_patch import SettingsPatch
from signalbox.semaphores import sweep
from signalbox.semaphores.limits import LIMITS
from signalbox.semaphores.model.leases import LEASE_ID
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.problems import BadSemaphore, NoSemaphore
from signalbox.semaphores.requests import SemaphoreName, SemaphoresQuery, SignalRequest
from signalbox.semaphores.service import leases, settings, views
from signalbox.semaphores.shown import (
    DeadlocksShown,
    QueuedSemaphoreShown,
    ReleasedShown,
    SemaphoreShown,
    SemaphoresShown,
)

routes = Routes("semaphores")

QUERY = (
    Parameter(
        "waiting", FLAG, "Only those that have waiters, with their number; a page may then have fewer than `limit`."
    ),
    Parameter(
        "deadlocks",
        FLAG,
        "Instead of semaphores, the deadlocks among those with waiters: waits with a `holder` that wait for each other "
        "until a lease expires. Cannot be combined with `waiting`.",
    ),
    limit(LIMITS.semaphores_listed_max),
    PREFIX,
    PAGE_TOKEN,
)


@routes.on(
    "GET", "/", query=QUERY, answers={200: Answer(SemaphoresShown | DeadlocksShown, "A page, or the deadlocks.")}
)
def list_semaphores(ports: Ports, request: Request) -> Response:
    """List semaphores by name, or those that have waiters."""
    query = SemaphoresQuery.from_request(request.query)
    if query.deadlocks:
        return Response(200, views.find_deadlocks(ports))
    page = views.find(ports, query)
    return Response(200, SemaphoresShown(tuple(map(SemaphoreShown.of, page.semaphores)), **page.more))


@routes.on(
    "PUT",
    "/{name}",
    body=SemaphoreSettings,
    answers={200: SemaphoreShown, 201: SemaphoreShown},
    example={"permits": 3, "lease_seconds": 60},
)
def put_semaphore(ports: Ports, request: Request, name: SemaphoreName) -> Response:
    """Create a semaphore, or set its settings and keep its leases and waiters."""
    stored = settings.put(ports, name, SemaphoreSettings.from_request(request.json_object()))
    return Response(201 if stored.created else 200, SemaphoreShown.of(stored.view, stored.waits_ended))


@routes.on(
    "PATCH",
    "/{name}",
    body=SettingsPatch[SemaphoreSettings],
    answers={200: SemaphoreShown},
    refuses=(NoSemaphore,),
)
def patch_semaphore(ports: Ports, request: Request, name: SemaphoreName) -> Response:
    """Change some settings.

    Additional permits are granted to waiters. With fewer permits, leases that are held continue. If a wait needs more
    permits than the semaphore then has, it ends and its `on_timeout` runs.
    """
    changes = SettingsPatch.from_request(request.json_object(), SemaphoreSettings, BadSemaphore)
    stored = settings.patch(ports, name, changes)
    return Response(200, SemaphoreShown.of(stored.view, stored.waits_ended))


@routes.on("GET", "/{name}", answers={200: QueuedSemaphoreShown}, refuses=(NoSemaphore,))
def get_semaphore(ports: Ports, _: Request, name: SemaphoreName) -> Response:
    """Show a semaphore with its leases, its first hundred waiters, and the task of each."""
    return Response(200, QueuedSemaphoreShown.of(views.get(ports, name)))


@routes.on("POST", "/{name}/pause", answers={200: SemaphoreShown}, refuses=(NoSemaphore,))
def pause_semaphore(ports: Ports, _: Request, name: SemaphoreName) -> Response:
    """Grant no permits until the semaphore is resumed.

    Leases that are held continue and can be renewed and released. Waits stay in their order, and an acquire gets none.
    """
    return Response(200, SemaphoreShown.of(settings.pause_grants(ports, name)))


@routes.on("POST", "/{name}/resume", answers={200: SemaphoreShown}, refuses=(NoSemaphore,))
def resume_semaphore(ports: Ports, _: Request, name: SemaphoreName) -> Response:
    """Grant permits again.

    Those that wait are first, in their order.
    """
    return Response(200, SemaphoreShown.of(settings.resume_grants(ports, name)))


@routes.on("DELETE", "/{name}", answers={204: Answer(None, "It is deleted.")}, refuses=(NoSemaphore,))
def delete_semaphore(ports: Ports, _: Request, name: SemaphoreName) -> Response:
    """Delete a semaphore; its waits end."""
    sweep.delete(ports, name)
    return Response(204)


@routes.on(
    "DELETE",
    "/{name}/leases/{id}",
    query=(Parameter("reason", str),),
    answers={200: ReleasedShown},
    refuses=(NoSemaphore,),
)
def end_lease(ports: Ports, request: Request, name: SemaphoreName, id: Annotated[str, LEASE_ID]) -> Response:
    """End a lease as an operator; the reason is logged."""
    reason = request.query.get("reason", "")
    return Response(200, ReleasedShown(leases.end_by_hand(ports, name, SignalRequest(id), reason)))
