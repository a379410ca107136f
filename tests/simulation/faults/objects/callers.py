"""Planted faults of callers that wait: kept wake-ups, turns of callers, what they are answered (obj-18)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from signalbox.core.effects import Effect
from signalbox.core.ports import AlreadyExists, Committed, Conflict, OutOfTime, Ports, Write
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import StoredMessage, message_path
from signalbox.mailboxes.storage import Mailbox
from signalbox.objects import service
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import KEPT_WAKE_UP, Message
from signalbox.objects.service import Code
from tests.simulation.faults.objects.planting import in_objects
from tests.simulation.faults.points import original

post_and_take_part = original("objects.post_and_take_part")
committed_turn = original("objects.committed")


def _kept_in_memory(ports: Ports, writes: Sequence[Write], _: Effect, __: str) -> Committed:
    """Only the process that waits has the wake-up."""
    return ports.store.commit(writes)


def _also_as_a_repeat(
    ports: Ports,
    code: Code,
    address: ObjectAddress,
    calls: Mapping[str, Message],
    out_of_time: OutOfTime,
    **others: Any,
) -> Any:
    """A repeat takes part as its first process did."""
    try:
        return post_and_take_part(ports, code, address, calls, out_of_time, **others)
    except AlreadyExists:
        for record in ports.store.read(*(message_path(address.base, id_) for id_ in calls)):
            if record.data and (kept := record.data.get(KEPT_WAKE_UP)):
                service._turn_of_callers(ports, code, address, calls, kept, out_of_time)
        raise


def _answered_before_it_lands(
    ports: Ports,
    code: Code,
    address: ObjectAddress,
    mailbox: Mailbox,
    page: tuple[StoredMessage, ...],
    out_of_time: OutOfTime,
    **others: Any,
) -> tuple[Turn, bool]:
    """The outcomes of a turn are taken for those of the calls, although another turn was faster."""
    try:
        return committed_turn(ports, code, address, mailbox, page, out_of_time, **others)
    except Conflict:
        turn = service.begin_turn(ports, address, mailbox, page)
        service.take_all(turn, [(message.id, message.since) for message in page], code.apply, out_of_time)
        return turn, False


FAULTS = (
    in_objects("obj-18", "a kept wake-up in the outbox", "core.keep", _kept_in_memory),
    in_objects("obj-18", "leaving a repeated call to others", "objects.post_and_take_part", _also_as_a_repeat),
    in_objects("obj-18", "an answer from a commit that succeeded", "objects.committed", _answered_before_it_lands),
)
