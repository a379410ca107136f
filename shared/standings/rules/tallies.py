"""What is counted: yokes, those with a value, and the exact sum of the values.

Values are decimal numbers as JSON writes them. A sum is kept in whole billionths, as an integer of any size: adding and
taking away again ends exact, which it would not in floating point.
"""

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

DECIMALS = 9
UNIT = 10**DECIMALS
VALUE_MAX = 10**15

Value = int | float | None


def units_of(value: Any) -> int | None:
    """Return a value in billionths; None if it is no number that can be counted exactly."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= VALUE_MAX:
        return None
    units = Decimal(repr(value)).scaleb(DECIMALS)
    return int(units) if units == int(units) else None


def number_of(units: int) -> int | float:
    """Return a sum as a JSON number: an integer where it is whole."""
    whole, rest = divmod(units, UNIT)
    return float(Fraction(units, UNIT)) if rest else whole


@dataclass(frozen=True, slots=True)
class Tally:
    """`count` yokes, `values` of them with a value, which add up to `units` billionths. Differences may be negative."""

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
        """Undo `to_record`."""
        return cls(record["yokes"], record["values"], int(record["units"]))

    def to_record(self) -> dict[str, Any]:
        """Return the tally as a record holds it: a sum may exceed 64 bits, and is text."""
        return {"yokes": self.count, "values": self.values, "units": str(self.units)}

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.count + other.count, self.values + other.values, self.units + other.units)

    def __sub__(self, other: "Tally") -> "Tally":
        return Tally(self.count - other.count, self.values - other.values, self.units - other.units)


ZERO = Tally()
