"""Ask for the address that receives the alerts, if none is set. The answer is written into the environment's file.

A "no" is also written, as `null`, and ends the question; the plan continues to warn. With a confirmation in advance, or
without a terminal, it neither asks nor writes.
"""

import os
import re
from collections.abc import Callable

from signalbox_tools.deploy.confirmation import Aborted, Agree
from signalbox_tools.deploy.deployment_target import Target

SETTING = "alert_email"
QUESTION = "Who receives its alerts? [an e-mail address; empty: no address yet; no: none, do not ask again] "
ADDRESS = re.compile(r'[^@\s"\\$%]+@[^@\s"\\$%]+\.[^@\s"\\$%]+')
"""The check of infra/variables.tf without the characters that are probably mistakes: quotes, ``$`` and ``%``."""
NOT_ASKED = ("", "y", "yes")
DECLINED = ("n", "no")


def offer(target: Target, say: Callable[[str], None], agree: Agree) -> None:
    """Write the address for alerts, if none is set and the answer has one.

    Raises `Aborted` if the answer is not an address.
    """
    if SETTING in (target.settings or {}) or os.environ.get(f"TF_VAR_{SETTING}"):
        return
    answer = agree(QUESTION).strip()
    if answer.lower() in NOT_ASKED:
        return
    if answer.lower() in DECLINED:
        say(target.keep(SETTING, None))
    elif ADDRESS.fullmatch(answer):
        say(target.keep(SETTING, answer))
    else:
        raise Aborted(f"{answer!r} is not an e-mail address. Run the command again: it continues from what exists.")
