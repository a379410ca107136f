"""Exact sums of yokes' values.

Values are decimal numbers as JSON writes them. A sum is an integer of billionths, of any size, so adding and
subtracting are exact; with floating point they would not be.
"""

from decimal import Decimal
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.records.record_values import INTEGER_MAX

DECIMALS = 9


UNIT: int = 10**DECIMALS


VALUE_MAX = 10**15


Value = int | float | None


def units_of(value: Any) -> int | None:
    """Return a value in billionths, or None if it is not a number that can be summed exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= VALUE_MAX:
        return None
    if isinstance(value, int):
        return value * UNIT
    units = Decimal(repr(value)).scaleb(DECIMALS)
    return int(units) if units == int(units) else None


def number_of(units: int) -> int | float:
    """Return a sum as a JSON number, an integer if it is whole.

    From 2**53 on, a float has no decimals, and rounds by more than one: the number is the integer below. So numbers
    have the order of their sums, and sums that a float cannot distinguish are equal.
    """
    whole, rest = divmod(units, UNIT)
    return units / UNIT if rest and abs(whole) < 2**53 else whole


def sortable(number: int | float) -> int | float:
    """Return a sum as a record's field, by which leaderboards are ordered: an integer beyond 64 bits as a float."""
    return number if abs(number) <= INTEGER_MAX else float(number)


@dataclass(frozen=True, slots=True)
class Tally:
    """`count` yokes, `values` of them with a value, and their sum in billionths. Differences may be negative."""

    count: int = 0
    values: int = 0
    units: int = 0

    @classmethod
    def of(cls, value: Value) -> Self:
        """Return the tally of one yoke."""
        units = units_of(value)
        return cls(1) if units is None else cls(1, 1, units)

    @classmethod
    def from_record(cls, record: Any) -> Self:
        return cls(record["yokes"], record["values"], int(record["units"]))

    def to_record(self) -> dict[str, Any]:
        """Return the record's fields. The sum is text, since it may exceed 64 bits."""
        return {"yokes": self.count, "values": self.values, "units": str(self.units)}

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.values + other.values, self.units + other.units)

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(self.count - other.count, self.values - other.values, self.units - other.units)


ZERO = Tally()
