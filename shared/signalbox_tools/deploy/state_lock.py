"""Release the lock that a killed command left on a state.

Terraform has no command that shows a lock. So a command that takes the lock and changes nothing is run (it untaints a
resource that does not exist): if the state is locked, it fails and prints the lock's owner.
"""

import re
from collections.abc import Callable, Mapping

from signalbox_tools.deploy.confirmation import Agree, agreed
from signalbox_tools.deploy.terraform import Terraform

FIELD = re.compile(r"^\s*(ID|Operation|Who|Created):\s*(.+?)\s*$", re.MULTILINE)


def release(engine: Terraform, name: str, say: Callable[[str], None], agree: Agree) -> None:
    """Show the lock's owner, and release the lock after a confirmation. Raises `Aborted` and `CommandFailed`."""
    held = described(engine.lock_refusal())
    if not held:
        say(f"The lock of {name} is free.")
        return
    say(f"{held['Who']} holds the lock of {name} since {held['Created']} ({held['Operation']}).")
    agreed(agree, "Has that command ended? Then the lock can be released. Release it?")
    engine.unlock(held["ID"])
    say("Released. `signalbox adopt` takes up what the killed command made and did not save; then deploy again.")


def described(printed: str) -> Mapping[str, str]:
    """Return the fields of the lock that Terraform printed; empty if it printed none."""
    return dict(FIELD.findall(re.sub(r"^[│╷╵] ?", "", printed, flags=re.MULTILINE)))
