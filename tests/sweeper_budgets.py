"""Budgets of the sweeper for tests."""

from itertools import count

from signalbox.core.ports import Budget, OutOfTime


def budget_of(records: int) -> Budget:
    """Return a budget of the sweeper that is used up after `records` records."""

    def begin() -> OutOfTime:
        read = count()
        return lambda: next(read) >= records  # it is read before each record

    return begin
