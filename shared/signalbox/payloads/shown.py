"""The answer with a large value."""

from typing import Annotated, Any

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described

Sha256 = Annotated[str, Described({"pattern": "^[0-9a-f]{64}$"})]


@dataclass(frozen=True, slots=True)
class PayloadShown:
    """A large value."""

    sha256: str
    """The hash by which other answers show the value."""

    value: Any
    """Any JSON."""
