"""Show what a stack is doing (`make status`) or what it logged (`make logs`): here, or with a project in the cloud.

Exit status 1: there is no stack, or it cannot be reached.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from signalbox.catalogue.project import Project
from signalbox_infra.deploy import target
from signalbox_infra.deploy.commands import CommandFailed
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.local.logs.terminal import Terminal
from signalbox_infra.status import local
from signalbox_infra.status.cloud import CloudSource
from signalbox_infra.status.local import LocalSource
from signalbox_infra.status.report import Source, lines_of

NAME_WIDTH = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    console = Console(highlight=False, markup=False, emoji=False)
    try:
        _logs(options, console) if options.goal == "logs" else _status(_source(options), console)
    except (NoStack, CommandFailed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m signalbox_infra.status", description=__doc__)
    parser.add_argument("goal", choices=("status", "logs"))
    parser.add_argument("--project", default="", help="a Google Cloud project; without it, the stack of this clone")
    parser.add_argument("--environment", default="dev", help="a file of infra/environments, without .tfvars")
    parser.add_argument("--region", default="", help="default: the environment's, else us-central1")
    parser.add_argument("--lines", type=int, default=100, help="how many log lines")
    parser.add_argument("--follow", action="store_true", help="keep printing new lines (local only)")
    parser.add_argument("--json", action="store_true", help="log lines as they were written")
    return parser


def _source(options: argparse.Namespace) -> Source:
    return _cloud(options) if options.project else LocalSource(RunningStack.of(Project.find().state))


def _cloud(options: argparse.Namespace) -> CloudSource:
    return CloudSource(target.read(options.project, options.environment, options.region))


def _status(source: Source, console: Console) -> None:
    for line in lines_of(source):
        console.print(
            Text(f"{line.name:{NAME_WIDTH}} {line.text}", style="" if line.well else "bold red"), soft_wrap=True
        )
    Terminal(console).show(("", json.dumps(shortened(entry), default=str)) for entry in source.errors())


def shortened(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a log entry with the last line of its traceback; `make logs` shows the rest."""
    lines = str(entry.get("exception", "")).strip().splitlines()
    return {**entry, **({"exception": "", "error": lines[-1]} if lines else {})}


def _logs(options: argparse.Namespace, console: Console) -> None:
    terminal = Terminal(console, machine=options.json)
    if options.project:
        terminal.show(("", json.dumps(entry)) for entry in _cloud(options).log("", options.lines))
        return
    log = RunningStack.of(Project.find().state).functions_log
    terminal.show(local.last_lines(log, options.lines))
    if options.follow:
        local.follow(log, terminal.show)


if __name__ == "__main__":
    sys.exit(main())
