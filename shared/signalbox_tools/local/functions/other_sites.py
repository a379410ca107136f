"""Protection of the local stack from other sites' pages and other host names.

A browser also sends the requests of any web page to this machine. Three headers, which a page cannot choose, identify
the sender:

- `Host` names another machine if a page's own host name resolves to this machine (DNS rebinding);
- `Sec-Fetch-Site` states whether the page has the same origin;
- `Origin`, where an older browser sends no `Sec-Fetch-Site`, is the page's origin.

Pages of the origins in a function's `cors` may call that function, as in the cloud, where IAM refuses the others. A
link from another site to a page here is followed, since the other site cannot read the response. Requests without these
headers come from programs.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from werkzeug.wrappers import Request

from signalbox.adapters.http.cors import ANY_ORIGIN
from signalbox.adapters.http.responses import problem_response
from signalbox.catalogue.reading import Catalogue
from signalbox.core.problems import PermissionDenied, Problem
from signalbox_tools.function_deployments import Deployment, deployments_of
from signalbox_tools.local.host_names import names_this_machine

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

ADDRESS_CHARACTERS_MAX = 32_768
"""More than Google's front ends accept. Routing takes a third of a second for 40,000 slashes."""

OWN_SITE = frozenset({"same-origin", "none"})
SAFE = frozenset({"GET", "HEAD"})


class AddressTooLong(Problem):
    """The address of the request is too long."""

    status = 414


def guarded(catalogue: Catalogue, app: "WSGIApplication") -> "WSGIApplication":
    """Refuse requests with another host's name, and those of pages whose origins no `cors` permits."""
    origins = {each.segment: frozenset(each.function.cors) for each in _deployments(catalogue)}

    def door(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        request = Request(environ)
        if len(str(environ.get("RAW_URI", ""))) > ADDRESS_CHARACTERS_MAX:
            return problem_response(AddressTooLong("An address has at most 32,768 characters."))(
                environ, start_response
            )
        detail = _refused_host(request) or _refused_page(request, origins.get(request.path.split("/")[1], frozenset()))
        if detail:
            return problem_response(PermissionDenied(detail))(environ, start_response)
        return app(environ, start_response)

    return door


def _deployments(catalogue: Catalogue) -> Iterable[Deployment]:
    return (each for function in catalogue.functions.values() for each in deployments_of(function))


def _refused_host(request: Request) -> str:
    host = request.headers.get("Host", "")
    return "" if names_this_machine(host) else f"This server is 127.0.0.1 or localhost, not {host[:100]!r}."


def _refused_page(request: Request, permitted: frozenset[str]) -> str:
    """Return the reason for refusing the page that sends a request, or an empty text if it may send it."""
    origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site")
    own = site in OWN_SITE if site else origin in (None, f"{request.scheme}://{request.headers['Host']}")
    if own or _is_link(request) or ANY_ORIGIN in permitted or origin in permitted:
        return ""
    if permitted and origin is None and request.method in SAFE:  # an image or a script, of which a page reads nothing
        return ""
    return (
        f"A page of {origin or 'another site'} may not call this. To permit its origin, name it under `cors` in the "
        "function's catalogue entry."
    )


def _is_link(request: Request) -> bool:
    """Return whether a person follows a link: the response replaces the other site's page."""
    fetch = (request.headers.get(f"Sec-Fetch-{name}") for name in ("Mode", "Dest"))
    return request.method in SAFE and tuple(fetch) == ("navigate", "document")
