"""The tasks of rates in the `admit` queue. They are safe to deliver twice."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from signalbox.core.kit_names import RATE_DROP
from signalbox.core.ports import Ports
from signalbox.rates import service
from signalbox.rates.machine import ADMIT


def _admit(ports: Ports, payload: Mapping[str, Any]) -> None:
    service.admit(ports, payload["rate"], datetime.fromisoformat(payload["at"]))


def _drop(ports: Ports, payload: Mapping[str, Any]) -> None:
    service.drop_waits(ports, payload["rate"], payload["batch"])


TASKS: Mapping[str, Callable[[Ports, Mapping[str, Any]], None]] = {ADMIT: _admit, RATE_DROP: _drop}
