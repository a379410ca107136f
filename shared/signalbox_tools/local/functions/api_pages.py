"""The description of the HTTP API and its documentation page, on this machine only.

    GET {base}openapi.yaml    the openapi.yaml of the kit, for the functions of this stack
    GET {base}docs            Swagger UI on it: every call, and a form that sends it

Swagger UI (Apache-2.0) comes with the package flask-swagger-ui (MIT), a package of the development environment; nothing
is loaded from elsewhere.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import yaml
from werkzeug.wrappers import Request, Response

from signalbox.adapters.http.routes import Route
from signalbox.catalogue.project import KIT

LOADER: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
DUMPER: type[yaml.SafeDumper] = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""Those of libyaml, if it is there: Python's own need seconds for the description."""

TYPES = {".css": "text/css", ".js": "text/javascript", ".png": "image/png"}
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Signalbox API</title>
<link rel="icon" href="/docs/favicon-32x32.png">
<link rel="stylesheet" href="/docs/swagger-ui.css">
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script>
  document.documentElement.classList.toggle("dark-mode", matchMedia("(prefers-color-scheme: dark)").matches);
  SwaggerUIBundle({ url: "/openapi.yaml", dom_id: "#api", deepLinking: true, tryItOutEnabled: true });
</script>
</html>
"""


OwnRoutes = Mapping[str, Iterable[Route]]
"""The routes of the functions, by the first segment of their addresses."""


def api_page(request: Request, own: OwnRoutes) -> Response | None:
    """Return the answer to a GET of these pages, or None for any other address."""
    match request.path.split("/")[1:]:
        case ["openapi.yaml"]:
            return Response(_description(request.host_url, own), content_type="application/yaml")
        case ["docs"] | ["docs", ""]:
            return Response(PAGE, content_type="text/html; charset=utf-8")
        case ["docs", name]:
            return _file(name)
    return None


def _description(base_url: str, own: OwnRoutes) -> str:
    from signalbox_tools.local.functions.own_operations import own_operations  # all parts of the kit: 0.1 s

    described = yaml.load(KIT.description.read_text("utf-8"), LOADER)  # noqa: S506 (a SafeLoader)
    described["servers"] = [{"url": base_url.rstrip("/"), "description": "This machine."}]
    described["paths"] = {path: item for path, item in described["paths"].items() if _is_served(path, own)}
    known = {(method, _shape(path)) for path, item in described["paths"].items() for method in item}
    for function in own_operations(own, described):
        for path, item in function.paths.items():
            for method, operation in item.items():
                if (method, _shape(path)) not in known:
                    described["paths"].setdefault(path, {}).setdefault(method, operation)
        described["components"]["schemas"] |= function.components
    written: str = yaml.dump(described, Dumper=DUMPER, sort_keys=False, allow_unicode=True)
    return written


def _is_served(path: str, own: OwnRoutes) -> bool:
    """Return whether a function that people may call has a path of the kit's description."""
    segment = path.split("/")[1]
    return segment.startswith("{") or bool(own.get(segment))


def _shape(path: str) -> tuple[str, ...]:
    """Return the segments of a path without the names of its parameters."""
    return tuple("{}" if part.startswith("{") else part for part in path.split("/"))


def _file(name: str) -> Response | None:
    path = _swagger_ui().get(name)
    return None if path is None else Response(path.read_bytes(), content_type=TYPES[path.suffix])


@cache
def _swagger_ui() -> dict[str, Path]:
    """Return the files of Swagger UI that a page may load, by name. The package itself is not imported."""
    spec = find_spec("flask_swagger_ui")
    assert spec is not None, "a package of requirements-dev.txt"
    assert spec.origin is not None, "it is not a namespace package"
    return {path.name: path for path in Path(spec.origin).with_name("dist").iterdir() if path.suffix in TYPES}
