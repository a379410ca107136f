"""Tasks for `links.follow`: one a page of the documents that must follow a change, or one a document."""

from collections.abc import Mapping

from shared.core.operations.ports import Ports
from shared.core.rules.effects import Effect, name_of

QUEUE = "links"


def hand_on(ports: Ports, event_id: str, work: Mapping[str, str], **beside: int) -> None:
    """Enqueue work for `follow`."""
    ports.queue.create([task_of(event_id, work, **beside)])


def task_of(event_id: str, work: Mapping[str, str], **beside: int) -> Effect:
    """Make a task for `follow`, named after the event and the work, not what is said beside: once a change or page."""
    name = name_of("links", event_id, *sorted(work.items()))
    return Effect(name, QUEUE, "link_refresh", "follow", {"event": event_id, "work": dict(work), **beside})
