"""An attacker who may write the database: records of a world, rewritten so that they name what no catalogue has.

While `forging` is entered, every world has a forger. Between two steps it may take a record that names a function or a
queue, and replace the name: by a function that nobody deployed, by another host, or by a queue that does not call the
function. The queue of such a world checks tasks as Cloud Tasks' adapter does, and must never receive a forged one.

The collection of the rewritten record is part of the forged name, so that counts show which kinds of records were
tried.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from signalbox.adapters import deployed_catalogue
from signalbox.adapters.settings import from_environment
from signalbox.core.effects import Effect
from signalbox.core.ports import Data, Put, Store
from signalbox.core.user_code import ProcessEnded
from tests.simulation.reached_counts import FORGED, REACHED

FORGERIES_MAX = 6

USERS = ("job", "logs", "painter", "shop", "user")
QUEUES = ("flows", "objects", "q", "tasks")
WORD = {name: re.compile(rf"(?<![\w/~-]){name}(?![\w/~-])") for name in (*USERS, *QUEUES)}
"""Each name as a whole text, in JSON, or before the name of a task."""

FORMS = ("nobody_{}", "evil.example/?{}", "shop@evil.example/{}", "Shop_{}", "../{}")
"""Names that stand for a function or a queue in a forged record, with the record's collection."""

CATALOGUE = from_environment(
    {
        "SIGNALBOX_TASK_FUNCTIONS": "{" + ", ".join(f'"{name}": []' for name in USERS) + "}",
        "SIGNALBOX_CALLING_QUEUES": "{"
        + ", ".join(f'"{name}": {list(QUEUES)}' for name in USERS).replace("'", '"')
        + "}",
    }
)


class ForgedTask(ProcessEnded):
    """A task came out of a forged record. Not an `Exception`: nothing in the code under test may catch it."""


class Forger:
    """Rewrites records, and watches the queue for names that the catalogue lacks."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"forger {seed}")
        self.left = self._random.randint(1, FORGERIES_MAX)

    def forge(self, store: Store, records: Iterator[tuple[str, Data]]) -> str:
        """Rewrite one of these records, if one names a function or a queue. Return its path, or an empty text."""
        named = [(path, name, data) for path, data in records for name in (*USERS, *QUEUES) if _names(data, name)]
        if not named:
            return ""
        self.left -= 1
        path, name, data = self._random.choice(named)
        forged = self._random.choice(FORMS).format(path.rsplit("/", 2)[-2])
        store.commit([Put(path, _rewritten(data, name, forged))])
        return path

    @staticmethod
    def refusal(effect: Effect) -> str:
        """Return why Cloud Tasks' adapter does not create a task; empty if it does."""
        reason = deployed_catalogue.undeliverable(CATALOGUE, effect)
        if reason:
            REACHED.update(what for collection, what in FORGED.items() if collection in reason)
        return reason

    @staticmethod
    def check(effect: Effect) -> None:
        """Raise `ForgedTask` if the queue has received a task with a forged name."""
        names = (*USERS, "batch_expand", "semaphore_admit", *QUEUES, "admit", "batches")
        if effect.function not in names or effect.queue not in names or not effect.path.startswith("/"):
            raise ForgedTask(f"the queue has a task of {effect.function!r} in {effect.queue!r} at {effect.path!r}")


class _Current:
    forger: Forger | None = None


def current_forger() -> Forger | None:
    """Return the forger of the worlds of this process, if they have one."""
    return _Current.forger


@contextmanager
def forging(seed: int) -> Iterator[None]:
    """Give all worlds of this process a forger while the context is entered."""
    before, _Current.forger = _Current.forger, Forger(seed)
    try:
        yield
    finally:
        _Current.forger = before


def _names(value: object, name: str) -> bool:
    if isinstance(value, dict):
        return any(_names(each, name) for each in value.values())
    if isinstance(value, list):
        return any(_names(each, name) for each in value)
    return isinstance(value, str) and WORD[name].search(value) is not None


def _rewritten(value: Any, name: str, forged: str) -> Any:
    if isinstance(value, dict):
        return {key: _rewritten(each, name, forged) for key, each in value.items()}
    if isinstance(value, list):
        return [_rewritten(each, name, forged) for each in value]
    return WORD[name].sub(forged, value) if isinstance(value, str) else value
