"""The internal tasks of links, each handled by its name.

Tasks of `link_refresh` have the id of the event or change that caused them, and their work:

    page        refresh a page of the documents that embed a key
    copy        refresh one document's copy of a key
    walk        refresh a page of the documents that have links in a transform's field
    written     do what the event of a write calls for, if it has none, or one so large that it may not arrive; with
                `targets`: only compare the copies of these with their targets
    compact     delete the versions that the log of a document no longer needs
    dependents  delete the documents that depend on a deleted one

The task of `link_verify` is a page of a verification.
"""

from collections.abc import Callable, Mapping
from typing import Any

from signalbox.core.kit_names import LINK_REFRESH
from signalbox.core.ports import DocumentEvent, Ports
from signalbox.core.problems import BadValue, Problem, Unavailable
from signalbox.core.records.formats import check_known
from signalbox.documents.model.stamped_contents import COLLECTION, path_of
from signalbox.documents.service.dependents import delete_dependents
from signalbox.history import service as history
from signalbox.links.limits import LIMITS
from signalbox.links.service import refreshes, verifications

Payload = Mapping[str, Any]


class RefreshGivenUp(Problem):
    status = 500
    title = "A refresh of copies failed or timed out each time"


def run_link_task(ports: Ports, task: str, payload: Payload, executions: int = 0) -> None:
    """Run a task of `link_refresh` that was executed `executions` times before.

    Raises `Unavailable` (transient: retry), or `BadValue` for an invalid payload. A task that keeps failing otherwise,
    or exceeds the function's time-out, raises `RefreshGivenUp` in the end, so that it does not run for ever.
    """
    check_known(LINK_REFRESH, task, TASKS)
    try:
        TASKS[task](ports, payload)
    except (Problem, Unavailable):
        raise
    except Exception as error:
        if executions < LIMITS.refresh_failures_max:
            raise
        raise RefreshGivenUp(
            f"{task} of {dict(payload).get('work')}: {type(error).__name__}. A verification repairs it."
        ) from error


def page(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}, "copies": int(limit)}:
            refreshes.refresh_page(ports, event_id, key, cursor, limit)
        case {"event": str(event_id), "work": {"key": str(key), "cursor": str(cursor)}}:
            refreshes.refresh_page(ports, event_id, key, cursor)
        case _:
            raise _invalid("page")


def copy(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"work": {"key": str(key), "document": str(document)}}:
            refreshes.refresh_copy(ports, key, document)
        case _:
            raise _invalid("copy")


def walk(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"event": str(event_id), "work": {"transform": str(name), "cursor": str(cursor)}}:
            refreshes.walk_page(ports, event_id, name, cursor)
        case _:
            raise _invalid("walk")


def written(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"event": str(event_id), "work": {"written": str(key)}, "targets": [*targets]}:
            refreshes.verify_written(ports, event_id, key, [target for target in targets if isinstance(target, str)])
        case {"event": str(event_id), "work": {"written": str(key)}}:
            refreshes.fan_out(ports, DocumentEvent(event_id, COLLECTION, key, path_of(key), None, None))
        case _:
            raise _invalid("written")


def compact(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"work": {"compact": str(key), "before": int(before)}}:
            history.delete_before(ports, key, before)
        case _:
            raise _invalid("compact")


def dependents(ports: Ports, payload: Payload) -> None:
    match payload:
        case {"event": str(event_id), "work": {"dependents": str(key), "part": int(part)}}:
            delete_dependents(ports, event_id, key, part)
        case _:
            raise _invalid("dependents")


def verify(ports: Ports, payload: Payload) -> None:
    """Verify one page. Raises `Unavailable` (transient: retry), or `BadValue` if the payload is invalid."""
    match payload:
        case {"run": str(run), "cursor": str(cursor)}:
            verifications.verify_page(ports, run, cursor)
        case _:
            raise _invalid("verification page")


def _invalid(task: str) -> BadValue:
    return BadValue(f"The payload of this task is not that of a {task} task of links.")


TASKS: Mapping[str, Callable[[Ports, Payload], None]] = {
    "page": page,
    "copy": copy,
    "walk": walk,
    "written": written,
    "compact": compact,
    "dependents": dependents,
}
