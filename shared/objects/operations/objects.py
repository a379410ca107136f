"""Look at objects: one, or all of a class."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from shared.core.operations.mailbox import revision_of
from shared.core.operations.ports import ID, Condition, Order, Ports, Query, Store
from shared.core.rules.limits import LIMITS
from shared.core.rules.mailbox import collection_of, header_path
from shared.objects.operations.calls import Placeholder, post_call
from shared.objects.operations.records import FunctionOf, state_of
from shared.objects.rules.addresses import COLLECTION, ObjectAddress
from shared.objects.rules.messages import deletion

BEHIND_KEYS = "\x7f"
"""Sorts right behind the ``~`` between class and key."""


@dataclass(frozen=True, slots=True)
class ObjectStatus:
    """Whether an object exists, the revision of its state, and how many messages wait, those for later included."""

    address: ObjectAddress
    exists: bool
    revision: int
    waiting: int

    def to_json(self) -> dict[str, Any]:
        """Return the status as people see it."""
        return {
            **self.address.to_json(),
            "exists": self.exists,
            "revision": self.revision,
            "waiting": self.waiting,
        }


def get_object(ports: Ports, address: ObjectAddress) -> ObjectStatus:
    """Return the status of an object. One that was never called does not exist and has revision 0."""
    [header] = ports.store.read(header_path(address.base))
    waiting = ports.store.count(Query(collection_of(address.base), order_by=(Order(("since",)),)))
    return ObjectStatus(address, state_of(header) is not None, revision_of(header), waiting - (header.data is not None))


def read_state(store: Store, address: ObjectAddress) -> tuple[str | None, datetime]:
    """Return the state of an object as text, None if it does not exist, as of its last turn; and the server's time."""
    [header] = store.read(header_path(address.base))
    return state_of(header), header.read_time


def delete(ports: Ports, function_of: FunctionOf, address: ObjectAddress, id_: str | None = None) -> None:
    """Delete an object in its turn, behind what waits already. A repeat with the same `id_` changes nothing."""
    post_call(ports, function_of, Placeholder(address, id_ or ports.store.new_id()), deletion())


def list_objects(ports: Ports, class_name: str, after_key: str | None = None) -> list[ObjectAddress]:
    """Return objects of a class in the order of their keys, from behind a key on."""
    first = Condition(ID, ">=", f"{class_name}~")
    last = Condition(ID, "<", f"{class_name}{BEHIND_KEYS}")
    after = () if after_key is None else (f"{class_name}~{after_key}",)
    query = Query(COLLECTION, (first, last), limit=LIMITS.objects_listed_max, after=after)
    return [ObjectAddress(class_name, snapshot.id.split("~", 1)[1]) for snapshot in ports.store.query(query)]
