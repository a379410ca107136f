"""The priorities of waits: shares of the permits."""

from typing import Literal, get_args

from signalbox.core.surface.field_rules import Described

Priority = Literal["high", "normal", "low"]

PRIORITY = Described({"enum": list(get_args(Priority))})
"""A priority in requests and answers."""
