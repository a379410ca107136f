"""One call of a function from outside: bound to its trace, counted, and told in one log line.

Every way in (`http`, `tasks`, `events`) goes through `handling`, so that each call leaves exactly one line "handled"
with what it was, how it ended and what it cost.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TypeVar

import flask

from shared.adapters import runtime
from shared.adapters.logs import Headers, traced, traceparent_of
from shared.adapters.meter import measure

STATUS_OF_A_BUG = 500

Entry = TypeVar("Entry", bound=Callable[..., object])


@dataclass(slots=True)
class Call:
    """What the log line will say: set `status` to what the caller is answered."""

    status: int = STATUS_OF_A_BUG


@contextmanager
def handling(function: str, headers: Headers, **labels: object) -> Iterator[Call]:
    """Handle a call of `function` inside; `labels` say in the log line what it was."""
    call, started = Call(), time.perf_counter()
    with traced(traceparent_of(headers)), measure() as cost:
        try:
            yield call
        finally:
            milliseconds = round((time.perf_counter() - started) * 1000, 1)
            values = (
                {"function": function} | labels | {"status": call.status, "milliseconds": milliseconds} | asdict(cost)
            )
            runtime.log().info("handled", **values)


def entry_point(function: str, entry: Entry) -> Entry:
    """Give an entry point its function's name, and load what its first call needs if this process will serve it."""
    entry.__name__ = entry.__qualname__ = function
    if flask.has_app_context():  # the framework is loading the function; a test only imports it
        runtime.load()
    return entry
