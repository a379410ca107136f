"""Ids for what a task asks for, so that a second delivery asks for the same again and not for more.

A task's operation has the same name at every delivery. What the task's code then does, it does in the same order each
time, as far as it is like things: so an id is made of the operation, of what is asked for, and of how many times the
same was asked for before.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from shared.core.rules.effects import name_of


@dataclass(frozen=True, slots=True)
class _Acting:
    operation: str
    asked: Counter[str] = field(default_factory=Counter)


_acting: ContextVar[_Acting | None] = ContextVar("acting", default=None)


@contextmanager
def acting_for(operation: str) -> Iterator[None]:
    """Let what is asked for inside have its ids from `operation`."""
    before = _acting.set(_Acting(operation))
    try:
        yield
    finally:
        _acting.reset(before)


def id_for(*what: object) -> str | None:
    """Make the id of what is asked for now; None outside of a task, where nothing says whether a call is a repeat."""
    acting = _acting.get()
    if acting is None:
        return None
    asked = name_of(*what)
    acting.asked[asked] += 1
    return name_of(acting.operation, asked, acting.asked[asked])
