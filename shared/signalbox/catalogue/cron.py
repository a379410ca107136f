"""Cron expressions of five fields, as Cloud Scheduler accepts them: minute, hour, day, month, day of the week.

A field is a list of ``*``, numbers and ranges, each with an optional step: ``*/15``, ``1-5``, ``0,30``. Months and
days of the week may be names.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from signalbox.core.lazy_dataclasses import dataclass

UTC_NAME = "Etc/UTC"

ITEM = re.compile(r"(?P<all>\*)(/(?P<step_of_all>\d+))?|(?P<first>\w+)(-(?P<last>\w+)(/(?P<step>\d+))?)?")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")


@dataclass(frozen=True, slots=True)
class Field:
    """A field's name, its least and greatest number, and the names of its numbers, beginning with the least number."""

    name: str
    least: int
    greatest: int
    names: tuple[str, ...] = ()

    def wrong_in(self, text: str) -> str:
        """Return the error in the field's text, or an empty text."""
        return next(filter(None, map(self._error_of_item, text.split(","))), "")

    def _error_of_item(self, item: str) -> str:
        found = ITEM.fullmatch(item)
        if found is None:
            return f"{item!r} is not a {self.name}: write *, a number, a range such as 1-5, or */15"
        ends = [end for end in (found["first"], found["last"]) if end is not None]
        if outside := next((end for end in ends if self._number(end) is None), ""):
            return f"the {self.name} {outside!r} is not from {self.least} to {self.greatest}"
        numbers = [self._number(end) or 0 for end in ends]
        if numbers != sorted(numbers):
            return f"the {self.name} range {item!r} ends before it starts"
        step = found["step_of_all"] or found["step"] or "1"
        return "" if int(step) else f"the step of {item!r} must be at least 1"

    def numbers(self, text: str) -> frozenset[int]:
        """Return the numbers that a valid text of the field denotes."""
        return frozenset(number for item in text.split(",") for number in self._numbers_of_item(item))

    def _numbers_of_item(self, item: str) -> range:
        found = ITEM.fullmatch(item)
        assert found, "the text is valid"
        if found["all"]:
            return range(self.least, self.greatest + 1, int(found["step_of_all"] or 1))
        first = self._number(found["first"]) or 0
        return range(first, (self._number(found["last"] or found["first"]) or 0) + 1, int(found["step"] or 1))

    def _number(self, text: str) -> int | None:
        """Return the number that a text denotes, or None if the field does not allow that number."""
        number = int(text) if text.isdecimal() and len(text) < 3 else None
        if text.lower() in self.names:
            number = self.names.index(text.lower()) + self.least
        return number if number is not None and self.least <= number <= self.greatest else None


FIELDS = (
    Field("minute", 0, 59),
    Field("hour", 0, 23),
    Field("day of the month", 1, 31),
    Field("month", 1, 12, MONTHS),
    Field("day of the week", 0, 6, DAYS),
)


def cron_error(cron: str) -> str:
    """Return the error in a cron expression, or an empty text."""
    texts = cron.split()
    if len(texts) != len(FIELDS):
        return "write five fields: minute, hour, day of the month, month, day of the week"
    return next(filter(None, (field.wrong_in(text) for field, text in zip(FIELDS, texts, strict=True))), "")


def times(cron: str, after: datetime, until: datetime, time_zone: str = UTC_NAME) -> Iterator[datetime]:
    """Iterate over the times of a valid cron expression, later than `after` and at most `until`, in UTC.

    The fields refer to local time in `time_zone`. A local time that is skipped yields nothing; one that occurs twice
    yields one time. If both the day of the month and the day of the week are restricted, one of them must fit, as in
    Unix.
    """
    minutes, hours, days, months, weekdays = (
        field.numbers(text) for field, text in zip(FIELDS, cron.split(), strict=True)
    )
    restricted = [text != "*" for text in (cron.split()[2], cron.split()[4])]
    clock = [(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)]
    zone = UTC if time_zone == UTC_NAME else ZoneInfo(time_zone)
    day, last = after.astimezone(zone).date(), until.astimezone(zone).date()
    while day <= last:
        fitting = [day.day in days, (day.weekday() + 1) % 7 in weekdays]
        if day.month in months and (any(fitting) if all(restricted) else all(fitting)):
            shown = (datetime(*day.timetuple()[:3], hour, minute, tzinfo=zone) for hour, minute in clock)
            every = ((time, time.astimezone(UTC)) for time in shown)
            yield from (at for time, at in every if after < at <= until and at.astimezone(zone) == time)
        day += timedelta(days=1)


NEXT_DAYS_MAX = 5 * 366
"""Days ahead in which a time is searched: a leap day is at most four years away, except around 2100."""


def next_time(cron: str, after: datetime, time_zone: str = UTC_NAME) -> datetime | None:
    """Return the first time of a cron expression after a time, or None if none is within five years."""
    return next(times(cron, after, after + timedelta(days=NEXT_DAYS_MAX), time_zone), None)
