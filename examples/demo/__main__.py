"""Run all six stages on a local stack (`make demo`), or against functions that are deployed (`--base-url`).

The exit code is 0 only if every check held; it is 1 if one did not, or if the service did not answer, and 2 for a wrong
call.
"""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console

from examples.demo.stages import stages
from examples.gazetteer.__main__ import run_command
from examples.gazetteer.data import gazetteer
from examples.gazetteer.job import OnProgress, Result, Site
from signalbox.client import Client


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and return the exit code."""
    return run_command(_demo, argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__), arguments)


def _demo(
    options: argparse.Namespace, client: Client, site: Site, on_progress: OnProgress, console: Console
) -> Iterator[Result]:
    run_id = secrets.token_hex(4)
    for number, stage in enumerate(stages(gazetteer(options.cities), run_id), 1):
        console.print(f"[bold]{number}. {stage.name}[/bold]: {stage.summary}", soft_wrap=True)
        yield from stage.run(client, site, on_progress)


if __name__ == "__main__":
    sys.exit(main())
