"""Measure how soon a change is visible during a bulk load: ``python -m examples.gazetteer.rename --cities all``.

Loads the gazetteer into a local stack and, without waiting for the events of that load, renames the country with the
most cities. Prints the duration of the load, the time until every copy showed the new name, and the work that was left
then.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from examples.gazetteer import sites
from examples.gazetteer.data import Condition, gazetteer, terms
from examples.gazetteer.job import LOAD_DOCUMENTS
from examples.gazetteer.steps import TYPES, Step, plan
from signalbox.client import Client
from signalbox.client.problems import Unavailable

SECONDS_MAX = 600
POLL_SECONDS = 0.2
TARGET_SECONDS = 30


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the measurement; the exit code is 0 if the copies followed within `TARGET_SECONDS`."""
    parser = argparse.ArgumentParser(prog="python -m examples.gazetteer.rename", description=__doc__)
    parser.add_argument("--cities", default="all", help="how many, the most populous first, or all")
    given = parser.parse_args(arguments).cities
    steps = plan(gazetteer(None if given == "all" else int(given)))
    folder = Path(tempfile.mkdtemp(prefix="signalbox-rename-"))
    with sites.local_stack(folder) as stack, Client(stack.base_url) as client:
        load(client, next(steps))
        before = stack.counts()
        seconds = rename(client, next(steps))
        after, seen_at = stack.counts(), time.monotonic()
        _print(f"events when renamed: {before['events']:,} received, {before['events_delivered']:,} delivered")
        _print(f"events when seen:    {after['events']:,} received, {after['events_delivered']:,} delivered")
        stack.wait_until_idle(SECONDS_MAX)
        _print(f"idle after another {time.monotonic() - seen_at:.1f} s")
    return 0 if seconds <= TARGET_SECONDS else 1


def load(client: Client, step: Step) -> None:
    """Put all documents in bulk calls, one after the other: the countries before their cities."""
    started = time.monotonic()
    changes = sorted(step.changes, key=lambda change: TYPES.index((change.content or {})["type"]))
    for first in range(0, len(changes), LOAD_DOCUMENTS):
        page = changes[first : first + LOAD_DOCUMENTS]
        documents = ({**change.content, "key": change.key} for change in page if change.content is not None)
        refused = client.documents.load(documents).refused
        if refused:
            raise RuntimeError(f"the load refused {len(refused)} documents, the first: {refused[0]}")
    _print(f"loaded {len(changes):,} documents in {time.monotonic() - started:.1f} s")


def rename(client: Client, step: Step) -> float:
    """Rename the country.

    Return the seconds until every copy shows its new name, without the time of the last queries.
    """
    [change] = step.changes
    assert change.content is not None
    cities = [key for key, each in step.after.items() if each.get("country", {}).get("key") == change.key]
    last = max(cities)  # copies are refreshed in pages, in the order of their keys
    waiting = ({"country.key": change.key, "country.link_missing": True}, *step.stale)
    started = time.monotonic()
    client.documents.put(change.key, change.content)
    # Read until the last city shows the name, then query: for a query, the emulator reads all documents.
    while True:
        shows = _shows(client, last, change.content["name"])
        seconds = time.monotonic() - started  # after the read, which may be retried, and before the slow queries
        if shows and not any(_may_be_met(client, condition) for condition in waiting):
            _print(f"renamed {change.key}: seen in {len(cities):,} copies after {seconds:.1f} s")
            return seconds
        if seconds > SECONDS_MAX:
            raise TimeoutError(f"copies of {change.key} are stale after {SECONDS_MAX} s")
        time.sleep(POLL_SECONDS)


def _shows(client: Client, city: str, name: str) -> bool:
    """Return whether a city's copy of its country has this name; False if the stack is too busy to answer."""
    try:
        country: Mapping[str, object] = client.documents.get(city)["country"]
    except Unavailable:
        return False
    return country.get("name") == name


def _may_be_met(client: Client, condition: Condition) -> bool:
    """Return whether a document meets a condition; True if the stack is too busy to answer."""
    try:
        return client.documents.first(*terms(condition)) is not None
    except Unavailable:
        return True


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
