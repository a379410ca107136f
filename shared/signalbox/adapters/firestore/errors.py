"""Translate Firestore's errors into a conflict, a permanent error, `Unavailable`, or the index that is missing.

A code means a conflict only if a guard could have caused it: NOT_FOUND is also the code of a missing database, and
FAILED_PRECONDITION that of a query without its index. Errors that no operation can handle (a missing permission, a
missing database) are raised unchanged: they are errors of the deployment.
"""

from collections.abc import Iterable
from datetime import datetime

from google.api_core.exceptions import GoogleAPICallError, RetryError
from grpc import StatusCode

from signalbox.core.ports import AlreadyExists, Guard, Must, Query, RecordMissing, Stale
from signalbox.core.problems import BadQuery, BadValue, NeedsIndex, TooLarge, Unavailable
from signalbox.core.queries import Index, lacking
from signalbox.core.record_values import RECORD_BYTES_MAX
from signalbox.core.validation import full_order

UNKNOWN_OUTCOME = frozenset(
    (
        StatusCode.ABORTED,
        StatusCode.CANCELLED,
        StatusCode.DEADLINE_EXCEEDED,
        StatusCode.INTERNAL,
        StatusCode.RESOURCE_EXHAUSTED,
        StatusCode.UNAVAILABLE,
        StatusCode.UNKNOWN,
    )
)


_NEWER_THAN_STORED = "greater than the stored version"
"""Text in the message of INVALID_ARGUMENT: a guard's update time is later than the record's."""


_BY_NUMBER = {code.value[0]: code for code in StatusCode}


class MissingIndex(Exception):
    """Firestore has no index for a query. The message is Firestore's."""


def code_numbered(number: int) -> StatusCode:
    """Return the status code for the number in a `Status` message."""
    return _BY_NUMBER.get(number, StatusCode.UNKNOWN)


def code_of(error: GoogleAPICallError | RetryError) -> StatusCode:
    """Return the status code of a failed call."""
    code = getattr(error, "grpc_status_code", None)
    return code if isinstance(code, StatusCode) else StatusCode.UNKNOWN


def of_read(code: StatusCode, message: str) -> Exception | None:
    """Translate the failure of a read. None: raise it as it is."""
    if code in UNKNOWN_OUTCOME:
        return Unavailable(f"Firestore did not answer a read: {code.name} {message}")
    return None


def of_query(code: StatusCode, message: str) -> Exception | None:
    """Translate the failure of a query. None: raise it as it is."""
    if code is StatusCode.FAILED_PRECONDITION:
        return MissingIndex(message)
    if code is StatusCode.INVALID_ARGUMENT:
        return BadQuery(f"Firestore refuses this query: {message}")
    return of_read(code, message)


def of_write(code: StatusCode, message: str, guards: Iterable[Guard]) -> Exception | None:
    """Translate the failure of writes under these guards. None: raise it as it is."""
    if code in UNKNOWN_OUTCOME:
        return Unavailable(f"Firestore did not confirm a write: {code.name} {message}")
    if code is StatusCode.INVALID_ARGUMENT and _NEWER_THAN_STORED not in message:
        return _refusal(message)
    return _conflict(code, message, tuple(guards))


def _refusal(message: str) -> Exception:
    if f"{RECORD_BYTES_MAX} bytes" in message.replace(",", ""):
        return TooLarge(f"A record has at most {RECORD_BYTES_MAX:,} bytes; this one would have more.")
    return BadValue(f"Firestore refuses this: {message}")


def _conflict(code: StatusCode, message: str, guards: tuple[Guard, ...]) -> Exception | None:
    dated = any(isinstance(guard, datetime) for guard in guards)
    if code is StatusCode.ALREADY_EXISTS and Must.NOT_EXIST in guards:
        return AlreadyExists(message)
    if code is StatusCode.NOT_FOUND and (dated or Must.EXIST in guards):
        return RecordMissing(message)
    if code in {StatusCode.FAILED_PRECONDITION, StatusCode.INVALID_ARGUMENT} and dated:
        return Stale(message)
    return None


def needs_index(index: Index) -> NeedsIndex:
    """Return the problem that names the index to declare."""
    return NeedsIndex(f"Add to `indexes` of infra/catalogue.yaml and deploy: {index}", field="where")


def refused_query(query: Query, message: str) -> Exception:
    """Translate Firestore's own error for a query without its index."""
    if "currently building" in message:
        return Unavailable("An index that this query needs is still being built.", retry_after_seconds=30)
    index = lacking(query.collection, query.where, full_order(query))
    return needs_index(index) if index else BadQuery(f"Firestore has no index for this query: {message}")
