"""Store the payloads of a commit before it, and read those that code needs."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

from signalbox.core.effects import Effect
from signalbox.core.limits import are_payloads_stored
from signalbox.core.ports import SERVER_TIME, PayloadStore, Ports, Put, Write
from signalbox.core.problems import Unavailable
from signalbox.payloads.model import (
    OWNER,
    PREFIX,
    SINCE,
    Outgoing,
    Payload,
    PayloadLost,
    PayloadUnread,
    Place,
    is_held,
    opening,
    payloads_in,
    place_of_tasks,
    removal_path,
)
from signalbox.payloads.problems import NoPayload

NO_STORE = "the deployment stores no payloads: write `payloads: true` in the catalogue"

LOST = (
    "The large value is missing in the store, or damaged: the log has the ERROR `payload damaged`. "
    "It can be read again once it is restored."
)

Operation = TypeVar("Operation", bound=Callable[..., Any])


def store(ports: Ports, outgoing: Outgoing) -> None:
    """Store and copy the payloads that a commit names. Call it before the commit.

    Raises `PayloadLost` if the source of a copy is missing, and `Unavailable`.
    """
    if not outgoing:
        return
    payloads = _payloads(ports)
    for key, (owner, content) in outgoing.stores.items():
        payloads.create(key, content, owner)
    for key, (owner, source) in outgoing.copies.items():
        if not payloads.copy(source, key, owner):
            raise PayloadLost(f"The payload {source} is missing.")


def stored_task(ports: Ports, task: Effect, now: datetime) -> Effect:
    """Store the large arguments of a task that is enqueued now. Return the task with their names.

    Raises `TooLarge`, `Unavailable`.
    """
    outgoing = Outgoing()
    named = outgoing.claimed_task(task, place_of_tasks(now))
    store(ports, outgoing)
    return named


def read(ports: Ports, payload: Payload, owner: Place | None = None) -> bytes:
    """Return the content of a payload. Raises `PayloadLost`, `Unavailable`.

    `owner` is a place whose payloads are replaced or removed while others read them. If its record does not need the
    payload any more, raise `PayloadUnread`: the caller reads the record again.
    """
    content = _payloads(ports).read(payload.key)
    if content is not None and payload.is_of(content):
        return content
    if owner is not None and payload.key.startswith(f"{owner.prefix}/"):
        [record] = ports.store.read(owner.owner)
        if not is_held(payload.key, record.data):
            raise PayloadUnread(f"The payload {payload.key} has been replaced or removed.")
    what = "is missing" if content is None else "has another content than its name says"
    ports.log.error("payload damaged", key=payload.key, bytes=payload.size_bytes, detail=what)
    raise PayloadLost(f"The payload {payload.key} {what}.")


def content_by_hash(ports: Ports, stored: Iterable[Any], sha256: str, owner: Place | None = None) -> bytes:
    """Return the JSON of the large value with this hash among values of records. `owner` is as in `read`.

    Raises `NoPayload`, also if it is missing or damaged in the store, or if there is no store, and `Unavailable`.
    """
    for payload in payloads_in(*stored):
        if payload.sha256 == sha256:
            if ports.payloads is None:
                raise NoPayload(f"It cannot be read: {NO_STORE}.", field="sha256")
            try:
                return read(ports, payload, owner)
            except PayloadLost as error:
                raise NoPayload(LOST, field="sha256") from error
    raise NoPayload("There is no large value with this hash: it has been replaced, or never existed.", field="sha256")


def opening_those_of(ports: Ports, owner: Place | None = None) -> AbstractContextManager[Any]:
    """Let code open payloads while the context is entered (`opened`). `owner` is as in `read`."""
    return opening(lambda payload: read(ports, payload, owner))


def opens_payloads(operation: Operation) -> Operation:
    """Let an operation, whose first parameter are the ports, open payloads."""

    @wraps(operation)
    def with_payloads(ports: Ports, *args: Any, **kwargs: Any) -> Any:
        with opening_those_of(ports):
            return operation(ports, *args, **kwargs)

    decorated: Any = with_payloads
    return cast("Operation", decorated)


def removal(place: Place) -> Write:
    """Return the write by which the sweeper deletes the payloads of a place, in the commit that ends its use."""
    return Put(removal_path(place), {PREFIX: f"{place.prefix}/", SINCE: SERVER_TIME})


def removals(ports: Ports, place: Place) -> list[Write]:
    """Return the write of `removal` if the place has payloads. No record of the owner says whether it has."""
    if ports.payloads is None or not are_payloads_stored() or not ports.payloads.list(f"{place.prefix}/", "", 1):
        return []
    return [removal(place)]


def replacement(place: Place) -> Write:
    """Return the write by which the sweeper deletes the payloads of a place that its owner's record has replaced.

    The first part of a key below the place is the revision of the record that was to name the payload.
    """
    return Put(removal_path(place), {PREFIX: f"{place.prefix}/", SINCE: SERVER_TIME, OWNER: place.owner})


def _payloads(ports: Ports) -> PayloadStore:
    if ports.payloads is None:
        raise Unavailable(NO_STORE)
    return ports.payloads
