"""Limits that several subjects share, each with its reason; the base class of all limits; declarations.

Exceeding a limit is a problem that names the number. A limit that one subject alone uses is in
`signalbox/SUBJECT/limits.py`; field names are unique over all of them. Limits that Firestore dictates are constants
where they are checked: `keys`, `record_values`, `queries`, `query_checks`, `write_checks`.

Code reads a limit when it needs it (`LIMITS.task_bytes_max`), so a test can replace it in one place; see
`signalbox.testing.replaced_limits`.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Limits:
    """Limits by name. Units come last in a name."""

    @contextmanager
    def replaced(self, **values: float) -> Iterator[None]:
        """Replace limits while the context is entered. For tests. Raises `AttributeError` for an unknown name."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


class CoreLimits(Limits):
    key_bytes_max: int = 1_000
    """Bytes of a key, of a batch's id or of a transform's name. Firestore accepts ids of 1,500 bytes, but refuses a
    query for a value of that length, and such queries find documents by their links. Written as %XX in a URL, a key
    still takes less than 4 KB."""

    depth_max: int = 20
    """Nested objects and lists of a document, the document included, as stored (a list in a list counts twice): one
    level fewer than a record of Firestore has."""

    links_max: int = 500
    """Links of one document: a put reads all targets in one call, and their keys are stored in one indexed list."""

    rounds_max: int = 6
    """Attempts of a guarded commit or of a page, if each loses a race, before the request fails with 503."""

    pause_seconds: float = 0.05
    """The first pause before a retry; it doubles each time, with jitter. The first two after lost races are shorter if
    the attempts took less time."""

    outbox_tasks_max: int = 100
    """Tasks in one outbox record: as many as Cloud Tasks accepts in one batch call. A commit with more tasks has
    several records."""

    outbox_bytes_max: int = 900_000
    """Bytes of payload in one outbox record, which with its id and times must stay under Firestore's 1 MiB."""

    outbox_patience_seconds: int = 10
    """The age from which the sweeper handles an outbox record. Until then its operation may still be enqueueing the
    tasks."""

    sweep_page: int = 100
    """Outbox records that a sweep reads in one query."""

    sweep_pages_max: int = 20
    """Pages of outbox records that one sweep reads, so that it ends well before the next one starts. If there are more,
    a sweep starts at a random record."""

    sweep_part_seconds: float = 15
    """Time after which a part of a sweep (outbox, semaphores, batches, removal of batches) begins no other record, so
    that a sweep ends at about the time when the next one starts."""

    unreadable_pause_seconds: int = 600
    """Time after which the sweeper retries a record that it cannot read."""

    task_bytes_max: int = 100 * 1024
    """Bytes of a task's payload. Cloud Tasks accepts 1 MB, but tasks should contain references to data, not the data.
    """

    read_bytes_max: int = 4 * 1024 * 1024
    """Bytes of documents that one request holds at once, plus one more document: a page of a query ends with the
    document that reaches this limit, and so does each group of documents that is read for copies. In memory they take
    several times as much."""

    request_memory_bytes_max: int = 80 * 1024 * 1024
    """Memory that one request on documents adds to its instance at its peak. A test measures the worst requests, with
    documents of 3,000 texts each. The number of concurrent requests of an instance follows from this."""

    instance_memory_bytes: int = 128 * 1024 * 1024
    """Memory of an instance that handles no request: the interpreter, the libraries and their connections."""

    query_limit_max: int = 1_000
    """Documents in one page of a query. Large documents end a page earlier (`read_bytes_max`)."""

    delay_seconds_max: int = 29 * 24 * 3_600
    """Cloud Tasks schedules at most 30 days ahead. The difference is a margin for the time between the decision and the
    queue."""

    result_bytes_max: int = 100 * 1024
    """A unit's result: as large as a payload, so that it can become one."""

    payload_bytes_max: int = 32 * 1024 * 1024
    """Bytes of one value that is stored as a payload: a request and its answer have at most 32 MiB on Cloud Run."""

    error_letters_max: int = 2_000
    """Characters of a failed unit's error that are kept: it is a message, not a log."""

    lease_seconds_max: int = 24 * 3600
    """Seconds of a lease. Longer leases must be renewed: a holder that does not renew for a day is assumed dead."""

    receipt_seconds: int = 32 * 24 * 3600
    """The time for which a wait's answer is kept after its end: Cloud Tasks delivers a task for up to 31 days."""

    burst_max: int = 10_000
    """Permits of a rate that can be granted at once, and the largest weight of a wait or of a batch's unit."""

    since_ahead_seconds: float = 0.05
    """The time by which Firestore's time of a request may be ahead of the time of its commit. Waiters are read by the
    former and granted by the latter: after a full page there may be waiters that were created this long before its end.
    """

    deployment_seconds: int = 300
    """The time for which instances of an older deployment may still answer. They do not have the tasks, methods and
    parameters of the newer one, so for this time unknown ones are retried."""

    wake_up_slot_seconds: float = 0.2
    """Messages of one slot share one run. It is about the time of a guarded commit under load."""

    wake_up_margin_seconds: float = 0.1
    """A wake-up is due this long after its slot's end: a queue whose clock is ahead would deliver it early."""


LIMITS = CoreLimits()


DECLARED: dict[str, str] = {}
"""Declarations of the catalogue that decisions read, as JSON texts by name. The settings set them for the process."""


PAYLOADS_OFF = "off"
"""The declaration `payloads` of a deployment that stores no payloads."""


def are_payloads_stored() -> bool:
    """Return whether the deployment stores large values as payloads (`payloads` in the catalogue)."""
    return DECLARED.get("payloads", PAYLOADS_OFF) != PAYLOADS_OFF


def value_bytes_max(bytes_max: int) -> int:
    """Return the largest size of a value that is stored as a payload if it has more than `bytes_max`."""
    return LIMITS.payload_bytes_max if are_payloads_stored() else bytes_max


def larger_values() -> str:
    """Return the end of a refusal's text: what to set for larger values. It is empty if that is set."""
    return "" if are_payloads_stored() else " Larger ones need `payloads: true` in the catalogue."
