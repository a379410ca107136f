"""The task that follows a write of a large document, whose event may not arrive.

It is committed with the write and does what an event without data calls for, so it may run beside the event as well.
"""

from collections.abc import Mapping
from typing import Any

from shared.core.operations.ports import Snapshot
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.times import microseconds
from shared.documents.rules import documents


def follow_up(before: Snapshot, after: Mapping[str, Any] | None) -> tuple[Effect, ...]:
    """Return the tasks to commit with the write that leaves `after`, or with a deletion: none for a small document."""
    if not documents.is_large(before.data) and not documents.is_large(after):
        return ()
    version = "deleted" if after is None else after[documents.RESERVED]["version"]
    replaced = "" if before.update_time is None else microseconds(before.update_time)
    event_id = name_of("follow up", before.path, replaced, version)
    payload = {"event": event_id, "work": {"written": before.id}}
    return (Effect(name_of("links", event_id), "links", "link_refresh", "refresh", payload),)
