"""Measure what streams of events cost the other requests of the same processes.

python -m tests.bench.watchers --rounds 5

A batch whose units end all the time is watched by so many streams, or as many as are accepted: 8 by each process. At
the same time callers ask for a semaphore; a line has their requests a second, and the median and 99th percentile of
their answers. Rounds alternate between the numbers of streams, so that all have the same noise. Numbers of a laptop
compare with each other, not with the cloud.
"""

import argparse
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from signalbox_tools.local.stack import Stack
from tests.bench.bench_stack import Stage, staged
from tests.bench.figures import Figure

CALLERS = 8
SECONDS = 4.0
UNITS = 10_000
"""Of the watched batch: more than end in a measurement."""

LEFT_SECONDS = 2.0
"""A process notices that a watcher has gone when it sends the next event, a second later."""

OPEN_TRIES_MAX = 64
"""Two processes that accept 8 streams each may have refused the same stream some times."""


@contextmanager
def streams(stack: Stack, wanted: int) -> Iterator[int]:
    """Open so many streams of the batch, or as many as are accepted, and read them; return their number."""
    with ExitStack() as stack_of, httpx.Client(base_url=stack.base_url, timeout=60) as http:
        responses: list[httpx.Response] = []
        for _ in range(OPEN_TRIES_MAX):
            if len(responses) == wanted:
                break
            response = stack_of.enter_context(http.stream("GET", "batches/watched/events"))
            if response.status_code == httpx.codes.OK:
                responses.append(response)
        over = threading.Event()
        readers = [threading.Thread(target=_read, args=(response, over), daemon=True) for response in responses]
        for reader in readers:
            reader.start()
        yield len(responses)
        over.set()


def _read(response: httpx.Response, over: threading.Event) -> None:
    try:
        for _ in response.iter_raw():
            if over.is_set():
                return
    except httpx.HTTPError:
        return


def answer_seconds(stack: Stack) -> list[float]:
    """Return how long each answer took, of callers that ask one question after another."""
    ends_at = time.monotonic() + SECONDS

    def ask(_: int) -> list[float]:
        taken: list[float] = []
        with httpx.Client(base_url=stack.base_url, timeout=60) as http:
            while (began := time.monotonic()) < ends_at or not taken:
                http.get("semaphores/watched").raise_for_status()
                taken.append(time.monotonic() - began)
        return taken

    with ThreadPoolExecutor(CALLERS) as callers:
        return [seconds for each in callers.map(ask, range(CALLERS)) for seconds in each]


def end_units(stack: Stack, over: threading.Event) -> None:
    """End one unit after another, so that the streams have something to send."""
    with httpx.Client(base_url=stack.base_url, timeout=60) as http:
        for index in range(UNITS):
            if over.wait(0.02):
                return
            http.post(f"batch-complete/watched/{index}", json={"result": index})


def rate_of(accepted: Sequence[int], taken: Sequence[float]) -> float:
    """Return the answers a second in these rounds."""
    return len(taken) / (len(accepted) * SECONDS)


def line(accepted: Sequence[int], taken: Sequence[float]) -> str:
    """Return the line of a number of streams, of which so many were accepted in each round."""
    cuts = statistics.quantiles(taken, n=100)
    median, p99, rate = 1000 * cuts[49], 1000 * cuts[98], rate_of(accepted, taken)
    count = f"{statistics.mean(accepted):g}"
    return f"{count:>4} streams {rate:>7.0f} answers/s   median {median:>6.1f} ms   p99 {p99:>7.1f} ms"


def lines(stage: Stage, numbers: Sequence[int], rounds: int) -> list[str]:
    """Measure with each number of streams in turn, in rounds."""
    stage.http.put("semaphores/watched", json={"permits": 1, "lease_seconds": 60}).raise_for_status()
    body = {"id": "watched", "units": list(range(UNITS)), "sealed": True}
    stage.http.post("batches", json=body, timeout=300).raise_for_status()
    over = threading.Event()
    ending = threading.Thread(target=end_units, args=(stage.stack, over), daemon=True)
    ending.start()
    accepted: dict[int, list[int]] = {wanted: [] for wanted in numbers}
    taken: dict[int, list[float]] = {wanted: [] for wanted in numbers}
    for _ in range(rounds):
        for wanted in numbers:
            with streams(stage.stack, wanted) as count:
                accepted[wanted].append(count)
                taken[wanted] += answer_seconds(stage.stack)
            time.sleep(LEFT_SECONDS)
    over.set()
    ending.join()
    first, *more = numbers
    alone = rate_of(accepted[first], taken[first])
    figures = [
        Figure(f"other requests next to {wanted} streams", rate, "answers/s", f"next to {first} streams", alone).line()
        for wanted in more
        for rate in [rate_of(accepted[wanted], taken[wanted])]
    ]
    return [*(line(accepted[wanted], taken[wanted]) for wanted in numbers), *figures]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.watchers", description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[0, 8, 16], help="in all (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="of each number (default: %(default)s)")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, staged(Path(folder)) as stage:
        sys.stdout.write("\n".join(lines(stage, chosen.streams, chosen.rounds)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
