"""The limits of rates, each with its reason."""

from signalbox.core.limits import Limits


class RateLimits(Limits):
    """The limits by name; units come last in a name."""

    rate_name_bytes_max: int = 1_000
    """A rate's name. Paths below its record must also fit within Firestore's limits."""

    rate_description_characters_max: int = 500
    """A rate's description: a few sentences, since each write of its record contains them."""

    per_minute_min: float = 1 / 1_440
    """The slowest rate: a permit a day."""

    per_minute_max: int = 30_000
    """The fastest rate, 500 permits a second: an admit run grants 90 waits in one commit, several times a second at a
    peak; Firestore sustains about one write a second, so 90 permits.
    """

    rate_wait_id_bytes_max: int = 128
    """Bytes of the id of a wait or an acquire: the rate's record has the ids of the last 100 acquires."""

    recent_acquires_max: int = 100
    """Ids of the last acquires that the record keeps, to recognise a commit whose answer was lost."""

    rate_grants_page_max: int = 90
    """Waits that one commit grants: two outbox records of 100 tasks have room for them and the next alarm."""

    rate_grant_bytes_max: int = 600_000
    """Payloads of the tasks that one commit enqueues, so that they fit into one outbox record."""

    rate_pages_max: int = 10
    """Commits of one admit run. At 500 permits a second three are enough for the time between two runs."""

    grants_ahead_seconds: float = 1.0
    """How far ahead an admit run grants. A task is enqueued for its time, so a fast rate needs few runs."""

    alarm_ahead_seconds: float = 0.5
    """How long before a permit's time its admit run is due: a run that is late by less delays no grant."""

    alarm_days_max: int = 20
    """The longest time until the next admit run. Cloud Tasks schedules at most 30 days ahead."""

    alarm_lost_seconds: int = 10
    """The time after which the sweeper assumes that a due admit run is lost."""

    rate_checked_seconds: int = 3_600
    """The time after which the sweeper looks at a rate that has no alarm, or a later one. A purge may have taken the
    admit run that would have seen its waits, or the end of one.
    """

    paused_retry_seconds: int = 60
    """The time after which a caller may retry an acquire that a paused rate has refused."""

    rates_page_max: int = 50
    """Rates in one answer, and in one query of the sweeper. Each is a read."""


LIMITS = RateLimits()
