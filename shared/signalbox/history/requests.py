"""References to a version: by its number, or by a time at which it was valid."""

import re
from datetime import UTC, datetime
from typing import Annotated, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described
from signalbox.core.times import microseconds, rfc3339
from signalbox.history.problems import BadVersion

_NUMBER = r"[0-9]{1,17}"

_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})"

VersionReference = Annotated[str, Described({"pattern": f"^{_NUMBER}$|^{_TIME}$"}, "VersionReference")]
"""The number of a version, or a time (RFC 3339), in an address."""

_LAST = 253_402_300_799_999_999
"""The last microsecond of the year 9999."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The version `number`, the version that was valid at `moment`, or, without either, the latest one."""

    number: int | None = None
    moment: datetime | None = None

    @classmethod
    def from_request(cls, version: object, field: str = "version") -> Self:
        """Parse a number, a time, or the text of one of them. Raises `BadVersion`."""
        if isinstance(version, datetime):
            return cls(moment=_checked(version, field))
        text = str(version)
        if re.fullmatch(_NUMBER, text):
            return cls(number=int(text))
        if not re.fullmatch(_TIME, text):
            raise _refused(field)
        try:
            return cls(moment=_checked(datetime.fromisoformat(text), field))
        except ValueError:
            raise _refused(field) from None

    def __str__(self) -> str:
        if self.number is not None:
            return str(self.number)
        return "" if self.moment is None else f"of {rfc3339(self.moment)} or before"

    @property
    def is_time(self) -> bool:
        return self.number is None

    @property
    def latest(self) -> int:
        """The largest version number that can match."""
        if self.number is not None:
            return self.number
        return _LAST if self.moment is None else min(_LAST, max(0, microseconds(self.moment)))

    def fits(self, version: int, valid_from: datetime) -> bool:
        """Return whether a version up to `latest` matches. If several do, the latest counts."""
        if self.number is not None:
            return version == self.number
        return self.moment is None or valid_from <= self.moment


LATEST = Reference()


def _checked(moment: datetime, field: str) -> datetime:
    try:
        return moment.astimezone(UTC) if moment.tzinfo else _no_zone(field)
    except OverflowError:
        raise _refused(field) from None


def _no_zone(field: str) -> datetime:
    raise _refused(field)


def _refused(field: str) -> BadVersion:
    return BadVersion(
        f"`{field}` must be a version's number or an RFC 3339 time with an offset, such as 2026-11-22T12:00:00Z.",
        field=field,
    )
