"""Planted faults of wake-ups and runs: their times, their names, the ends of runs (obj-5, 6, 11, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from signalbox.core.effects import Effect, name_of
from signalbox.core.ports import AlreadyExists, Ports, Put, Snapshot
from signalbox.core.problems import Unavailable
from signalbox.core.wake_ups import WakeUp, complete_wake_ups
from signalbox.mailboxes import service as mailboxes_service
from signalbox.mailboxes import storage as mailboxes_storage
from signalbox.mailboxes.machine import has_read
from signalbox.mailboxes.model.messages import Delivery, StoredMessage
from signalbox.mailboxes.storage import Mailbox
from signalbox.objects import storage
from signalbox.objects.machine.turns import Turn
from signalbox.objects.model import Post
from tests.simulation.faults.objects.planting import in_objects
from tests.simulation.faults.points import original

effects_of = storage.effects_of
complete = original("core.complete_wake_up")
commit = original("core.commit")
run = original("objects.run")
post_message = original("objects.Turn.post")
post = mailboxes_service.post
is_over = original("mailboxes.is_over")


def _posted_without_outbox(ports: Ports, message: Put, wake: Effect) -> Any:
    try:
        committed = ports.store.commit([message])
    except AlreadyExists:
        return post(ports, message, wake)
    return ports.queue.create(complete_wake_ups([wake], committed.commit_time))


def _slot_before_commit(ports: Ports, writes: Any, effects: Sequence[Effect] = ()) -> Any:
    """Wake-ups are named by the time at which the commit was begun."""
    if not any(effect.wakes for effect in effects):
        return commit(ports, writes, effects)
    now = ports.store.read("clock/now")[0].read_time
    return commit(ports, writes, complete_wake_ups(effects, now))


def _not_checked(_: WakeUp, __: Mailbox) -> None:
    """An early run is taken for a finished one."""


def _committed_since(wake: WakeUp, header: Snapshot) -> bool:
    """A turn that committed after a wake-up's time makes the wake-up unnecessary, whenever the turn read."""
    return wake.of_slot and header.update_time is not None and header.update_time >= wake.at


def _read_since(wake: WakeUp, header: Snapshot) -> bool:
    """So does the turn that created the header."""
    return wake.of_slot and has_read(mailboxes_storage.revision_of(header), wake.at)


def _of_any_time(wake: WakeUp, header: Snapshot) -> bool:
    """A wake-up for a later time is over, too."""
    return is_over(replace(wake, of_slot=True), header)


def _asks_for_no_more(turn: Turn, function_of: Any, function: str, *, more: bool) -> list[Effect]:
    return effects_of(turn, function_of, function, more=False)


def _wakes_for_now_only(turn: Turn, function_of: Any, function: str, *, more: bool) -> list[Effect]:
    """A delayed call that a method sends has no wake-up."""
    now = replace(turn, posted=[post for post in turn.posted if post.due_at is None])
    return effects_of(now, function_of, function, more=more)


def _posted_at_once(turn: Turn, post: Post) -> None:
    """A delayed call that a method sends has no time."""
    post_message(turn, replace(post, delay_seconds=0))


def _not_again(*_: Any) -> None:
    """A wake-up that is as late as the queue allows is the last one."""


def _named_by_its_end(effect: Effect, committed_at: datetime) -> Effect:
    """All wake-ups on the way to a time have that time in their name."""
    done = complete(effect, committed_at)
    return replace(done, name=name_of(effect.name, done.payload["until"]))


def _always_due(page: Any, _: datetime) -> list[StoredMessage]:
    return sorted(page, key=lambda message: message.place)


def _permanent(ports: Ports, code: Any, delivery: Delivery, budget: Any) -> None:
    """Every error of a run is permanent."""
    with suppress(Unavailable):
        run(ports, code, delivery, budget)


FAULTS = (
    in_objects("obj-17", "waking silent objects", "objects.sweep", lambda *_: 0),
    in_objects("obj-5", "the wake-up in the outbox", "objects.post", _posted_without_outbox),
    in_objects("obj-5", "the slot of the commit", "core.commit", _slot_before_commit),
    in_objects("obj-5", "a run that comes early comes again", "mailboxes.check_due", _not_checked),
    in_objects("obj-6", "asking for another run", "objects.effects_of", _asks_for_no_more),
    in_objects("obj-11", "the wake-up of a call that is sent for later", "objects.effects_of", _wakes_for_now_only),
    in_objects("obj-6", "what another turn has read, not written", "mailboxes.is_over", _committed_since),
    in_objects("obj-6", "only what landed before its time", "mailboxes.is_over", _of_any_time),
    in_objects("obj-6", "no trust in the turn that made the header", "mailboxes.is_over", _read_since),
    in_objects("obj-11", "the time of a call that is sent for later", "objects.Turn.post", _posted_at_once),
    in_objects("obj-11", "waiting for the time", "mailboxes.due_messages", _always_due),
    in_objects("obj-11", "waking again", "mailboxes.wake_again", _not_again),
    in_objects("obj-11", "the next time in the name", "core.complete_wake_up", _named_by_its_end),
    in_objects("obj-13", "no definite no", "objects.run", _permanent),
)
