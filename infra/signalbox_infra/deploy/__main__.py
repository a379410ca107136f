"""Deploy Signalbox to a Google Cloud project: what `make deploy`, `plan`, `smoke`, `adopt`, `destroy` … run.

YES=1, or CI, confirms a plan in advance; CONFIRM=ENV confirms destroy (for prod: CONFIRM="prod PROJECT").
SIGNALBOX_BASE_URL sends the smoke test to another address. Exit status 1: something failed or was refused, as the
last lines say; 2: a wrong command line.
"""

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from signalbox.catalogue.entries import CatalogueError
from signalbox_infra.deploy import target
from signalbox_infra.deploy.agreement import Aborted
from signalbox_infra.deploy.commands import CommandFailed, run
from signalbox_infra.deploy.flow import Flow
from signalbox_infra.deploy.recovery import Recovery

RECOVERY = ("rollback", "restore")
GOALS = ("deploy", "plan", "smoke", "adopt", "unlock", "destroy", "bootstrap", *RECOVERY)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        return 0 if _do(options) else 1
    except (Aborted, CommandFailed, CatalogueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted. What was made is in the state: run the command again to continue.\n")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m signalbox_infra.deploy", description=__doc__)
    parser.add_argument("goal", choices=GOALS)
    parser.add_argument("--project", required=True, help="the Google Cloud project's id")
    parser.add_argument("--environment", default="dev", help="a file of infra/environments, without .tfvars")
    parser.add_argument("--region", default="", help="default: the environment's, else us-central1")
    parser.add_argument("--planned", action="store_true", help="apply the plan that `plan` kept")
    return parser


def _do(options: argparse.Namespace) -> bool:
    place = target.read(options.project, options.environment, options.region)
    agree = _typed(os.environ.get("CONFIRM", "") if options.goal == "destroy" else _agreed())
    flow = Flow(place, _say, agree, base_url=os.environ.get("SIGNALBOX_BASE_URL", ""))
    if options.goal == "deploy":
        return flow.deploy(options.planned)
    steps = Recovery(place, _say, agree, run) if options.goal in RECOVERY else flow
    goal: Callable[[], object] = getattr(steps, options.goal)
    return goal() is not False


def _agreed() -> str:
    return "yes" if os.environ.get("YES") == "1" or os.environ.get("CI") else ""


def _typed(beforehand: str) -> Callable[[str], str]:
    """Return the function that answers questions: from the advance confirmation, else from the terminal."""

    def answer(question: str) -> str:
        if beforehand or not sys.stdin.isatty():
            return beforehand
        return input(question)

    return answer


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
