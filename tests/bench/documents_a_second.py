"""How many documents a second are put, read, queried and loaded over HTTP."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count, islice

from tests.bench.bench_stack import Stage, city, key_of

CONNECTIONS = 8
BULK_DOCUMENTS = 100
METHOD_NOT_ALLOWED = 405


@dataclass(frozen=True, slots=True)
class Rate:
    """Calls of a kind a second; `how` names the connections."""

    what: str
    each_second: float
    how: str


def rates(stage: Stage, calls: int) -> list[Rate]:
    """Measure each kind of call, so many of it. The documents hold no links; their events run meanwhile."""
    with stage.events_held():
        stage.clear()
    return [
        _one_after_another("put", calls, lambda n: stage.put(key_of(n), unlinked(n))),
        _one_after_another("get", calls, lambda n: get(stage, f"documents/{key_of(n)}")),
        _one_after_another("query", calls, lambda n: get(stage, f"documents?where=population=={n}")),
        bulk_load(stage, calls),
    ]


def unlinked(number: int) -> dict[str, object]:
    """Return a city without links."""
    return {name: value for name, value in city(number).items() if name != "country"}


def get(stage: Stage, path: str) -> None:
    """Send a GET. Raises when the answer is not a 2xx."""
    stage.http.get(path).raise_for_status()


def _one_after_another(what: str, calls: int, call: Callable[[int], None]) -> Rate:
    began = time.perf_counter()
    for number in range(calls):
        call(number)
    return Rate(what, calls / (time.perf_counter() - began), "1 connection")


def bulk_load(stage: Stage, documents: int) -> Rate:
    """Load documents in bodies of a hundred; where the function takes no such bodies, by puts."""
    loaded = count(documents)  # keys that are new
    bodies = [_body(loaded) for _ in range(-(-documents // BULK_DOCUMENTS))]
    began = time.perf_counter()
    refused = stage.http.post("documents", json=bodies[0]).status_code == METHOD_NOT_ALLOWED
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        _drain(pool.map(lambda body: _load(stage, body, one_by_one=refused), bodies if refused else bodies[1:]))
    each_second = len(bodies) * BULK_DOCUMENTS / (time.perf_counter() - began)
    how = "POST answers 405, so by puts" if refused else f"POST of {BULK_DOCUMENTS}"
    return Rate("bulk load", each_second, f"{CONNECTIONS} connections, {how}")


def _body(numbers: Iterable[int]) -> list[dict[str, object]]:
    return [{"key": key_of(number), **unlinked(number)} for number in islice(numbers, BULK_DOCUMENTS)]


def _load(stage: Stage, body: list[dict[str, object]], *, one_by_one: bool) -> None:
    if not one_by_one:
        stage.http.post("documents", json=body).raise_for_status()
        return
    for document in body:
        stage.put(str(document["key"]), document)


def _drain(results: Iterable[None]) -> None:
    """Read all results, so that an exception of a thread is raised here."""
    for _ in results:
        pass
