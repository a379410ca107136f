"""Times as numbers and as text: microseconds since 1970, RFC 3339, and entity tags."""

from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

MICROSECOND = timedelta(microseconds=1)


def microseconds(instant: datetime) -> int:
    """Return the microseconds from 1970 to an aware datetime, exactly."""
    since = instant - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def instant(microseconds: int) -> datetime:
    """Return the UTC datetime that many microseconds after 1970."""
    return EPOCH + microseconds * MICROSECOND


def slot_end(moment: datetime, slot_seconds: float) -> datetime:
    """Return the end of the time slot that contains a moment. A boundary belongs to the later slot."""
    width = round(slot_seconds * 1_000_000)
    return moment + timedelta(microseconds=width - microseconds(moment) % width)


def rfc3339(moment: datetime) -> str:
    """Format a time as RFC 3339 in UTC, ending in ``Z``."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def forms(time: datetime) -> tuple[str, ...]:
    """Return the texts that code makes of a time: as JSON, by `isoformat` and by `str`."""
    return rfc3339(time), time.isoformat(), str(time)


def entity_tag(update_time: datetime | None) -> str:
    """Return a strong entity tag derived from a record's update time, which the server never assigns twice."""
    assert update_time is not None, "a record that exists has an update time"
    return f'"{update_time.astimezone(UTC):%Y%m%dT%H%M%S%f}"'
