"""Run a task alone under a key: calls that overlap share the next run; show what runs and what is due."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.semaphores.operations import critical_sections
from shared.semaphores.rules.section_requests import SectionRequest

routes = Routes("critical_section")


@routes.on("POST", "/{key}")
def call(request: Request, key: str) -> Response:
    wanted = SectionRequest.from_request(request.json_object(), request.header("Idempotency-Key") or "")
    check_deployed(continuation=wanted.continuation)
    return Response(202, {"granted": critical_sections.call(runtime.ports(), key, wanted)})


@routes.on("GET", "/{key}")
def get(_: Request, key: str) -> Response:
    return Response(200, critical_sections.get(runtime.ports(), key))


critical_section = routes.entry_point()
