"""What other subjects do inside the code of a flow: the call of a task or of an object's method is a command there.

Flows install these functions when the first flow is registered. Until then nothing of flows is loaded.
"""

from collections.abc import Callable, Mapping
from typing import Any

from signalbox.core.effects import Json

ObjectCommand = Callable[[Any, str, Mapping[str, Json]], Any]
"""Return the command that calls a method of the object at an address, or None if no flow runs."""


def _no_command(_: Any, __: str, ___: Mapping[str, Json]) -> Any:
    return None


def _no_note(_: object, __: str) -> None:
    return None


object_command: ObjectCommand = _no_command
note_created: Callable[[object, str], None] = _no_note
"""Record that a command was created, if a flow runs: one that is neither yielded nor sent is an error."""


def install(command: ObjectCommand, note: Callable[[object, str], None]) -> None:
    """Use these functions from now on."""
    global object_command, note_created
    object_command, note_created = command, note
