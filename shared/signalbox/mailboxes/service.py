"""Post a message, and run a mailbox: the loop that objects and flows share (`machine.py` has its table).

    read the mailbox ──► turn: apply messages in memory, commit under the header's guard ──► enqueue tasks
          ▲                          │ lost the race: another run was faster
          └──────────────────────────┘

After `rounds_max` lost races the run ends, and the queue delivers its wake-up again.
"""

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.idempotency_keys import has_leases
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.perform import pause
from signalbox.core.ports import AlreadyExists, Conflict, Ports, Put, Snapshot
from signalbox.core.problems import Contended, OtherBody, Unavailable
from signalbox.core.wake_ups import WakeUp, complete_wake_ups
from signalbox.mailboxes.limits import LIMITS
from signalbox.mailboxes.machine import has_read
from signalbox.mailboxes.model.messages import Delivery
from signalbox.mailboxes.storage import Mailbox, read_mailbox, revision_of, waits
from signalbox.payloads.model import MEMBER, without_keys

Turn = Callable[[Mailbox], bool]
"""Commit one turn on a mailbox that was just read; return whether this run has more to do. Raises `Conflict` if another
process was faster, and `Unavailable`."""


# --- runs ---


def run(
    ports: Ports,
    delivery: Delivery,
    next_wake: Effect,
    turn: Turn,
    has_work: Callable[[Snapshot], bool] = lambda _: False,
) -> None:
    """Apply the messages that are due. Raises `Unavailable` if the wake-up must be delivered again.

    `next_wake` is enqueued if the wake-up was cut short: the same wake-up, for the same time. `has_work` returns
    whether the header has work to do although a turn has read all messages.
    """
    wake, lost = delivery.wake, 0
    while lost < CORE_LIMITS.rounds_max:
        mailbox = read_mailbox(ports.store, wake.mailbox, LIMITS.mailbox_page)
        check_due(wake, mailbox)
        try:
            over = is_over(wake, mailbox.header) and not has_work(mailbox.header)
            if over or not turn(mailbox):
                return wake_again(ports, next_wake, wake, mailbox)
        except Conflict:
            pause(ports, lost)
            lost += 1
    raise Contended(f"{wake.mailbox} is being changed by too many processes at once")


def check_due(wake: WakeUp, mailbox: Mailbox) -> None:
    """Raise `Unavailable` for a wake-up that arrives early: a run now would miss messages of its slot."""
    if mailbox.read_time < wake.at:
        raise Unavailable("woken before its time")


def is_over(wake: WakeUp, header: Snapshot) -> bool:
    """Return whether a turn has read after the slot of a wake-up, so that waiting messages have their own wake-up."""
    if not wake.of_slot or header.create_time == header.update_time:
        return False
    return has_read(revision_of(header), wake.at + timedelta(seconds=CORE_LIMITS.wake_up_margin_seconds))


def wake_again(ports: Ports, next_wake: Effect, wake: WakeUp, mailbox: Mailbox) -> None:
    """Enqueue the next wake-up if this wake-up was for a time too far ahead for the queue."""
    if wake.until > wake.at:
        ports.queue.create(complete_wake_ups([next_wake], mailbox.read_time))


# --- posts ---


def post(ports: Ports, message: Put, wake: Effect) -> Snapshot | None:
    """Commit a message together with its wake-up. A repeat sends another wake-up, and returns the stored message.

    Raises `OtherBody` if the id is in use by a message with another body, `Unavailable` if the outcome is unknown.
    """
    try:
        outbox.commit(ports, [message], [wake])
    except AlreadyExists:
        [stored] = ports.store.read(message.path)
        check_same_body(stored, message.data)
        if waits(stored):
            ports.queue.create(complete_wake_ups([wake], stored.read_time))
        return stored
    return None


def check_same_body(stored: Snapshot, data: Mapping[str, Any]) -> None:
    """Raise `OtherBody` if a message's record has another body than the given one.

    A body with values of the running task's leases is not compared, since it differs in each delivery of the task.
    """
    if stored.data is not None and not is_same_body(stored.data["body"], data["body"]) and not has_leases(data["body"]):
        raise OtherBody("This id was used for another call: choose another id.", field="id")


def is_same_body(stored: str, body: str) -> bool:
    """Return whether two bodies are the same, although large arguments were stored for each of them."""
    return stored == body or (MEMBER in stored and MEMBER in body and _contents(stored) == _contents(body))


def _contents(text: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(text)
    return {**body, "arguments": without_keys(body.get("arguments", {}))}
