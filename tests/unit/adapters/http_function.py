"""A function with routes of every kind, under the framework that runs it in the cloud."""

import sys
from collections.abc import Iterator

import flask
import pytest
from flask.testing import FlaskClient
from functions_framework import create_app

from signalbox.adapters import runtime
from signalbox.adapters.system_clock import SystemClock
from signalbox.core.ports import Ports

MAIN = """
from signalbox.adapters.http.routes import Response, Request, Routes
from signalbox.core.problems import BadValue, Unavailable

routes = Routes("shelf")

@routes.on("GET", "/", query=("where", "empty", "c", "a"))
def find(ports, request):
    return Response(200, {"query": list(request.query.items(multi=True))})

@routes.on("POST", "/")
def any_json(ports, request):
    return Response(200, {"value": request.json()})

@routes.on("GET", "/{key}")
def get(ports, request, key):
    return Response(200, {"key": key}, {"ETag": '"1"'})

@routes.on("PUT", "/{key}")
def put(ports, request, key):
    return Response(201, request.json_object())

@routes.on("DELETE", "/{key}")
def delete(ports, request, key):
    return Response(204)

@routes.on("GET", "/{key}/versions")
def versions(ports, request, key):
    return Response(200, {"versions of": key, "if match": request.header("If-Match")})

@routes.on("GET", "/any/parameters", query=None)
def any_parameters(ports, request):
    return Response(200, request.query)

@routes.on("POST", "/refuse")
def refuse(ports, request):
    raise BadValue("A document holds no songs", field="song")

@routes.on("POST", "/later")
def later(ports, request):
    raise Unavailable("the store said ABORTED", retry_after_seconds=3)

@routes.on("POST", "/unsendable")
def unsendable(ports, request):
    return Response(200, {}, {"Content-Disposition": 'attachment; filename="5€.csv"'})

@routes.on("POST", "/bug")
def bug(ports, request):
    raise KeyError("secret")

shelf = routes.entry_point()
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[flask.Flask]:
    main = tmp_path_factory.mktemp("shelf") / "main.py"
    main.write_text(MAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUNCTION_TARGET", "shelf")
        patch.setenv("FUNCTION_SIGNATURE_TYPE", "http")
        patch.delitem(sys.modules, "main", raising=False)
        before = runtime.bind(Ports(None, None, SystemClock(), runtime.log()))  # type: ignore[arg-type]  # the routes use neither
        yield create_app("shelf", str(main), "http")
        runtime.bind(before)


@pytest.fixture
def client(app: flask.Flask) -> FlaskClient:
    return app.test_client()
