"""Stage 4: dining philosophers, and a proof from the server's own times that no two neighbours ate at once.

A meal leaves two records, one when it begins and one when it ends, both written with both forks in hand. Their entity
tags begin with the server's time at which those writes read, and they hold the fencing tokens of the forks: if a fork
were held twice at once, meals of neighbours would overlap, or two meals would have the same token.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from examples.demo.measured_step import measured_step, poll_until
from examples.gazetteer.checks import Check
from examples.gazetteer.data import terms
from examples.gazetteer.job import OnProgress, Result, Site
from signalbox.client import Client

SEATS = 5
ROUNDS = 5
SECONDS_MAX = 120.0


@dataclass(frozen=True, slots=True)
class Meal:
    """One meal, from the server's time of its first record to that of its last; `tokens` by fork."""

    seat: int
    number: int
    begins_at: str
    ends_at: str
    tokens: dict[str, int]


def stage(
    run_id: str, seats: int = SEATS, rounds: int = ROUNDS
) -> Callable[[Client, Site, OnProgress], Iterator[Result]]:
    """Return the stage on a table named after the run."""
    table = f"table-{run_id}"

    def run(client: Client, site: Site, _: OnProgress) -> Iterator[Result]:
        summary = f"{seats} philosophers, {rounds} rounds: {seats * rounds} meals with two forks each"
        yield measured_step(
            "dine",
            summary,
            site,
            lambda: dine(client, table, seats, rounds),
            lambda: [forks_are_back(client, table, seats), *checks(client, table, seats, rounds)],
        )

    return run


def dine(client: Client, table: str, seats: int, rounds: int, seconds_max: float = SECONDS_MAX) -> Check:
    """Start the dinner, and poll until all have eaten."""
    client.request("POST", "philosophers", body={"table": table, "seats": seats, "rounds": rounds})
    over = {"table": table, "kind": "ends", "meal": rounds}
    return poll_until(
        f"all have eaten within {seconds_max:g} s",
        seconds_max,
        lambda: len(list(client.documents.find(*terms(over)))) == seats,
    )


def forks_are_back(client: Client, table: str, seats: int, seconds_max: float = SECONDS_MAX) -> Check:
    """Poll until every fork is free and has no waiter."""

    def over() -> bool:
        forks = (client.semaphore(f"{table}-fork-{number}").show() for number in range(seats))
        return not any(fork["leases"] or fork["waiters"] for fork in forks)

    return poll_until(f"all {seats} permits are free, and no waiters are left", seconds_max, over)


def checks(client: Client, table: str, seats: int, rounds: int) -> Sequence[Check]:
    """Compare the records and the forks with the expected ones."""
    meals = [_meal(client, table, seat, number) for seat in range(seats) for number in range(1, rounds + 1)]
    written = len(list(client.documents.find(*terms({"table": table}))))
    wanted = seats * rounds
    return (
        Check(f"{wanted} meals of {wanted}", "" if written == 2 * wanted else f"{written} records", wanted),
        Check("never two neighbours at once", _overlap(meals, seats), wanted),
        Check("no fencing token twice", _twice(meals), 2 * wanted),
    )


def _meal(client: Client, table: str, seat: int, number: int) -> Meal:
    begins, ends = (client.documents.get(f"{table}-{seat}-{number}-{which}") for which in ("begins", "ends"))
    return Meal(seat, number, str(begins.etag), str(ends.etag), ends["tokens"])


def _overlap(meals: Sequence[Meal], seats: int) -> str:
    for seat in range(seats):
        both = sorted((m for m in meals if m.seat in (seat, (seat + 1) % seats)), key=lambda meal: meal.begins_at)
        for one, other in pairwise(both):
            if other.begins_at < one.ends_at:
                return f"{one.seat} and {other.seat} ate at once, in meals {one.number} and {other.number}"
    return ""


def _twice(meals: Sequence[Meal]) -> str:
    seen = Counter((fork, token) for meal in meals for fork, token in meal.tokens.items())
    return ", ".join(f"{fork} under {token}" for (fork, token), times in seen.items() if times > 1)
