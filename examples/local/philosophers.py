"""Watch the philosophers dine (`make demo NAME=philosophers`): a live table, and the waits among them.

In the ordered mode every meal is eaten, and the server's times show that no neighbours ate at once. In the naive mode
all take one fork and wait for the other: it shows the deadlock, and that it ends when the leases expire. The exit code
is 0 only if all of this has happened. `MODE`, `SEATS` and `ROUNDS` in the environment, where make puts them, are also
options.
"""

import argparse
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from examples.demo import philosophers
from examples.gazetteer import sites
from examples.gazetteer.checks import Check
from examples.gazetteer.data import terms
from examples.make_options import options_of_make
from signalbox.client import Client, Document

POLL_SECONDS = 0.5
SECONDS_A_MEAL = 2.0
NAIVE_SECONDS_MAX = 90.0


class Dinner:
    """One table, and the state that callers can read."""

    def __init__(self, client: Client, seats: int, rounds: int) -> None:
        self.client = client
        self.seats = seats
        self.rounds = rounds
        self.table = f"dinner-{secrets.token_hex(4)}"

    def begin(self, mode: str) -> None:
        body = {"table": self.table, "seats": self.seats, "rounds": self.rounds, "mode": mode}
        self.client.request("POST", "philosophers", body=body)

    def meals(self) -> list[Document]:
        return list(self.client.documents.find(*terms({"table": self.table, "kind": "ends"})))

    def forks(self) -> list[dict[str, Any]]:
        paths = (f"semaphores/{self.table}-fork-{number}" for number in range(self.seats))
        return [self.client.request("GET", path) for path in paths]

    def deadlock(self) -> list[dict[str, Any]]:
        """Return the circle of this table, empty if there is none."""
        found = self.client.request("GET", "semaphores?deadlocks=true")["deadlocks"]
        return next((circle for circle in found if circle[0]["holder"].startswith(self.table)), [])

    def shown(self) -> Table:
        """Return the forks as they are, one a row, and the meals of each seat."""
        table = Table("fork", "held under", "until", "waits", "meals of the seat", title=f"{self.table}")
        meals = self.meals()
        for number, fork in enumerate(self.forks()):
            lease = fork["leases"][0] if fork["leases"] else {"id": "", "ends_at": ""}
            waits = ", ".join(one.get("holder", one["id"]).removeprefix(f"{self.table} ") for one in fork["waiters"])
            eaten = sum(meal["seat"] == number for meal in meals)
            token, until = lease["id"].rpartition("~")[2], lease["ends_at"][11:19]
            table.add_row(str(number), token, until, waits, f"{eaten} of {self.rounds}")
        return table


def ordered(dinner: Dinner, watch: Callable[[Callable[[], bool], float], bool], console: Console) -> Sequence[Check]:
    """Dine in order; check every meal, and that no neighbours ate at once."""
    meals = dinner.seats * dinner.rounds
    if not watch(lambda: len(dinner.meals()) == meals, 60 + SECONDS_A_MEAL * meals):
        return [Check(f"{meals} meals", "not in time")]
    console.print(dinner.shown())
    back = philosophers.forks_are_back(dinner.client, dinner.table, dinner.seats)
    return [back, *philosophers.checks(dinner.client, dinner.table, dinner.seats, dinner.rounds)]


def naive(dinner: Dinner, watch: Callable[[Callable[[], bool], float], bool], console: Console) -> Sequence[Check]:
    """Dine naively; check that all are in one deadlock, that none eats in it, and that the leases end it."""
    deadlocked = watch(lambda: len(dinner.deadlock()) == dinner.seats, NAIVE_SECONDS_MAX)
    circle, before = dinner.deadlock(), len(dinner.meals())
    for step in circle:
        held = ", ".join(f"{one['semaphore']} until {one['ends_at'][11:19]}" for one in step["holds"])
        console.print(f"{step['holder']} holds {held}, waits for {step['waits_for']}, held by {step['held_by']}")
    console.print(f"Deadlock: no philosopher runs, {before} meals so far. The leases will end it.", style="red")
    ended = watch(lambda: not dinner.deadlock(), NAIVE_SECONDS_MAX)
    console.print("The leases have expired: the forks go to those that wait.", style="green")
    return [
        Check(f"all {dinner.seats} wait in one circle", "" if deadlocked else "no deadlock"),
        Check("the circle ends by the leases", "" if ended else "it continues"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a dinner on a local stack and return the exit code."""
    given = [*options_of_make("MODE", "SEATS", "ROUNDS"), *sys.argv[1:]] if arguments is None else arguments
    options = _parser().parse_args(given)
    console = Console()
    with (
        tempfile.TemporaryDirectory(prefix="signalbox-dinner-") as folder,
        sites.local_stack(Path(folder)) as stack,
        Client(stack.base_url) as client,
    ):
        dinner = Dinner(client, options.seats, options.rounds)
        dinner.begin(options.mode)
        dine = naive if options.mode == "naive" else ordered
        checks = dine(dinner, lambda is_done, seconds: _watched(dinner, console, is_done, seconds), console)
    for check in checks:
        console.print(f"{'holds' if check.holds else 'FAILED'}: {check.sentence} {check.fault}".rstrip())
    return 0 if all(check.holds for check in checks) else 1


def _watched(dinner: Dinner, console: Console, is_done: Callable[[], bool], seconds_max: float) -> bool:
    """Show the table until the condition holds or the time is over. Return whether it holds."""
    give_up_at = time.monotonic() + seconds_max
    with Live(dinner.shown(), console=console, auto_refresh=False, transient=True) as live:
        while time.monotonic() < give_up_at:
            if is_done():
                return True
            live.update(dinner.shown(), refresh=True)
            time.sleep(POLL_SECONDS)
    return False


def _parser() -> argparse.ArgumentParser:
    description = (__doc__ or "").splitlines()[0]
    parser = argparse.ArgumentParser(prog="python -m examples.local.philosophers", description=description)
    parser.add_argument("--mode", choices=("ordered", "naive"), default="ordered")
    parser.add_argument("--seats", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    return parser


if __name__ == "__main__":
    sys.exit(main())
