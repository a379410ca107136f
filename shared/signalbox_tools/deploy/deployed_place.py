"""The place of a deployment: its region and the prefix of its names. It cannot be changed.

Another region or prefix would replace every function and queue, and abandon the tasks in the queues. So a deployment
writes its region into the environment's file, which has the prefix already, and Terraform's state has both as outputs.
A command with another one is refused before it plans.
"""

from collections.abc import Callable, Mapping
from typing import Any

from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_target import Target

REGION, PREFIX = "region", "prefix"
LOST = "every function and queue would be replaced, and the tasks that wait would be lost."
MOVE = (
    "To move it, deploy a second environment with another prefix, and destroy this one when its queues are empty "
    "(docs/region-outage.md)."
)


def other_region(target: Target, deployed: str) -> tuple[str, str]:
    """Describe a command that names another region than the deployed one, and return the remedy."""
    where = f"{target.environment} of {target.project} is deployed in {deployed}, not in {target.region}"
    run = f"Run the command with --region {deployed} (make: REGION={deployed})"
    return f"{where}: {LOST}", f'{run}, or set "region": "{deployed}" in {target.own_file}. {MOVE}'


def other_prefix(target: Target, deployed: str) -> tuple[str, str]:
    """Describe a file that has another prefix than the deployed one, and return the remedy."""
    prefix = target.setting(PREFIX, "")
    where = f"{target.environment} of {target.project} is deployed with the prefix {deployed!r}, not {prefix!r}"
    return f"{where}: {LOST}", f'Set "prefix": "{deployed}" in {target.own_file}. {MOVE}'


def check(target: Target, outputs: Mapping[str, Any]) -> None:
    """Raise `Aborted` if the state has another region or prefix. A state without a deployment has neither."""
    region, prefix = outputs.get(REGION), outputs.get(PREFIX)
    wrong = []
    if region not in (None, target.region):
        wrong.append(other_region(target, region))
    if prefix not in (None, target.setting(PREFIX, "")):
        wrong.append(other_prefix(target, prefix))
    if wrong:
        raise Aborted("\n".join(["Nothing was changed.", *(f"  - {what}\n      {remedy}" for what, remedy in wrong)]))


def keep(target: Target, say: Callable[[str], None]) -> None:
    """Write the region into the environment's file, if it has none."""
    if not (target.settings or {}).get(REGION):
        say(target.keep(REGION, target.region))
