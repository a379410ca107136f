"""Kill a service of a running stack."""

from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually


def kill(stack: Stack, part: str, seconds_max: float = 60) -> None:
    """Kill a service, and wait until it is restarted."""
    killed = stack.pid(part)
    stack.kill(part)
    eventually(lambda: stack.pid(part) not in (None, killed) and stack.is_up(part), seconds_max)
