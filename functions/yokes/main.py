"""Yokes: a user yokes an item, with a value perhaps. The relation is written at once; its standings follow."""

from shared.adapters import runtime
from shared.adapters.http.routes import Request, Response, Routes
from shared.standings.operations import upkeep
from shared.standings.operations import yokes as operations
from shared.standings.rules.keys import YokeKey
from shared.standings.rules.requests import ListRequest, RemoveRequest
from shared.standings.rules.yokes import Yoke

routes = Routes("yokes")


@routes.on("PUT", "/{user}/{item}")
def put(request: Request, user: str, item: str) -> Response:
    yoke = Yoke.from_request(YokeKey.from_request(user, item), request.json_object())
    result = operations.put(runtime.ports(), yoke)
    return Response(201 if result.created else 200, operations.to_json(result.yoke))


@routes.on("GET", "/{user}/{item}")
def get(_: Request, user: str, item: str) -> Response:
    return Response(200, operations.get(runtime.ports(), YokeKey.from_request(user, item)))


@routes.on("DELETE", "/{user}/{item}")
def delete(_: Request, user: str, item: str) -> Response:
    operations.delete(runtime.ports(), YokeKey.from_request(user, item))
    return Response(204)


@routes.on("GET", "/", query=("user", "item", "order_by", "limit", "page_token"))
def find(request: Request) -> Response:
    page = operations.of_standing(runtime.ports(), ListRequest.from_request(request.query))
    more = {"next_page_token": page.next_page_token} if page.next_page_token else {}
    return Response(200, {"yokes": page.yokes, **more})


@routes.on("DELETE", "/", query=("user", "item"))
def remove(request: Request) -> Response:
    ports, asked = runtime.ports(), RemoveRequest.from_request(request.query)
    upkeep.begin_removal(ports, ports.store.new_id(), asked.field, asked.value)
    return Response(202)


yokes = routes.entry_point()
