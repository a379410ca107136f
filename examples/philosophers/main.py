"""The dining philosophers, and nobody waits: each is a chain of tasks that run when a fork comes free.

Philosopher i sits between fork i and fork i + 1; the last one's second neighbour is fork 0. Everybody takes the fork
with the lower number first, so that the last takes fork 0 first and no circle of waiting can close. With both in hand
one eats, which leaves a record of its beginning and one of its end, and puts them down, the second first.

    POST {base}philosophers {"table": "t1", "seats": 5, "rounds": 5}      202, and everybody sits down
"""

from typing import Any

from shared.kit import Function, Lease, Problem, Request, Response, documents, semaphore

SEATS_MAX = 100
ROUNDS_MAX = 1_000
LEASE_SECONDS = 20

app = Function("philosophers")


class BadTable(Problem):
    title = "Lay a table: its name, 2 or more seats, 1 or more rounds"


@app.http("POST")
def dine(request: Request) -> Response:
    table, seats, rounds = _laid(request.json_object())
    for number in range(seats):
        semaphore(_fork(table, number)).ensure(permits=1, lease_seconds=LEASE_SECONDS)
    for seat in range(seats):
        _take_the_first(seat, 1, table=table, seats=seats, rounds=rounds, wait=f"{seat} sits down")
    return Response(202, {"table": table, "meals": seats * rounds})


@app.task
def take_the_other(lease: Lease, table: str, seats: int, rounds: int, seat: int, meal: int) -> None:
    """Runs with the first fork in hand."""
    _, second = _forks(table, seats, seat)
    semaphore(second).wait(
        eat.call(table=table, seats=seats, rounds=rounds, seat=seat, meal=meal, first=lease.id, token=lease.token)
    )


@app.task
def eat(lease: Lease, table: str, seats: int, rounds: int, seat: int, meal: int, first: str, token: int) -> None:
    """Runs with the second fork in hand, and with the first if that has not been lost meanwhile."""
    one, other = _forks(table, seats, seat)
    ours = semaphore(one).renew(first)
    if ours:
        what = {"table": table, "seat": seat, "meal": meal, "tokens": {one: token, other: lease.token}}
        documents.put(f"{table}-{seat}-{meal}-begins", {"kind": "begins", **what})
        documents.put(f"{table}-{seat}-{meal}-ends", {"kind": "ends", **what})
    if not ours or meal < rounds:
        # Before the forks are down: a task that has given its lease back does not run again.
        _take_the_first(seat, meal + ours, table=table, seats=seats, rounds=rounds)
    semaphore(other).signal(lease)
    semaphore(one).signal(first)


def _take_the_first(seat: int, meal: int, *, table: str, seats: int, rounds: int, wait: str | None = None) -> None:
    first, _ = _forks(table, seats, seat)
    call = take_the_other.call(table=table, seats=seats, rounds=rounds, seat=seat, meal=meal)
    semaphore(first).wait(call, id=wait)


def _forks(table: str, seats: int, seat: int) -> tuple[str, str]:
    """Name a philosopher's two forks, the one to take first in front."""
    lower, higher = sorted((seat, (seat + 1) % seats))
    return _fork(table, lower), _fork(table, higher)


def _fork(table: str, number: int) -> str:
    return f"{table}-fork-{number}"


def _laid(body: dict[str, Any]) -> tuple[str, int, int]:
    match body:
        case {"table": str(table), "seats": int(seats), "rounds": int(rounds)} if table:
            if 2 <= seats <= SEATS_MAX and 1 <= rounds <= ROUNDS_MAX:
                return table, seats, rounds
    raise BadTable(f"Send table (text), seats (2 to {SEATS_MAX}) and rounds (1 to {ROUNDS_MAX:,}).")


philosophers = app.entry_point()
