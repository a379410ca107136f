"""Standings: what has been counted, leaderboards and ranks; which kinds there are; recounts, nightly or on demand."""

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import check_deployed
from shared.adapters.http.routes import Request, Response, Routes
from shared.standings.operations import boards, recounts, upkeep
from shared.standings.rules.declarations import Declaration
from shared.standings.rules.requests import BoardRequest, RankRequest, standing_key

routes = Routes("standings")


@routes.on("GET", "/")
def declared(_: Request) -> Response:
    kinds = boards.declarations(runtime.ports()).kinds
    return Response(200, {"kinds": {kind: one.to_json() for kind, one in kinds.items()}})


@routes.on("POST", "/")
def count_all(request: Request) -> Response:
    ports = runtime.ports()
    operation = request.header("Idempotency-Key") or request.header("X-CloudScheduler-ScheduleTime")
    upkeep.begin_walk(ports, operation or ports.store.new_id())
    return Response(202)


@routes.on("PUT", "/{kind}")
def declare(request: Request, kind: str) -> Response:
    declaration = Declaration.from_request(kind, request.json_object())
    for index, each in enumerate(declaration.thresholds):
        check_deployed(**{f"on_threshold[{index}].continuation": each.call})
    upkeep.declare(runtime.ports(), kind, declaration)
    return Response(200, {"kind": kind, **declaration.to_json()})


@routes.on("DELETE", "/{kind}")
def remove_kind(_: Request, kind: str) -> Response:
    upkeep.remove_kind(runtime.ports(), kind)
    return Response(202)


@routes.on("GET", "/{kind}", query=("order_by", "limit", "page_token"))
def leaderboard(request: Request, kind: str) -> Response:
    board = boards.top(runtime.ports(), BoardRequest.from_request(kind, request.query))
    more = {"next_page_token": board.next_page_token} if board.next_page_token else {}
    return Response(200, {"standings": board.standings, **more})


@routes.on("GET", "/{kind}/{id}")
def get(_: Request, kind: str, id: str) -> Response:
    return Response(200, boards.get(runtime.ports(), standing_key(kind, id)).to_json())


@routes.on("GET", "/{kind}/{id}/rank", query=("order_by", "neighbours"))
def rank(request: Request, kind: str, id: str) -> Response:
    asked = RankRequest.from_request(standing_key(kind, id), request.query)
    return Response(200, boards.rank(runtime.ports(), asked))


@routes.on("POST", "/{kind}/{id}/recount")
def recount(_: Request, kind: str, id: str) -> Response:
    ports = runtime.ports()
    shown = boards.get(ports, standing_key(kind, id))
    recounts.begin_recount(ports, ports.store.new_id(), shown.key)
    return Response(202)


standings = routes.entry_point()
