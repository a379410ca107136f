"""Planted faults of calls: those that kill, that follow on others; state and limits (obj-7, 9, 10, 12, 15, 16)."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import SimpleNamespace
from typing import Any

from shared.core.operations.mailbox import Mailbox
from shared.core.operations.ports import Ports
from shared.core.rules.mailbox import Waiting
from shared.core.rules.problems import Problem
from shared.objects.operations import runs
from shared.objects.rules import classes
from shared.objects.rules.classes import ObjectClass
from shared.objects.rules.marks import Mark
from shared.objects.rules.messages import CallRecord, Message
from shared.objects.rules.turns import Turn
from tests.simulation import objects_world
from tests.simulation.faults_objects_planting import in_objects
from tests.simulation.objects_class import Version

mark_next, follow, end, page_of, refused = Mark.next, Turn._follow, Turn._end, runs._page, Turn._refused


def _never_marked(_: Ports, __: runs.Run, ___: Mailbox, message: Waiting) -> Waiting:
    return message


def _marked_by_deliveries(_: Ports, delivery: runs.Run, __: Mailbox, message: Waiting) -> Waiting | None:
    return None if delivery.deliveries > 7 else message


def _not_owned(self: Mark, run: str, now: datetime) -> Mark:
    return mark_next(replace(self, until=None), run, now)


def _whole_page(mailbox: Mailbox, *, careful: bool) -> tuple[Waiting, ...]:
    """A careful run marks the first call, and applies all."""
    return page_of(mailbox, careful=False)


def _not_checked(*_: Any) -> None:
    """A run meets the newer state in its method: the start counts."""


def _dropped(self: Turn, target: str, continuation: Any) -> None:
    """A continuation that comes before the outcome is not kept with the call."""
    call = self.calls.get(target)
    if call is None or not call.is_pending:
        follow(self, target, continuation)


def _forgotten(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    end(self, id_, since, replace(call, held=()))


def _at_the_end(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    """What was held waits again as if it had come now."""
    end(self, id_, self.now, call)


def _at_once(self: Turn, id_: str, since: datetime, call: CallRecord) -> None:
    """What was held waits again since one moment."""
    end(self, id_, since, call)
    self.resumed |= dict.fromkeys(call.held, since)


def _never_cut(self: Turn) -> bool:
    return False


def _any_version(*_: Any) -> None:
    """A newer state is read as if it were of this version."""


read_once = cache(json.loads)
"""Reads a state's text once: a method goes on with what another call, or a turn that lost its guard, made of it."""


def _with_nothing_read(seed: int) -> None:
    read_once.cache_clear()
    objects_world.run(seed)


def _whenever(self: Turn, message: Message, *, gave_up: bool) -> Problem | None:
    return refused(self, replace(message, not_after=None), gave_up=gave_up)


FAULTS = (
    in_objects("obj-7", "marks", runs, "_marked", _never_marked),
    in_objects("obj-7", "marks on the call, not on the run", runs, "_marked", _marked_by_deliveries),
    in_objects("obj-7", "a mark's owner", Mark, "next", _not_owned),
    in_objects("obj-7", "one call at a time", runs, "_page", _whole_page),
    in_objects("obj-9", "keeping a continuation with its call", Turn, "_follow", _dropped),
    in_objects("obj-10", "keeping calls on a result", Turn, "_end", _forgotten),
    in_objects("obj-10", "the place of calls on a result", Turn, "_end", _at_the_end),
    in_objects("obj-10", "the order of calls that wait again", Turn, "_end", _at_once),
    in_objects("obj-10", "ending a turn with what others waited for", Turn, "_is_cut", _never_cut),
    in_objects("obj-12", "leaving newer state alone", ObjectClass, "_check_version", _any_version),
    in_objects("obj-12", "a look at the version before a start counts", Version, "check", _not_checked),
    replace(
        in_objects(
            "obj-15",
            "the state's text at the beginning of each call",
            classes,
            "json",
            SimpleNamespace(loads=read_once, dumps=json.dumps),
        ),
        run=_with_nothing_read,
    ),
    in_objects("obj-16", "the limit in time", Turn, "_refused", _whenever),
)
