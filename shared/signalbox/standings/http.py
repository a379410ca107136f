"""The events of yokes, and the routes of `{base}yokes` and `{base}standings`."""

from functools import partial
from typing import Any

from signalbox.adapters import runtime
from signalbox.adapters.grouped_requests import Gathering
from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.ports import DocumentEvent, Ports
from signalbox.standings import tasks
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.declarations import Declaration
from signalbox.standings.model.yokes import Yoke, YokeKey
from signalbox.standings.requests import BoardRequest, ListRequest, RankRequest, RemoveRequest, standing_key
from signalbox.standings.service import declarations, ranks, reads, yokes
from signalbox.standings.service.yokes import Page

# --- events ---

_GATHERING = Gathering[DocumentEvent, bool](LIMITS.visits_together_max)


def count_event(event: DocumentEvent) -> None:
    """Count the yoke of an event, together with those of other events that this process receives meanwhile."""
    ports = runtime.ports()
    _GATHERING.answer(id(ports.store), event.key, event, partial(tasks.count_events, ports))


# --- yokes ---

yoke_routes = Routes("yokes")


@yoke_routes.on("PUT", "/{user}/{item}")
def put_yoke(ports: Ports, request: Request, user: str, item: str) -> Response:
    yoke = Yoke.from_request(YokeKey.from_request(user, item), request.json_object())
    is_new = yokes.put_yoke(ports, yoke)
    return Response(201 if is_new else 200, yoke.to_json())


@yoke_routes.on("GET", "/{user}/{item}")
def get_yoke(ports: Ports, _: Request, user: str, item: str) -> Response:
    return Response(200, yokes.get_yoke(ports, YokeKey.from_request(user, item)))


@yoke_routes.on("DELETE", "/{user}/{item}")
def delete_yoke(ports: Ports, _: Request, user: str, item: str) -> Response:
    yokes.delete_yoke(ports, YokeKey.from_request(user, item))
    return Response(204)


@yoke_routes.on("GET", "/", query=("user", "item", "order_by", "limit", "page_token"))
def find_yokes(ports: Ports, request: Request) -> Response:
    return _page("yokes", yokes.yokes_of_standing(ports, ListRequest.from_request(request.query)))


@yoke_routes.on("DELETE", "/", query=("user", "item"))
def remove_yokes(ports: Ports, request: Request) -> Response:
    asked = RemoveRequest.from_request(request.query)
    yokes.begin_removal(ports, ports.store.new_id(), asked.field, asked.value)
    return Response(202)


# --- standings ---

standing_routes = Routes("standings")


@standing_routes.on("GET", "/")
def kinds(ports: Ports, _: Request) -> Response:
    declared = declarations.read_declarations(ports).kinds
    return Response(200, {"kinds": {kind: declaration.to_json() for kind, declaration in declared.items()}})


@standing_routes.on("POST", "/")
def count_all(ports: Ports, request: Request) -> Response:
    reads.begin_walk(ports, request.operation or ports.store.new_id())
    return Response(202)


@standing_routes.on("PUT", "/{kind}")
def declare(ports: Ports, request: Request, kind: str) -> Response:
    declaration = Declaration.from_request(kind, request.json_object())
    for index, threshold in enumerate(declaration.thresholds):
        check_calls(request, **{f"on_threshold[{index}].continuation": threshold.call_with({})})
    declarations.declare(ports, kind, declaration)
    return Response(200, {"kind": kind, **declaration.to_json()})


@standing_routes.on("DELETE", "/{kind}")
def remove_kind(ports: Ports, _: Request, kind: str) -> Response:
    declarations.remove_kind(ports, kind)
    return Response(202)


@standing_routes.on("GET", "/{kind}", query=("order_by", "limit", "page_token"))
def leaderboard(ports: Ports, request: Request, kind: str) -> Response:
    return _page("standings", ranks.leaderboard(ports, BoardRequest.from_request(kind, request.query)))


@standing_routes.on("GET", "/{kind}/{id}")
def get_standing(ports: Ports, _: Request, kind: str, id: str) -> Response:
    return Response(200, reads.get_standing(ports, standing_key(kind, id)).to_json())


@standing_routes.on("GET", "/{kind}/{id}/rank", query=("order_by", "neighbours"))
def rank(ports: Ports, request: Request, kind: str, id: str) -> Response:
    asked = RankRequest.from_request(standing_key(kind, id), request.query)
    return Response(200, ranks.rank(ports, asked))


@standing_routes.on("POST", "/{kind}/{id}/recount")
def recount(ports: Ports, _: Request, kind: str, id: str) -> Response:
    reads.begin_recount(ports, ports.store.new_id(), standing_key(kind, id))
    return Response(202)


def _page(name: str, page: Page) -> Response:
    more: dict[str, Any] = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {name: page.items, **more})
