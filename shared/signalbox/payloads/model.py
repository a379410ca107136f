"""Large values: a record or a task has the name of a payload in their place. The content is in the payload store.

    {"$payload": [5242880, "9f86d0…", "flows/6f0d…/Kd82/0/9f86d0…"]}     bytes, SHA-256 and key of a payload
    {"$payload": {"value": …}}                                           a user's object that has this member

The key begins with the place of its owner, for instance the execution of a run whose records name the payload. A record
names payloads of its own place only; what another owner needs is copied. So the payloads of an owner are deleted
together, and nothing counts references.

A commit names payloads that are in the store already. A decision stores nothing: it collects what its commit needs in
an `Outgoing`, which the service stores before it commits.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Any, NamedTuple, Self

from signalbox.core.bound_values import Bound
from signalbox.core.effects import Effect, name_of
from signalbox.core.idempotency_keys import hold_digest
from signalbox.core.json_values import json_text
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS, are_payloads_stored
from signalbox.core.problems import TooLarge, Unavailable

MEMBER = "$payload"

NAMED = "named"
"""The member in the context of a task, or in that of its unit or group, whose arguments are as records contain them.

The record of a unit has it, too, if its result is a payload.
"""

HASH_LETTERS = 32

OF_TASKS = "tasks"
"""The place of payloads that only a task names. They are deleted by their age."""


class PayloadUnread(Unavailable):
    """A payload that code needs cannot be read now."""


class PayloadLost(PayloadUnread):
    """A payload is missing in the store, or has another content than its name says."""


class Place(NamedTuple):
    """Where payloads of an owner are stored: the keys begin with `prefix`.

    `owner` is the path of the record by which the collector decides whether the payloads are still needed.
    """

    owner: str
    prefix: str

    def key(self, digest: str) -> str:
        return f"{self.prefix}/{digest}"


def place_of(owner: str, *parts: str) -> Place:
    """Return the place of an owner's part, of which the first is its incarnation.

    The path of the owner is hashed: a key has a limited length.
    """
    collection = owner.partition("/")[0]
    return Place(owner, "/".join((collection, name_of("payloads", owner)[:HASH_LETTERS], *parts)))


def place_of_tasks(now: datetime) -> Place:
    """Return the place of payloads that only tasks of this month name."""
    return Place("", f"{OF_TASKS}/{now:%Y-%m}")


def place_of_sent(*parts: str) -> Place:
    """Return the place of payloads that only the tasks of one commit name, which is identified by these parts."""
    return Place("", f"{OF_TASKS}/{name_of(*parts)[:HASH_LETTERS]}")


@dataclass(frozen=True, slots=True)
class Payload:
    """The name of a payload."""

    size_bytes: int
    sha256: str
    key: str

    @classmethod
    def of(cls, content: bytes, place: Place) -> Self:
        digest = sha256(content).hexdigest()
        return cls(len(content), digest, place.key(digest))

    def at(self, place: Place) -> Self:
        """Return the name of the same content at another place."""
        return replace(self, key=place.key(self.sha256))

    @property
    def prefix(self) -> str:
        """The prefix of its place."""
        return self.key.rpartition("/")[0]

    def to_json(self) -> dict[str, Any]:
        return {MEMBER: [self.size_bytes, self.sha256, self.key]}

    def is_of(self, content: bytes) -> bool:
        """Return whether this is the name of a content."""
        return len(content) == self.size_bytes and sha256(content).hexdigest() == self.sha256


def payload_in(stored: Any) -> Payload | None:
    """Return the payload whose name a record has in place of a value, or None if it has the value."""
    named = stored.get(MEMBER) if isinstance(stored, dict) else None
    return Payload(*named) if isinstance(named, list) else None


def payloads_in(*stored: Any) -> list[Payload]:
    """Return the payloads among values of records."""
    return [payload for each in stored if (payload := payload_in(each))]


def escaped(value: Any) -> Any:
    """Return a value as records contain it. A user's object that looks like the name of a payload is wrapped."""
    return {MEMBER: {"value": value}} if isinstance(value, dict) and MEMBER in value else value


def unescaped(stored: Any) -> Any:
    """Undo `escaped`."""
    wrapped = stored.get(MEMBER) if isinstance(stored, dict) else None
    return wrapped["value"] if isinstance(wrapped, dict) else stored


def without_keys(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return values of a record so that they equal those of a repeat, whose payloads have other keys."""
    return {
        name: [payload.size_bytes, payload.sha256] if (payload := payload_in(value)) else value
        for name, value in stored.items()
    }


def content_of(value: Any) -> bytes:
    """Return the content of a value's payload."""
    return json_text(value).encode()


def shown(stored: Any) -> Any:
    """Return a value of a record as people see it: of a payload, its size and its hash, without its key.

    A user's object stays wrapped if people could take it for that.
    """
    payload = payload_in(stored)
    if payload is not None:
        return {MEMBER: {"bytes": payload.size_bytes, "sha256": payload.sha256}}
    value = unescaped(stored)
    return stored if value is not stored and isinstance(value[MEMBER], dict) else value


def is_held(key: str, record: Mapping[str, Any] | None) -> bool:
    """Return whether an owner needs a payload: its record is of the incarnation that has stored it, or names it."""
    return record is not None and (record.get("incarnation") == incarnation_of(key) or key in str(record))


def incarnation_of(key: str) -> str:
    """Return the first part of a payload's place."""
    return key.split("/")[2]


def is_large(arguments: Mapping[str, Any]) -> bool:
    """Return whether arguments do not fit into a task, so that payloads are stored for them."""
    return are_payloads_stored() and len(json_text(arguments)) > LIMITS.task_bytes_max


# --- values that a commit names ---


@dataclass(slots=True)
class Outgoing:
    """The payloads that a commit will name: those to `store`, by key, and those to `copy`, each with its source.

    The value of both is the owner, with the content or the key of the source.
    """

    stores: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    copies: dict[str, tuple[str, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.stores or self.copies)

    def __ior__(self, other: "Outgoing") -> Self:
        self.stores |= other.stores
        self.copies |= other.copies
        return self

    @property
    def size_bytes(self) -> int:
        """The bytes of the contents to store, which are in memory."""
        return sum(len(content) for _, content in self.stores.values())

    def claimed(self, value: Any, place: Place, bytes_max: int) -> Any:
        """Return a value as records contain it: the name of a payload if the value has more than `bytes_max`."""
        if not are_payloads_stored() or len(json_text(value)) <= bytes_max:
            return escaped(value)
        return self.named(content_of(value), place)

    def named(self, content: bytes, place: Place) -> dict[str, Any]:
        """Return the name of a content as records contain it."""
        payload = Payload.of(content, place)
        hold_digest(payload.sha256, content)
        self.stores[payload.key] = place.owner, content
        return payload.to_json()

    def claimed_members(self, members: Mapping[str, Any], place: Place, bytes_max: int | None = None) -> dict[str, Any]:
        """Return arguments as records and tasks contain them: the largest are payloads, until the others fit.

        Together they have at most `bytes_max`, by default those of a task. Raises `TooLarge` if even the names do not
        fit.
        """
        bytes_max = LIMITS.task_bytes_max if bytes_max is None else bytes_max
        stored = {name: escaped(value) for name, value in members.items()}
        if not are_payloads_stored():
            return stored
        size_bytes = len(json_text(members))
        if size_bytes <= bytes_max:
            return stored
        sizes = {name: len(json_text(value)) for name, value in members.items()}
        for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
            stored[name] = self.named(content_of(members[name]), place)
            size_bytes += len(json_text(stored[name])) - sizes[name]
            if size_bytes <= bytes_max:
                return stored
        raise TooLarge(f"The names of the arguments' payloads have more than {bytes_max:,} bytes.")

    def claimed_arguments(self, arguments: Mapping[str, Any], place: Place) -> tuple[Mapping[str, Any], dict[str, Any]]:
        """Return the arguments of a task, and the members that its context has if large ones are payloads.

        Arguments that fit are returned as they are. Raises `TooLarge`.
        """
        if not is_large(arguments):
            return arguments, {}
        return self.claimed_members(arguments, place), {NAMED: True}

    def claimed_task(self, task: Effect, place: Place) -> Effect:
        """Return a task whose large arguments are payloads. Raises `TooLarge`."""
        arguments, members = self.claimed_arguments(task.payload, place)
        return replace(task, payload=arguments, context={**task.context, **members}) if members else task

    def copied(self, stored: Any, place: Place) -> Any:
        """Return a value of a record as the records of another place contain it."""
        payload = payload_in(stored)
        if payload is None:
            return stored
        moved = payload.at(place)
        if moved.key != payload.key:
            self.copies[moved.key] = place.owner, payload.key
        return moved.to_json()


# --- values that code needs ---

Read = Callable[[Payload], bytes]
"""Return the content of a payload. Raises `PayloadLost`, `Unavailable`."""

_read: ContextVar[Read | None] = ContextVar("signalbox.payloads", default=None)


def opening(read: Read) -> AbstractContextManager[Any]:
    """Let `opened` read payloads by this function while the context is entered."""
    return Bound(_read, read)


def opened(stored: Any) -> Any:
    """Return the value in place of which a record may have the name of a payload. Each call returns a new object.

    Raises `PayloadUnread`.
    """
    payload = payload_in(stored)
    if payload is None:
        return unescaped(stored)
    if (read := _read.get()) is None:
        raise PayloadUnread(f"The payload {payload.key} cannot be read here.")
    try:
        return json.loads(read(payload))
    except PayloadUnread:
        raise
    except Unavailable as error:
        raise PayloadUnread(str(error), retry_after_seconds=error.retry_after_seconds) from error


def opened_members(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return arguments with the values of their payloads."""
    if not any(isinstance(value, dict) and MEMBER in value for value in stored.values()):
        return stored
    return {name: opened(value) for name, value in stored.items()}


# --- payloads to delete ---

REMOVALS = "payload_removals"
"""The collection of the places whose payloads the sweeper deletes. A record is written by the commit that ends the use
of the place.
"""

PREFIX, SINCE, OWNER = "prefix", "since", "owner"


def removal_path(place: Place) -> str:
    return f"{REMOVALS}/{name_of('removal', place.prefix)}"
