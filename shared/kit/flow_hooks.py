"""What the rest of the kit does in a flow's code. The first flow that is registered sets it: nothing is loaded before.

In the code of a flow, a call of a task or of an object's method is a command, to be yielded.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from shared.core.rules.effects import Json

if TYPE_CHECKING:
    from shared.objects.rules.addresses import ObjectAddress

ObjectCommand = Callable[["ObjectAddress", str, Mapping[str, Json]], Any]
"""Return the command that calls a method of an object, or None where no flow runs."""


def _no_command(_: "ObjectAddress", __: str, ___: Mapping[str, Json]) -> Any:
    return None


def _no_note(_: object, __: str) -> None:
    return None


object_command: ObjectCommand = _no_command
note_made: Callable[[object, str], None] = _no_note
"""Note that a command was made, where a flow runs: one that is neither yielded nor sent is refused."""


def install(command: ObjectCommand, note: Callable[[object, str], None]) -> None:
    """Use these from now on."""
    global object_command, note_made
    object_command, note_made = command, note
