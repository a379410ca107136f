"""Search for an order of calls that explains their answers, by the algorithm of Wing and Gong (1993)."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import cache
from typing import Protocol, TypeVar


class Timed(Protocol):
    """A call: when it began and was answered, by the world's count of steps."""

    began: int
    answered: int


State = TypeVar("State", bound=Hashable)
Call = TypeVar("Call", bound=Timed)


def linearizable(
    history: Sequence[Call],
    first: State,
    steps: Callable[[State, Call], Iterator[tuple[State, bool]]],
    optional: Callable[[Call], bool],
) -> bool:
    """Return whether an order exists that keeps the order of answers and explains each of them.

    `steps` iterates over the states that a call may lead to with the answer that it got, and whether it has then taken
    effect for good; `optional` returns whether a call may have taken no effect at all.
    """

    @cache
    def search(left: frozenset[int], state: State) -> bool:
        if all(optional(history[index]) for index in left):
            return True
        first_answer = min(history[index].answered for index in left)
        for index in sorted(left, key=lambda index: history[index].answered):
            if history[index].began > first_answer:
                continue
            for after, is_taken in steps(state, history[index]):
                if search(left - {index} if is_taken else left, after):
                    return True
        return False

    return search(frozenset(range(len(history))), first)
