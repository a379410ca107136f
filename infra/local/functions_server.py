"""All functions of the catalogue in one process, behind one port, at the addresses they have in the cloud.

Each function is loaded by functions-framework, as in the cloud, and mounted at ``/`` + its URL segment. The framework
is made for one function a process: it leaves the function's name in the environment, keeps a registry by name, and
imports the modules of the function's folder under bare names. `shared.testing.loading` removes these traces after each
function, so functions must not import their own files while they handle a request. `iam` refuses what the cloud would
refuse.

Gunicorn serves `application`, with threads, as in the cloud: loaded once and then forked into the worker processes, so
each of these connects by itself, when it starts or at its first request.
"""

import threading
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.wrappers import Request

from infra import catalogue as catalogues
from infra.catalogue import Catalogue, Function
from infra.local.iam import AuthorizedQueue, invokers_enforced
from infra.local.local_store import local_store
from infra.local.request_labels import LabelledLog, labelled
from shared.adapters import runtime
from shared.adapters.http.responses import Response, problem_response, response_of
from shared.adapters.settings import settings
from shared.core.rules.problems import NotFound
from shared.testing import loading

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_connecting = threading.Lock()
_connected = False


def application(catalogue: str) -> "WSGIApplication":
    """Serve the functions of the catalogue file of that name."""
    app = labelled(mounted(catalogues.load(Path(catalogue))))

    def connected(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        connect()
        return app(environ, start_response)

    return connected


def connect() -> None:
    """Connect this process to the local stack's store and queues, once."""
    global _connected  # noqa: PLW0603 - one set of connections a process is the point
    with _connecting:
        if not _connected:
            chosen = settings()
            ports = runtime.connect(chosen, local_store(chosen))
            log = LabelledLog(ports.log)
            runtime.bind(replace(ports, queue=AuthorizedQueue(ports.queue, log), log=log))
            _connected = True


def mounted(catalogue: Catalogue) -> "WSGIApplication":
    """Load all functions, each at its address; ``/`` lists them, and any other address is a 404."""
    functions = catalogue.functions.values()
    return DispatcherMiddleware(
        _index(functions), {f"/{function.segment}": _loaded(function) for function in functions}
    )


def _loaded(function: Function) -> "WSGIApplication":
    app = loading.load(function.name, function.folder, function.signature_type)
    return invokers_enforced(function, _with_a_path(app))


def _with_a_path(app: "WSGIApplication") -> "WSGIApplication":
    """Pass ``/`` as the path where nothing follows the function's name."""

    def with_a_path(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        return app({**environ, "PATH_INFO": environ["PATH_INFO"] or "/"}, start_response)

    return with_a_path


def _index(functions: Iterable[Function]) -> "WSGIApplication":
    segments = [function.segment for function in functions if "people" in function.invoked_by]

    def index(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        if request.path == "/" and request.method in ("GET", "HEAD"):
            urls = {segment: request.host_url + segment for segment in segments}
            return response_of(Response(200, {"functions": urls}))(environ, start_response)
        refusal = NotFound("No function at this address; GET / lists those for people")
        return problem_response(refusal)(environ, start_response)

    return index
