"""The actions of callers in a world of objects, and the kinds of worlds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from random import Random

from signalbox.core.calls import Call
from signalbox.objects.model import (
    AT_ONCE,
    CallRecord,
    Kind,
    Message,
    Timing,
    call_on_result,
    continuation_message,
    deletion,
)
from signalbox.objects.model import method_call as call_of
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.objects.remembering_class import KEYS

LATER_SECONDS = (0.05, 0.7, 5.0)
OPENED_LATER_SECONDS = (0.3, 0.7, 2.0)
LIMITS_SECONDS = (0.05, 0.5, 5.0)
ACTS_MIN, ACTS_MIN_IN_ORDER, ACTS_MAX = 2, 4, 6
VARIED_SHARE = 0.4
WAITING_SHARE, WAITING_IN_OWN_SHARE, TOGETHER_SHARE = 0.5, 0.8, 0.6
LARGE_MAX, LARGE_BYTES = 6, (50, 300)
METHODS = ("pass_on", "open", "refuse")
KINDS = ("note", "note", "note", *METHODS, "then", "on_result", "same_id")


class Worlds(Enum):
    """The subject of most calls in a world."""

    MIXED = "mixed"
    RESULTS = "results"
    """Many calls on the result of a delayed call."""
    SOON = "soon"
    """Calls at once after a posted call, which is after a delayed call that is due soon."""
    SLOW = "slow"
    """The duration of a healthy call that is so slow that its wake-up is delivered again meanwhile."""
    WAITING = "waiting"
    """Callers of one object that wait, some behind a posted call."""


@dataclass(slots=True)
class Act:
    """One caller's message to `key`, under the id `record`, repeated until it is answered.

    `waits`: its caller waits, and may apply what others have posted. `began` and `answered` are times; `refused`:
    another call had its id.
    """

    id: str
    key: str
    message: Message
    record: str
    fast: bool = False
    timing: Timing = AT_ONCE
    follows: str = ""
    waits: bool = False
    began: datetime | None = None
    answered: datetime | None = None
    repeats: int = 0
    answer: CallRecord | None = None
    refused: bool = False

    @property
    def kind(self) -> Kind:
        """What the message asks for."""
        return self.message.kind

    @property
    def method(self) -> str:
        """The method that is called, or an empty text."""
        return str(self.message.body.get("method", ""))

    @property
    def to(self) -> str:
        """The other object that the method concerns."""
        return str(self.message.body["arguments"].get("to", ""))


def set_limits(acts: Sequence[Act], random: Random) -> None:
    """Set a time limit for some of the posted calls, but for none whose result other calls need."""
    for act in acts:
        if act.kind is Kind.CALL and not act.fast and act.method != "open" and random.random() < 0.5:
            act.timing = replace(act.timing, not_after_seconds=random.choice(LIMITS_SECONDS))


def let_wait(acts: Sequence[Act], random: Random) -> None:
    """Let the callers of some calls wait for their outcome."""
    for act in acts:
        eligible = act.kind is Kind.CALL and act.timing == AT_ONCE and act.method != "mark"
        act.waits = act.waits or (eligible and random.random() < WAITING_SHARE)


def groups_of(acts: Sequence[Act], random: Random) -> list[list[Act]]:
    """Return the acts in groups: some callers that wait for the same object are of one process."""
    groups: list[list[Act]] = []
    for act in acts:
        last = groups[-1] if groups else []
        if act.waits and last and _go_together(act, last) and random.random() < TOGETHER_SHARE:
            last.append(act)
        else:
            groups.append([act])
    return groups


def _go_together(act: Act, group: Sequence[Act]) -> bool:
    others = all(other.waits and other.key == act.key for other in group)
    return others and act.record not in {other.record for other in group}


def vary(acts: Sequence[Act], random: Random, *, upgrading: bool) -> None:
    """Let some posted calls send a delayed call, or have a method that older code lacks; give some continuations."""
    methods = ("remind", "mark", "mark") if upgrading else ("remind",)
    for act in acts:
        if act.kind is Kind.CALL and act.method == "note" and not act.fast and random.random() < VARIED_SHARE:
            act.message = replace(act.message, body={**act.message.body, "method": random.choice(methods)})
        elif act.kind is Kind.ON_RESULT and random.random() < VARIED_SHARE:
            act.message = replace(act.message, then=(Call("user", "told", {"id": act.id}),))


def large_acts(random: Random) -> list[Act]:
    """Return a delayed call, and continuations of it that together exceed a turn."""
    later = Timing(random.choice(LATER_SECONDS))
    acts = [Act("s", KEYS[0], call_of("note", {"id": "s"}), "s", timing=later)]
    for number in range(random.randint(3, LARGE_MAX)):
        id_ = f"s{number}"
        payload = {"id": id_, "text": "x" * random.choice(LARGE_BYTES)}
        message = continuation_message("s", Call("user", "told", payload))
        acts.append(Act(id_, KEYS[0], message, id_, follows="s"))
    return acts


@dataclass(frozen=True, slots=True)
class Planner:
    """Draws the acts of a world. `deleting`: objects are deleted, too."""

    random: Random
    kind: Worlds
    deleting: bool

    def acts(self) -> list[Act]:
        """Return the acts, in the order in which they begin."""
        acts: list[Act] = []
        least = ACTS_MIN_IN_ORDER if self.kind in (Worlds.RESULTS, Worlds.SOON) else ACTS_MIN
        for id_ in self._ids(self.random.randint(least, operations_max(ACTS_MAX))):
            acts.append(self._next(id_, acts))
        return acts

    def _ids(self, count: int) -> list[str]:
        """Return ids in a random order, which is not the order of the records."""
        return [f"c{number}" for number in self.random.sample(range(count), count)]

    def _next(self, id_: str, acts: Sequence[Act]) -> Act:
        if self.kind is Worlds.SLOW:
            return Act(id_, KEYS[0], call_of("note", {"id": id_}), id_)
        if self.kind is Worlds.SOON:
            return self._soon(id_, len(acts))
        if self.kind is Worlds.WAITING:
            waits = self.random.random() < WAITING_IN_OWN_SHARE
            return Act(id_, KEYS[0], call_of("note", {"id": id_}), id_, waits=waits)
        if self.kind is Worlds.RESULTS and (not acts or self.random.random() < 0.8):
            return self._on_result(id_, acts[0]) if acts else self._opening(id_)
        return self._mixed(id_, acts)

    def _soon(self, id_: str, place: int) -> Act:
        """Return the call that makes the object, the delayed one, the posted one, or one after them."""
        timing = Timing(LATER_SECONDS[0]) if place == 1 else AT_ONCE
        return Act(id_, KEYS[0], call_of("note", {"id": id_}), id_, place not in (1, 2), timing)

    def _opening(self, id_: str) -> Act:
        timing = Timing(self.random.choice(OPENED_LATER_SECONDS))
        return Act(id_, KEYS[0], call_of("open", {"id": id_, "to": KEYS[1]}), id_, timing=timing)

    def _mixed(self, id_: str, acts: Sequence[Act]) -> Act:
        kind = self.random.choice((*KINDS, "delete") if self.deleting else KINDS)
        earlier = [act for act in acts if act.kind in (Kind.CALL, Kind.ON_RESULT) and act.id == act.record]
        if kind in ("then", "on_result", "same_id") and earlier:
            target = self.random.choice(earlier)
            return {"then": self._then, "on_result": self._on_result, "same_id": self._same_id}[kind](id_, target)
        key = self.random.choice(KEYS)
        if kind == "delete":
            return Act(id_, key, deletion(), id_)
        return self._call(id_, key, kind if kind in METHODS else "note")

    def _then(self, id_: str, target: Act) -> Act:
        message = continuation_message(target.id, Call("user", "told", {"id": id_}))
        return Act(id_, target.key, message, id_, follows=target.id)

    def _on_result(self, id_: str, target: Act) -> Act:
        method, to = self.random.choice((("note", {}), ("note", {}), ("open", {"to": self.random.choice(KEYS)})))
        return Act(id_, target.key, call_on_result(target.id, method, {"id": id_, **to}), id_, follows=target.id)

    def _same_id(self, id_: str, target: Act) -> Act:
        """Return another call under an id in use."""
        fast = self.random.random() < 0.5
        return Act(id_, target.key, call_of("note", {"id": id_}), target.record, fast)

    def _call(self, id_: str, key: str, method: str) -> Act:
        to = {"to": next(other for other in KEYS if other != key)} if method in ("pass_on", "open") else {}
        then = (Call("user", "told", {"id": id_}),) if self.random.random() < 0.3 else ()
        later = self.random.random() < 0.2
        timing = Timing(self.random.choice(LATER_SECONDS)) if later else AT_ONCE
        fast = not later and self.random.random() < 0.5
        return Act(id_, key, call_of(method, {"id": id_, **to}, then=then), id_, fast, timing)
