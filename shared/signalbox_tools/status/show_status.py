"""Show the status or the log of a stack, on this machine or in the cloud."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.text import Text

from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.logs.rendered_lines import Terminal
from signalbox_tools.status import local_status
from signalbox_tools.status.cloud_status import CloudSource
from signalbox_tools.status.status_lines import Source, lines_of
from signalbox_tools.terminal_text import visible

NAME_WIDTH = 20


def show_status(source: Source, console: Console) -> None:
    """Print the lines of a status, with failures in red, and the last errors."""
    for line in lines_of(source):
        console.print(
            Text(visible(f"{line.name:{NAME_WIDTH}} {line.text}"), style="" if line.well else "bold red"),
            soft_wrap=True,
        )
    Terminal(console).show(("", json.dumps(shortened(entry), default=str)) for entry in source.errors())


def status_json(source: Source) -> str:
    """Return the status as JSON: ``{"status": [{name, text, well}], "errors": […]}``."""
    lines = [asdict(line) for line in lines_of(source)]
    return json.dumps({"status": lines, "errors": list(source.errors())}, default=str, indent=2)


def shortened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a log entry with the last line of its traceback; `signalbox logs` shows the rest."""
    lines = str(entry.get("exception", "")).strip().splitlines()
    return {**entry, "exception": "", "error": lines[-1]} if lines else dict(entry)


def show_logs(source: CloudSource | RunningStack, terminal: Terminal, count: int, *, follow: bool) -> None:
    """Print the last `count` log lines; `follow` then prints a local stack's new lines until it ends."""
    if isinstance(source, CloudSource):
        terminal.show(("", json.dumps(entry)) for entry in source.log("", count))
        return
    terminal.show(local_status.last_lines(source.functions_log, count, terminal.shows))
    if follow:
        local_status.follow(source.functions_log, terminal.show)
