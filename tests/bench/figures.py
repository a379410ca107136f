"""Figures: what a bench has measured, each as a ratio to an anchor of the same run.

A bench prints its figures as lines among those of its table. Numbers of one machine compare with each other only, so
the ratio is what counts.
"""

import re
from dataclasses import dataclass
from typing import Self

LINE = re.compile(r"= (?P<what>.+) \| (?P<value>[\d.]+) (?P<unit>[^|]+) \| (?P<anchor>.+) (?P<anchor_value>[\d.]+)")

CHECK_FAILED = 3
"""The exit code of a bench that has printed its figures, but has a check that does not hold."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value, and the value of the anchor in the same unit. `unit` ends in ``/s`` if more is better."""

    what: str
    value: float
    unit: str
    anchor: str
    anchor_value: float

    @property
    def ratio(self) -> float:
        """How many times the anchor's value this is."""
        return self.value / self.anchor_value

    def line(self) -> str:
        """Return the line that a bench prints."""
        return f"= {self.what} | {self.value:.2f} {self.unit} | {self.anchor} {self.anchor_value:.2f}"

    @classmethod
    def from_line(cls, line: str) -> Self | None:
        """Return the figure of a line, or None if the line is another one of the table."""
        found = LINE.fullmatch(line.strip())
        if found is None:
            return None
        value, anchor_value = float(found["value"]), float(found["anchor_value"])
        return cls(found["what"], value, found["unit"], found["anchor"], anchor_value)
