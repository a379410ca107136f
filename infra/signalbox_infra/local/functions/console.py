"""The console of the local stack: its pages, the numbers of tasks in its queues, and its spans."""

import os
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from signalbox.adapters.settings import settings
from signalbox.catalogue.reading import Catalogue
from signalbox_infra.console.pages import Console
from signalbox_infra.local.functions import spans
from signalbox_infra.local.services.command_lines import stats
from signalbox_infra.status.report import Line, Queue, queue_line


def local_console(catalogue: Catalogue) -> Console:
    """Return the console of the functions that this process serves."""
    file = os.environ.get(spans.VARIABLE)
    reader = spans.SpanReader(Path(file)) if file else None
    return Console(catalogue, "This machine", queues, minutes=reader.minutes if reader else None, traces=reader)


def queues() -> Sequence[Line]:
    """Return a line for each queue, or none if the functions run without a stack, as in a test."""
    chosen = settings()
    if not chosen.tasks_emulator:
        return []
    place = urlsplit(chosen.keys_url)
    counted = stats(f"{place.scheme}://{place.netloc}") or {}
    named = ((name.rpartition("/")[2], counts) for name, counts in counted.items())
    return [queue_line(Queue(name, counts["waiting"], counts["running"])) for name, counts in named]
