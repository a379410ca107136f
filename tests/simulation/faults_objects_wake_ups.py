"""Planted faults of wake-ups and runs: who wakes, when, under which name (obj-5, 6, 11, 13)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from shared.core.operations import mailbox, outbox
from shared.core.operations.mailbox import Mailbox
from shared.core.operations.ports import AlreadyExists, Ports, Put, Snapshot
from shared.core.rules import wake_ups
from shared.core.rules.effects import Effect, name_of
from shared.core.rules.mailbox import Waiting, has_read
from shared.core.rules.problems import Unavailable
from shared.core.rules.wake_ups import WakeUp, completed
from shared.objects.operations import calls, records, runs
from shared.objects.rules.turns import Turn
from tests.simulation.faults_objects_planting import in_objects

effects_of, complete, commit, run = records.effects_of, wake_ups._completed, outbox.commit, runs.run
post, is_over = mailbox.post, mailbox.is_over


def _posted_without_outbox(ports: Ports, message: Put, wake: Effect) -> Any:
    try:
        committed = ports.store.commit([message])
    except AlreadyExists:
        return post(ports, message, wake)
    return ports.queue.create(completed([wake], committed.commit_time))


def _slot_before_commit(ports: Ports, writes: Any, effects: Sequence[Effect] = ()) -> Any:
    """Wake-ups are named by the time at which the commit was begun."""
    if not any(effect.wakes for effect in effects):
        return commit(ports, writes, effects)
    now = ports.store.read("clock/now")[0].read_time
    return commit(ports, writes, completed(effects, now))


def _not_checked(_: WakeUp, __: Mailbox) -> None:
    """An early run is taken for one that is done."""


def _committed_since(wake: WakeUp, header: Snapshot) -> bool:
    """A turn that has committed behind a wake-up's time, whenever it read, does for it."""
    return wake.of_slot and header.update_time is not None and header.update_time >= wake.at


def _read_since(wake: WakeUp, header: Snapshot) -> bool:
    """The turn that made the header does, too."""
    return wake.of_slot and has_read(mailbox.revision_of(header), wake.at)


def _of_any_time(wake: WakeUp, header: Snapshot) -> bool:
    """A wake-up for later is over, too."""
    return is_over(replace(wake, of_slot=True), header)


def _asks_for_no_more(turn: Turn, function_of: Any, function: str, *, more: bool) -> list[Effect]:
    return effects_of(turn, function_of, function, more=False)


def _not_again(*_: Any) -> None:
    """A wake-up that was armed for as late as the queue allows is the last one."""


def _named_by_its_end(effect: Effect, committed_at: datetime) -> Effect:
    """All wake-ups on the way to a time have that time in their name."""
    done = complete(effect, committed_at)
    return replace(done, name=name_of(effect.name, done.payload["until"]))


def _always_due(page: Any, _: datetime) -> list[Waiting]:
    return sorted(page, key=lambda each: each.place)


def _permanent(ports: Ports, code: Any, delivery: runs.Run, budget: Any) -> None:
    """Whatever a run meets is a definite no."""
    with suppress(Unavailable):
        run(ports, code, delivery, budget)


FAULTS = (
    in_objects("obj-5", "the wake-up in the outbox", calls, "post", _posted_without_outbox),
    in_objects("obj-5", "the slot of the commit", outbox, "commit", _slot_before_commit),
    in_objects("obj-5", "a run that comes early comes again", runs, "check_due", _not_checked),
    in_objects("obj-6", "asking for another run", runs, "effects_of", _asks_for_no_more),
    in_objects("obj-6", "what another turn has read, not written", runs, "is_over", _committed_since),
    in_objects("obj-6", "only what landed before its time", runs, "is_over", _of_any_time),
    in_objects("obj-6", "no trust in the turn that made the header", runs, "is_over", _read_since),
    in_objects("obj-11", "waiting for the time", mailbox, "due_messages", _always_due),
    in_objects("obj-11", "waking again", runs, "_wake_again", _not_again),
    in_objects("obj-11", "the next time in the name", wake_ups, "_completed", _named_by_its_end),
    in_objects("obj-13", "no definite no", runs, "run", _permanent),
)
