"""What the commands that change or test a deployment do: `deploy`, `plan`, `smoke`, `adopt`, `destroy` …"""

import os
import sys
from collections.abc import Callable

from signalbox_tools.deploy.deployment_steps import Flow
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import run
from signalbox_tools.deploy.rollback_and_restore import Recovery

RECOVERY = ("rollback", "restore")
GOALS = ("deploy", "plan", "smoke", "adopt", "unlock", "destroy", "bootstrap", *RECOVERY)


def reach(goal: str, place: Target, planned: bool, answer: str) -> bool:
    """Run the command and return whether it succeeded; `planned` applies the plan that `plan` saved.

    `answer` answers every question in advance; if it is empty, questions are asked at the terminal. Raises `Aborted`,
    `CommandFailed` and `CatalogueError`. ``SIGNALBOX_BASE_URL`` sends the smoke test to another address.
    """
    agree = _typed(answer)
    flow = Flow(place, _say, agree, base_url=os.environ.get("SIGNALBOX_BASE_URL", ""))
    if goal == "deploy":
        return flow.deploy(planned)
    steps = Recovery(place, _say, agree, run) if goal in RECOVERY else flow
    done: Callable[[], object] = getattr(steps, goal)
    return done() is not False


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
