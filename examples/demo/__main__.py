"""Run all five steps on a local stack (`make demo`), or against functions that are deployed (`--base-url`).

The exit code is 0 only if every check held; 1 if one did not, or the service did not answer; 2 for a wrong call.
"""

import argparse
import secrets
import sys
from collections.abc import Iterator, Sequence

from rich.console import Console

from examples.demo.acts import acts
from examples.gazetteer.__main__ import perform
from examples.gazetteer.client import Documents
from examples.gazetteer.data import gazetteer
from examples.gazetteer.job import Result, Site, Watch


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo and give the exit code."""
    return perform(_demo, argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__), arguments)


def _demo(
    options: argparse.Namespace, client: Documents, site: Site, watch: Watch, console: Console
) -> Iterator[Result]:
    run = secrets.token_hex(4)
    for number, act in enumerate(acts(gazetteer(options.cities), run), 1):
        console.print(f"[bold]{number}. {act.name}[/bold]: {act.story}", soft_wrap=True)
        yield from act.play(client, site, watch)


if __name__ == "__main__":
    sys.exit(main())
