"""Planted faults that a model of the page of large values notices: what is stored, and what callers are shown."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from signalbox.core.json_values import json_text
from signalbox.core.limits import LIMITS
from signalbox.payloads.model import Outgoing, Place, content_of, escaped, payload_in, shown, unescaped
from tests.simulation.faults.fault import Fault
from tests.simulation.faults.points import always
from tests.simulation.worlds.asked_payloads import compared


def _noticed(clause: str, without: str, point: str, instead: Any) -> Fault:
    return Fault(clause, without, always((point, instead)), compared.run)


def _smallest_first(
    outgoing: Outgoing, members: Mapping[str, Any], place: Place, bytes_max: int | None = None
) -> dict[str, Any]:
    room_bytes = LIMITS.task_bytes_max if bytes_max is None else bytes_max
    stored = {name: escaped(value) for name, value in members.items()}
    for name in sorted(members, key=lambda name: len(json_text(members[name]))):
        if len(json_text(stored)) <= room_bytes:
            break
        stored[name] = outgoing.named(content_of(members[name]), place)
    return stored


def _unwrapped(stored: Any) -> Any:
    return shown(stored) if payload_in(stored) else unescaped(stored)


FAULTS = (
    _noticed("payload-13", "the measure that is shown", "payloads.json_text in model", json.dumps),
    _noticed("payload-13", "the largest first", "payloads.Outgoing.claimed_members", _smallest_first),
    _noticed("payload-14", "the wrapping of what is shown", "tasks.shown in failures", _unwrapped),
)
