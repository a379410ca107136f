"""`POST` and `GET` of `{base}critical-section/{key}`."""

from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import Ports
from signalbox.core.problems import NotFound, OtherBody
from signalbox.critical_sections import service
from signalbox.critical_sections.problems import OtherTask
from signalbox.critical_sections.requests import SectionKey, SectionRequest
from signalbox.critical_sections.shown import SectionCalledShown, SectionShown

routes = Routes("critical_section")


@routes.on(
    "POST",
    "/{key}",
    headers=(IDEMPOTENCY_KEY,),
    body=SectionRequest,
    answers={202: SectionCalledShown},
    refuses=(OtherTask, OtherBody),
    example={"continuation": {"function": "quilt", "task": "announce"}, "debounce_seconds": 2},
)
def call_critical_section(ports: Ports, request: Request, key: SectionKey) -> Response:
    """Run a task alone under a key; calls that arrive during a run share the next one.

    At most one run per key is in progress. Calls that arrive during it, or before a debounced run starts, share one
    run. It has the arguments of the last call and, in the list that `collect` names, the items of all calls.
    """
    asked = SectionRequest.from_request(request.json_object(), id=request.caller_key)
    check_calls(request, continuation=asked.continuation)
    return Response(202, SectionCalledShown(service.call(ports, key, asked)))


@routes.on("GET", "/{key}", answers={200: SectionShown}, refuses=(NotFound,))
def show_critical_section(ports: Ports, _: Request, key: SectionKey) -> Response:
    """Show the run under a key, and the next one."""
    return Response(200, SectionShown.of(key, service.get(ports, key)))
