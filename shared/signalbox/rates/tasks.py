"""The task of rates in the `admit` queue. It is safe to deliver twice."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from signalbox.core.ports import Ports
from signalbox.rates import service
from signalbox.rates.machine import ADMIT


def _admit(ports: Ports, payload: Mapping[str, Any]) -> None:
    service.admit(ports, payload["rate"], datetime.fromisoformat(payload["at"]))


TASKS: Mapping[str, Callable[[Ports, Mapping[str, Any]], None]] = {ADMIT: _admit}
