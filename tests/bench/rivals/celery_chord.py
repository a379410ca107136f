"""A Celery chord on Redis: so many tasks, and one that follows the last of them. Prints the seconds it took.

It runs in a separate environment, which `tests.bench.batches` makes; the project does not depend on Celery.
"""

import sys
import time

from celery import chord
from celery_worker import application, working

app = application("celery_chord")


@app.task(name="paint")
def paint(square: int) -> dict[str, int]:
    """Return a unit's result."""
    return {"row": square // 50, "column": square % 50}


@app.task(name="announce")
def announce(results: list[dict[str, int]]) -> int:
    """Return how many units came before."""
    return len(results)


def main() -> None:
    units, workers = int(sys.argv[1]), int(sys.argv[2])
    with working(app, workers):
        announce.apply_async(([],)).get(timeout=120)  # the worker is up
        began = time.monotonic()
        done = chord((paint.s(number) for number in range(units)), announce.s())
        if done.delay().get(timeout=900) != units:
            sys.exit("the chord lost results")
        sys.stdout.write(f"{time.monotonic() - began:.3f}\n")


if __name__ == "__main__":
    main()
