"""All functions of the catalogue in one process, behind one port, at the addresses they have in the cloud.

Each function is loaded by functions-framework, as in the cloud, and mounted at ``/`` + its URL segment. The framework
is made for one function in each process: it leaves the function's name in the environment, keeps a registry by name,
and imports the modules of the function's folder under top-level names. `signalbox.testing.simulated_cloud` removes
these traces after each function, so functions must not import their own files while they handle a request. `iam`
refuses requests that the cloud would refuse, and `door` the requests of other sites' pages.

Gunicorn serves `application`, with threads, as in the cloud: loaded once and then forked into the worker processes, so
each worker connects by itself, when it starts or at its first request.
"""

import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.test import Client
from werkzeug.wrappers import Request

from signalbox import Function
from signalbox.adapters import runtime, tracing
from signalbox.adapters.http import cloud_run, invocations
from signalbox.adapters.http.responses import Response, problem_response, response_of
from signalbox.adapters.http.routes import EXTENSION, Route
from signalbox.adapters.settings import settings
from signalbox.catalogue import reading as catalogues
from signalbox.catalogue.parts import absent
from signalbox.catalogue.reading import Catalogue, url_segment
from signalbox.core.problems import NotFound
from signalbox.testing import simulated_cloud
from signalbox_tools.console.routes import own_answer
from signalbox_tools.function_deployments import Deployment, deployments_of
from signalbox_tools.local import function_channel
from signalbox_tools.local.functions import spans
from signalbox_tools.local.functions.api_pages import OwnRoutes, api_page
from signalbox_tools.local.functions.channel_threads import ChannelCreator
from signalbox_tools.local.functions.console import actions_logged, local_console
from signalbox_tools.local.functions.iam import AuthorizedQueue, check_may_invoke, invokers_enforced
from signalbox_tools.local.functions.other_sites import guarded
from signalbox_tools.local.functions.request_labels import LabelledLog, labelled
from signalbox_tools.local.functions.time_outs import TimeOuts
from signalbox_tools.local.functions.unread_bodies import read_to_their_end
from signalbox_tools.local.store.local_store import local_store

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


_connecting = threading.Lock()
_connected = False

_time_outs = TimeOuts()


def application(catalogue: str, *, examples: bool = True, database: str = "") -> "WSGIApplication":
    """Serve the functions of the catalogue file of that name that have a database, or none.

    The functions of the kit's examples are left out unless `examples`.
    """
    app = labelled(mounted(catalogues.load(Path(catalogue), examples=examples, database=database)))
    invocations.bind(_sent_to(app))

    def connected(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        connect()
        return app(environ, start_response)

    return read_to_their_end(connected)


def _sent_to(app: "WSGIApplication") -> invocations.Send:
    """Return how a function calls another one: in its own thread, since callers that wait could take all threads."""
    client = Client(app)

    def send(call: invocations.Invocation) -> tuple[int, bytes]:
        check_may_invoke(call.function)
        if call.function in settings().elsewhere:
            return invocations.send(call)
        path = f"/{url_segment(call.function)}{call.path}"
        with _time_outs.ended_after(call.timeout_seconds):  # at the time-out, the function answers 500
            answer = client.open(path, method=call.method, data=call.body, headers=call.headers)
        return answer.status_code, answer.data

    return send


def connect() -> None:
    """Connect this process to the local stack's store and queues, once."""
    global _connected  # noqa: PLW0603 - one set of connections a process is the point
    with _connecting:
        if not _connected:
            chosen = settings()
            address = os.environ.get(function_channel.TASKS)
            ports = runtime.connect(chosen, local_store(chosen), ChannelCreator(address) if address else None)
            if (file := os.environ.get(spans.VARIABLE)) and not chosen.spans_endpoint:
                tracing.bind(spans.SpanFile(Path(file)))
            log = LabelledLog(ports.log)
            runtime.bind(replace(ports, queue=AuthorizedQueue(ports.queue, log), log=log))
            _connected = True


def mounted(catalogue: Catalogue) -> "WSGIApplication":
    """Load all functions, each at its address; ``/`` lists them, ``/docs`` describes their calls, others are 404.

    ``/console`` shows the state, which it reads by these calls.
    """
    queues = catalogue.calling_queues
    functions = catalogue.functions.values()
    deployments = [each for function in functions for each in deployments_of(function, queues.get(function.name, ()))]
    loaded = {each.segment: _loaded(each) for each in deployments}
    mounts = {f"/{segment}": app for segment, (app, _) in loaded.items()}
    own = {segment: routes for segment, (_, routes) in loaded.items()}
    return guarded(catalogue, actions_logged(DispatcherMiddleware(_index(catalogue, own), mounts)))


def _loaded(deployment: Deployment) -> "tuple[WSGIApplication, Sequence[Route]]":
    """Return a deployment's application, and the routes by which people call it."""
    function = deployment.function
    app = simulated_cloud.load(function.name, function.folder, function.signature_type)
    routes = app.extensions.get(EXTENSION, ()) if "people" in function.invoked_by else ()
    is_called_again = {"queue", "event"} & set(function.invoked_by) and deployment.part != cloud_run.PEOPLE
    ended = _ended_at_its_timeout(app, function.timeout_seconds) if is_called_again else app
    return invokers_enforced(function, _in_its_place(ended, deployment.part)), routes


def _ended_at_its_timeout(app: "WSGIApplication", seconds: float) -> "WSGIApplication":
    """Raise an exception in a request at its time-out, as functions-framework does with tasks in the cloud.

    Otherwise a task or an event could still run when it is delivered again, and would occupy its thread for ever.
    """

    def ended_at_its_timeout(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        with _time_outs.ended_after(seconds):
            return app(environ, start_response)

    return ended_at_its_timeout


def _in_its_place(app: "WSGIApplication", part: str) -> "WSGIApplication":
    """Pass ``/`` instead of an empty path, and pass the part of the function that is served at this address."""

    def in_its_place(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        here = {"PATH_INFO": environ["PATH_INFO"] or "/", cloud_run.ENVIRONMENT_KEY: part}
        return app({**environ, **here}, start_response)

    return in_its_place


def _unknown(environ: "WSGIEnvironment") -> "WSGIApplication":
    """Return an application that gives up a task of a function that the catalogue does not have, or no longer has."""
    segment, _, rest = environ["PATH_INFO"].lstrip("/").partition("/")
    app = simulated_cloud.application(Function(segment.replace("-", "_")))
    return lambda inner, start_response: app({**inner, "PATH_INFO": f"/{rest}"}, start_response)


def _index(catalogue: Catalogue, own: OwnRoutes) -> "WSGIApplication":
    segments = [function.segment for function in catalogue.functions.values() if "people" in function.invoked_by]
    console = local_console(catalogue)

    def index(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        if request.method in ("GET", "HEAD"):
            if request.path == "/":
                urls = {segment: request.host_url + segment for segment in segments}
                pages = {name: f"{request.host_url}{name}" for name in ("docs", "console")}
                listed = {"functions": urls, **pages}
                return response_of(Response(200, listed))(environ, start_response)
            if page := api_page(request, own) or own_answer(lambda: console.answer(request)):
                return page(environ, start_response)
        if request.method == "POST" and (done := own_answer(lambda: console.act(request.path.split("/")[1:]))):
            return done(environ, start_response)
        if "HTTP_X_CLOUDTASKS_QUEUENAME" in environ:
            return _unknown(environ)(environ, start_response)
        missing = (
            absent(request.path.split("/")[1], catalogue.database)
            or "No function at this address; GET / lists those for people"
        )
        refusal = NotFound(missing)
        return problem_response(refusal)(environ, start_response)

    return index
