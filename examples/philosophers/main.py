"""The dining philosophers, with no process that waits: each is a chain of tasks that run when a fork is granted.

Each fork is a semaphore of one permit. Philosopher i needs fork i and fork i + 1; the last one needs fork 0. Each
acquires the lower number first, so that no cycle of waiting, no deadlock, is possible. With both leases a philosopher
eats: it stores a document at the beginning and one at the end, and signals both forks, the second first.

    POST {base}philosophers {"table": "t1", "seats": 5, "rounds": 5}      202

With ``"mode": "naive"`` each philosopher acquires the left fork first and thinks for a few seconds before the right
one, so that all hold one fork and wait for each other, until the leases expire: the wait-for graph of the semaphores
shows it.
"""

from typing import Any

from signalbox import Function, Lease, Problem, Request, Response, documents, semaphore

SEATS_MAX = 100
ROUNDS_MAX = 1_000
LEASE_SECONDS = 20
THINK_SECONDS = 2
"""The pause between the two forks in the naive mode: long enough for all to take their first one."""

app = Function("philosophers")


class InvalidTable(Problem):
    title = "`table`, `seats`, `rounds` or `mode` is missing or out of range"


@app.http("POST")
def dine(request: Request) -> Response:
    body = request.json_object()
    table, seats, rounds = _table_of(body)
    naive = _is_naive(body)
    for number in range(seats):
        semaphore(_fork(table, number)).ensure(permits=1, lease_seconds=LEASE_SECONDS)
    for seat in range(seats):
        _wait_for_first_fork(seat, 1, table=table, seats=seats, rounds=rounds, naive=naive, wait_id=f"{seat} begins")
    return Response(202, {"table": table, "meals": seats * rounds})


@app.task
def wait_for_second_fork(
    lease: Lease, table: str, seats: int, rounds: int, seat: int, meal: int, naive: bool = False
) -> None:
    """Run with the lease of the first fork."""
    _, second = _forks(table, seats, seat, naive=naive)
    call = eat.call(
        table=table, seats=seats, rounds=rounds, seat=seat, meal=meal, first=lease.id, token=lease.token, naive=naive
    )
    semaphore(second).wait(call, holder=_holder(table, seat))


@app.task
def eat(
    lease: Lease, table: str, seats: int, rounds: int, seat: int, meal: int, first: str, token: int, naive: bool = False
) -> None:
    """Run with the lease of the second fork. The lease of the first one may have expired."""
    one, other = _forks(table, seats, seat, naive=naive)
    held = semaphore(one).renew(first)
    if held:
        meal_fields = {"table": table, "seat": seat, "meal": meal, "tokens": {one: token, other: lease.token}}
        documents.put(f"{table}-{seat}-{meal}-begins", {"kind": "begins", **meal_fields})
        documents.put(f"{table}-{seat}-{meal}-ends", {"kind": "ends", **meal_fields})
    if not held or meal < rounds:
        # Before the signals: a task that has released its lease is not run again.
        _wait_for_first_fork(seat, meal + held, table=table, seats=seats, rounds=rounds, naive=naive)
    semaphore(other).signal(lease)
    semaphore(one).signal(first)


def _wait_for_first_fork(
    seat: int, meal: int, *, table: str, seats: int, rounds: int, naive: bool, wait_id: str | None = None
) -> None:
    """Wait for the first fork; a naive philosopher thinks with it in hand."""
    first, _ = _forks(table, seats, seat, naive=naive)
    call = wait_for_second_fork.call(table=table, seats=seats, rounds=rounds, seat=seat, meal=meal, naive=naive)
    call = call.after(THINK_SECONDS) if naive else call
    semaphore(first).wait(call, id=wait_id, holder=_holder(table, seat))


def _forks(table: str, seats: int, seat: int, *, naive: bool) -> tuple[str, str]:
    """Return a philosopher's two forks, the one to acquire first in front."""
    left, right = seat, (seat + 1) % seats
    lower, higher = (left, right) if naive else sorted((left, right))
    return _fork(table, lower), _fork(table, higher)


def _fork(table: str, number: int) -> str:
    return f"{table}-fork-{number}"


def _holder(table: str, seat: int) -> str:
    return f"{table[:80]} seat {seat}"


def _is_naive(body: dict[str, Any]) -> bool:
    match body.get("mode", "ordered"):
        case "naive":
            return True
        case "ordered":
            return False
    raise InvalidTable("`mode` is naive or ordered.")


def _table_of(body: dict[str, Any]) -> tuple[str, int, int]:
    match body:
        case {"table": str(table), "seats": int(seats), "rounds": int(rounds)} if table:
            if 2 <= seats <= SEATS_MAX and 1 <= rounds <= ROUNDS_MAX:
                return table, seats, rounds
    raise InvalidTable(f"Send table (text), seats (2 to {SEATS_MAX}) and rounds (1 to {ROUNDS_MAX:,}).")


philosophers = app.entry_point()
