"""The events of yokes, and the routes of `{base}yokes` and `{base}standings`."""

from functools import partial
from typing import Annotated, Literal

from signalbox.adapters import runtime
from signalbox.adapters.grouped_requests import Gathering
from signalbox.adapters.http.open_function_access import check_calls
from signalbox.adapters.http.responses import Response
from signalbox.adapters.http.route_declarations import IDEMPOTENCY_KEY, PAGE_TOKEN, Answer, Parameter
from signalbox.adapters.http.routes import Request, Routes
from signalbox.core.keys import NAME_BYTES_MAX
from signalbox.core.ports import DocumentEvent, Ports
from signalbox.core.problems import NotFound
from signalbox.core.surface.field_rules import Described, Range
from signalbox.standings import tasks
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.declarations import Declaration, StandingDeclaration, StandingField, StandingKind
from signalbox.standings.model.yokes import Yoke, YokeBody, YokeKey, YokePart
from signalbox.standings.problems import NoStanding
from signalbox.standings.requests import BoardRequest, ListRequest, RankRequest, RemoveRequest, standing_key
from signalbox.standings.service import declarations, ranks, reads, yokes
from signalbox.standings.shown import (
    CurrentStandingShown,
    DeclarationShown,
    DeclaredKindShown,
    KindsShown,
    LeaderboardShown,
    RankShown,
    YokeShown,
    YokesShown,
)

# --- events ---

_GATHERING = Gathering[DocumentEvent, bool](LIMITS.visits_together_max)


def count_event(event: DocumentEvent) -> None:
    """Count the yoke of an event, together with the yokes of other events that this process receives meanwhile."""
    ports = runtime.ports()
    _GATHERING.answer(id(ports.store), event.key, event, partial(tasks.count_events, ports))


# --- yokes ---

yoke_routes = Routes("yokes")

USER = Parameter("user", YokePart)
ITEM = Parameter("item", YokePart)
LIMIT = Parameter("limit", Annotated[int, Range(1, LIMITS.leaderboard_limit_max)])

BEGUN = Answer(None, "It has begun.")


@yoke_routes.on(
    "PUT",
    "/{user}/{item}",
    body=YokeBody,
    answers={200: Answer(YokeShown, "It was there."), 201: Answer(YokeShown, "It is new.")},
    example={"value": 4.5, "attributes": {"category": "drama"}},
)
def put_yoke(ports: Ports, request: Request, user: YokePart, item: YokePart) -> Response:
    """Let a user yoke an item, or change the value; an equal request changes nothing."""
    yoke = Yoke.from_request(YokeKey.from_request(user, item), request.json_object())
    is_new = yokes.put_yoke(ports, yoke)
    return Response(201 if is_new else 200, YokeShown.of(yoke))


@yoke_routes.on("GET", "/{user}/{item}", answers={200: Answer(YokeShown, "The yoke.")}, refuses=(NotFound,))
def get_yoke(ports: Ports, _: Request, user: YokePart, item: YokePart) -> Response:
    """Return a yoke."""
    return Response(200, yokes.get_yoke(ports, YokeKey.from_request(user, item)))


@yoke_routes.on("DELETE", "/{user}/{item}", answers={204: Answer(None, "It does not exist any more.")})
def delete_yoke(ports: Ports, _: Request, user: YokePart, item: YokePart) -> Response:
    """Delete a yoke. Succeeds also if it does not exist."""
    yokes.delete_yoke(ports, YokeKey.from_request(user, item))
    return Response(204)


@yoke_routes.on(
    "GET",
    "/",
    query=(USER, ITEM, Parameter("order_by", Literal["time", "value"]), LIMIT, PAGE_TOKEN),
    answers={200: YokesShown},
)
def list_yokes(ports: Ports, request: Request) -> Response:
    """List the yokes that a user or an item has, the newest or the largest value first.

    A change of a yoke appears here within a few seconds, as in the standings. Either `user` or `item` is required.
    """
    return Response(200, yokes.yokes_of_standing(ports, ListRequest.from_request(request.query)))


@yoke_routes.on("DELETE", "/", query=(USER, ITEM), answers={202: BEGUN})
def remove_yokes(ports: Ports, request: Request) -> Response:
    """Delete all yokes of a user or an item, in pages; the standings follow."""
    asked = RemoveRequest.from_request(request.query)
    yokes.begin_removal(ports, ports.store.new_id(), asked.field, asked.value)
    return Response(202)


# --- standings ---

standing_routes = Routes("standings")

StandingId = Annotated[
    str,
    Described(
        {
            "minLength": 1,
            "maxLength": NAME_BYTES_MAX,
            "pattern": "^[^/]+$",
            "description": "The parts joined by `~`; inside a part `%`, `~` and `/` are percent-encoded once more.",
        }
    ),
]
ORDER_BY = Parameter("order_by", StandingField)


@standing_routes.on("GET", "/", answers={200: KindsShown})
def list_kinds(ports: Ports, _: Request) -> Response:
    """Return the kinds of standings that are declared."""
    declared = declarations.read_declarations(ports).kinds
    return Response(200, KindsShown({kind: DeclarationShown.of(each) for kind, each in declared.items()}))


@standing_routes.on("POST", "/", headers=(IDEMPOTENCY_KEY,), answers={202: BEGUN})
def count_all_yokes(ports: Ports, request: Request) -> Response:
    """Count all yokes again, in case an event was lost, and recount all standings. A schedule does this each night."""
    reads.begin_walk(ports, request.operation or ports.store.new_id())
    return Response(202)


@standing_routes.on(
    "PUT", "/{kind}", body=StandingDeclaration, answers={200: DeclaredKindShown}, example={"by": ["category"]}
)
def declare_standings(ports: Ports, request: Request, kind: StandingKind) -> Response:
    """Declare a kind of standing; existing yokes are counted for it."""
    declaration = Declaration.from_request(kind, request.json_object())
    for index, threshold in enumerate(declaration.thresholds):
        check_calls(request, **{f"on_threshold[{index}].continuation": threshold.call_with({})})
    declarations.declare(ports, kind, declaration)
    return Response(200, DeclaredKindShown.of(kind, declaration))


@standing_routes.on("DELETE", "/{kind}", answers={202: BEGUN}, refuses=(NoStanding,))
def remove_kind(ports: Ports, _: Request, kind: StandingKind) -> Response:
    """Remove a kind of standing; its yokes are subtracted from its standings."""
    declarations.remove_kind(ports, kind)
    return Response(202)


@standing_routes.on(
    "GET",
    "/{kind}",
    query=(ORDER_BY, LIMIT, PAGE_TOKEN),
    answers={200: LeaderboardShown},
    refuses=(NoStanding,),
)
def get_leaderboard(ports: Ports, request: Request, kind: StandingKind) -> Response:
    """Return the standings of a kind, the largest first; of equal ones the greater id."""
    return Response(200, ranks.leaderboard(ports, BoardRequest.from_request(kind, request.query)))


@standing_routes.on("GET", "/{kind}/{id}", answers={200: CurrentStandingShown}, refuses=(NoStanding,))
def get_standing(ports: Ports, _: Request, kind: StandingKind, id: StandingId) -> Response:
    """Return the numbers of a standing, and the number of changes that are not added yet."""
    return Response(200, CurrentStandingShown.of_view(reads.get_standing(ports, standing_key(kind, id))))


@standing_routes.on(
    "GET",
    "/{kind}/{id}/rank",
    query=(ORDER_BY, Parameter("neighbours", Annotated[int, Range(0, LIMITS.neighbours_max)])),
    answers={200: RankShown},
    refuses=(NoStanding,),
)
def get_rank(ports: Ports, request: Request, kind: StandingKind, id: StandingId) -> Response:
    """Return the rank of a standing, and its neighbours."""
    asked = RankRequest.from_request(standing_key(kind, id), request.query)
    return Response(200, ranks.rank(ports, asked))


@standing_routes.on("POST", "/{kind}/{id}/recount", answers={202: BEGUN}, refuses=(NoStanding,))
def recount_standing(ports: Ports, _: Request, kind: StandingKind, id: StandingId) -> Response:
    """Recount a standing from its yokes, and repair it."""
    reads.begin_recount(ports, ports.store.new_id(), standing_key(kind, id))
    return Response(202)
