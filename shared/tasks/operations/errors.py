"""Show the last errors of tasks that are being retried."""

from typing import Any

from shared.core.operations.ports import Condition, Ports, Query, Snapshot
from shared.tasks.rules.attempts import COLLECTION
from shared.tasks.rules.errors import BATCH, ERRED_AT, ErrorNote


def retrying_json(counted: Snapshot) -> dict[str, Any] | None:
    """Return the last error of a task that is being retried, as an answer shows it; None for any other."""
    note = ErrorNote.from_record(counted.data)
    if note is None or counted.data is None or ERRED_AT not in counted.data:
        return None
    return {"id": counted.id, "state": "retrying", **note.to_json(counted.data[ERRED_AT])}


def of_batch(ports: Ports, batch: str) -> dict[str, Any]:
    """Return `last_error`: that of a unit which is being retried; nothing if there is none."""
    found = ports.store.query(Query(COLLECTION, (Condition((BATCH,), "==", batch),), limit=1))
    errors = [error for error in map(retrying_json, found) if error is not None]
    return {"last_error": errors[0]} if errors else {}
