"""Run the job: on a local stack (`make demo`), or against functions that are deployed (`--base-url`).

The exit code is 0 only if every check held; it is 1 if one did not, or if the service did not answer, and 2 for a wrong
call.
"""

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from examples.gazetteer import report, sites
from examples.gazetteer.data import CREDIT, gazetteer
from examples.gazetteer.job import Job, OnProgress, Result, Site
from examples.gazetteer.steps import plan, removal
from signalbox.client import ApiError, Client

CITIES_DEFAULT = "3000"

Steps = Callable[[argparse.Namespace, Client, Site, OnProgress, Console], Iterable[Result]]
"""Runs steps with a client at a site, and yields their results."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job and return the exit code."""
    return run_command(_job, _parser(), arguments)


def _job(
    options: argparse.Namespace, client: Client, site: Site, on_progress: OnProgress, _: Console
) -> Iterable[Result]:
    documents = gazetteer(options.cities)
    return Job(client, site, on_progress).run([removal(documents)] if options.remove else plan(documents))


def run_command(steps: Steps, parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> int:
    """Run steps where the options say, print their results, and return the exit code."""
    options = with_options(parser).parse_args(arguments)
    console = report.console()
    console.print(CREDIT)
    try:
        results = _remotely(steps, options, console) if options.base_url else _locally(steps, options, console)
    except (ApiError, sites.CannotRun) as error:
        console.print(
            f"[red]FAILED[/red] {escape(str(error))}", *getattr(error, "__notes__", ()), sep="\n", soft_wrap=True
        )
        return 1
    except KeyboardInterrupt:
        return 130
    return _concluded(results, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m examples.gazetteer", description=__doc__)
    parser.add_argument("--remove", action="store_true", help="delete the documents that an earlier run has left there")
    return parser


def with_options(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options of every command: where, as whom, how many."""
    parser.add_argument("--base-url", default="", help="where the functions are; without it, a local stack is started")
    parser.add_argument("--token", default="", help="an identity token (gcloud auth print-identity-token)")
    parser.add_argument(
        "--cities",
        type=_cities,
        default=os.environ.get("CITIES") or CITIES_DEFAULT,
        help="how many, the most populous first, or all (or set CITIES)",
    )
    return parser


def _cities(text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: pass a number of cities from 1, or all")
    return int(text)


def _remotely(steps: Steps, options: argparse.Namespace, console: Console) -> list[Result]:
    base_url = options.base_url if options.base_url.endswith(("/", "-")) else f"{options.base_url}/"
    return _run(steps, base_url, options, sites.RemoteSite(), console)


def _locally(steps: Steps, options: argparse.Namespace, console: Console) -> list[Result]:
    folder = Path(tempfile.mkdtemp(prefix="signalbox-demo-"))
    with sites.local_stack(folder) as stack:
        console.print(
            f"Local stack at {stack.base_url} on the {stack.store} store; logs, kept if a check fails: {folder}"
        )
        results = _run(steps, stack.base_url, options, sites.LocalSite(stack), console)
    if not report.faults(results):
        shutil.rmtree(folder, ignore_errors=True)
    return results


def _run(steps: Steps, base_url: str, options: argparse.Namespace, site: Site, console: Console) -> list[Result]:
    results = []
    token = (lambda _: str(options.token)) if options.token else None
    with Client(base_url, token=token) as client, report.progress_bars(console) as on_progress:
        for result in steps(options, client, site, on_progress, console):
            console.print(report.line(result), soft_wrap=True)
            results.append(result)
    return results


def _concluded(results: Sequence[Result], console: Console) -> int:
    console.print(report.table(results))
    faults = report.faults(results)
    for fault in faults:
        console.print(f"[red]FAILED[/red] {escape(fault)}", soft_wrap=True)
    if not faults:
        checks = sum(len(result.checks) for result in results)
        console.print(f"[green]All {checks:,} checks hold.[/green]")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
