"""Ask for the address that receives the alerts, if none is set. The answer is written into the environment's file.

A "no" is written too, as `alert_email = null`, and ends the question; the plan continues to warn. With a confirmation
in advance, or without a terminal, it neither asks nor writes.
"""

import os
import re
from collections.abc import Callable

from signalbox_tools.deploy.confirmation import Aborted, Agree
from signalbox_tools.deploy.deployment_target import Target

SETTING = "alert_email"
QUESTION = "Who receives its alerts? [an e-mail address; empty: no address yet; no: none, do not ask again] "
ADDRESS = re.compile(r'[^@\s"\\$%]+@[^@\s"\\$%]+\.[^@\s"\\$%]+')
"""The check of infra/variables.tf, without the characters that a Terraform string would have to escape."""
NOT_ASKED = ("", "y", "yes")
DECLINED = ("n", "no")
COMMENTED = re.compile(rf"^#\s*{SETTING}\s*=.*\n?", re.MULTILINE)


def offer(target: Target, say: Callable[[str], None], agree: Agree) -> None:
    """Write the address, if none is set and one is given. Raises `Aborted` if the answer is not an address."""
    if SETTING in (target.settings or {}) or os.environ.get(f"TF_VAR_{SETTING}"):
        return
    answer = agree(QUESTION).strip()
    if answer.lower() in NOT_ASKED:
        return
    if answer.lower() in DECLINED:
        _write(target, say, "null")
    elif ADDRESS.fullmatch(answer):
        _write(target, say, f'"{answer}"')
    else:
        raise Aborted(f"{answer!r} is not an e-mail address. Run the command again: it continues from what exists.")


def _write(target: Target, say: Callable[[str], None], value: str) -> None:
    """Set the variable in the environment's file, in place of the comment that mentions it."""
    file = target.folder.environments / f"{target.environment}.tfvars"
    kept = COMMENTED.sub("", target.variables.read_text("utf-8"))
    line = f"{SETTING} = {value}"
    file.parent.mkdir(exist_ok=True)
    (newer := file.with_suffix(".new")).write_text(f"{kept.rstrip()}\n{line}\n", "utf-8")
    newer.replace(file)
    say(f"Written into {file.relative_to(target.root)}: {line}. Commit it.")
