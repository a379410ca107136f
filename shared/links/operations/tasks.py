"""Tasks of a fan-out: one a page of the documents that must follow a change, or one a document."""

from collections.abc import Mapping

from shared.core.operations.ports import Ports
from shared.core.rules.effects import Effect, name_of

QUEUE = "links"


def enqueue(ports: Ports, event_id: str, work: Mapping[str, str], **context: int) -> None:
    """Enqueue work for `fan_out.run_link_task`."""
    ports.queue.create([task_for(event_id, work, **context)])


def task_for(event_id: str, work: Mapping[str, str], **context: int) -> Effect:
    """Return the task for a piece of work, named after event and work but not context: once a change and page."""
    name = name_of("links", event_id, *sorted(work.items()))
    return Effect(name, QUEUE, "link_refresh", "refresh", {"event": event_id, "work": dict(work), **context})
