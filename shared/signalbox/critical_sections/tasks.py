"""The kit's own task of critical sections, delivered by the `admit` queue."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from signalbox.core.ports import Ports
from signalbox.critical_sections import service


def wake(ports: Ports, payload: Mapping[str, Any]) -> None:
    service.wake(ports, payload["key"], datetime.fromisoformat(payload["at"]))


TASKS: Mapping[str, Callable[[Ports, Mapping[str, Any]], None]] = {"wake": wake}
