"""Run random requests over the kit and over the model, and compare each response and what is seen at rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from random import Random
from typing import Any

from signalbox import Problem, flow, flows
from signalbox.adapters import runtime
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.service.retries import RetryOptions, retry
from signalbox.flows.service.sends import Starting
from signalbox.testing.replaced_limits import replaced
from tests.simulation.reached_counts import ANSWERED, EVENTS_REFUSED, REACHED, RUNS_REPLACED, UPDATES_REFUSED
from tests.simulation.world import Violation
from tests.simulation.worlds.asked_runs.model import (
    EVENTS_MAX,
    REFUSE,
    REPLACE,
    REPLACE_ENDED,
    SAME,
    STUCK,
    TOO_MANY,
    TOO_MANY_EVENTS,
    UPDATES_MAX,
    WAITS,
    Address,
    Message,
    Op,
    Open,
    Refused,
    Script,
)
from tests.unit.flows.shops import Shop, flows_of, step

PROGRAMS_OF_A_SHOP = 200
MENDED: set[str] = set()
"""The ids of the runs whose code has been mended."""


# --- the kit's side ---


async def asked(script: list[list[Any]]) -> Any:
    trace: list[str] = []
    held: list[Any] = []
    flow.progress(trace)

    def receive(kind: str, name: str, got: Any) -> None:
        trace.append(f"{kind} {name} {got.value if kind == 'update' else got}")
        flow.progress(list(trace))
        if kind == "update":
            held.append(got)

    for at, op in enumerate(script):
        match op:
            case ["update", name]:
                receive("update", name, await flow.update(name))
            case ["update", name, _]:
                receive("update", name, await flow.update(name, int))
            case ["event", name]:
                receive("event", name, await flow.event(name))
            case ["first", update, event]:
                which, got = await flow.first(update=flow.update(update), event=flow.event(event))
                receive(str(which), update if which == "update" else event, got)
            case ["answer"] if held:
                update = held.pop(0)
                update.answer(f"answered {update.value} at {len(trace)}")
            case ["refuse"] if held:
                update = held.pop(0)
                update.refuse(Problem(f"refused {update.value} at {len(trace)}"))
            case ["step"]:
                await step("work")
            case ["again"]:
                return flow.continue_as_new(script=script[at + 1 :])
            case ["fail"]:
                raise Problem("It fails.")
            case ["break"] if flow.context().id not in MENDED:
                raise Problem("It is broken.")
            case ["stick"] if flow.context().id not in MENDED:
                raise ValueError("It is stuck.")
    return len(trace)


@cache
def definitions() -> Flows:
    return flows_of(asked)


class Kit:
    """A run of the kit, with the public calls; `answers` has the updates that were sent, by their ids."""

    shop: Shop
    count = PROGRAMS_OF_A_SHOP

    def __init__(self) -> None:
        if Kit.count >= PROGRAMS_OF_A_SHOP:
            Kit.shop, Kit.count = Shop(definitions()), 0
        Kit.count += 1
        self.id = f"run-{Kit.count}"
        self.run = flows("asked", self.id)
        MENDED.clear()

    def send(self, message: Message, script: Script | None, if_exists: str) -> tuple[bool, str]:
        start = Starting("asked", definitions(), "shop", {"script": listed(script)}) if script is not None else None
        call: Any = self.run.update if message.kind == "update" else self.run.event
        choice = SAME if start is None else if_exists
        sent = call(message.name, message.value, id=message.id, start=start, if_exists=choice)
        return sent.started, sent.warning

    def act(self, kind: str) -> None:
        getattr(self.run, kind)()

    def mend(self) -> None:
        MENDED.add(self.id)
        state = self.state()
        if state == "failed":
            address, options = FlowAddress("asked", self.id), RetryOptions(0)
            retry(self.shop.ports, definitions(), address, self.shop.ports.store.new_id(), options)
        elif state == "stuck":
            self.run.resume()

    def settle(self) -> None:
        self.shop.settle()

    def state(self) -> str:
        try:
            return self.run.status().state
        except Problem:
            return ""

    def reply(self, id_: str) -> str:
        update = self.run.sent_update(id_)
        try:
            return str(update.result()) if update.ready() else WAITS
        except Problem as problem:
            return problem.detail if type(problem) is Problem else problem.slug()

    def seen(self) -> tuple[str, Any]:
        try:
            status = self.run.status()
        except Problem:
            return "", None
        return status.state, status.progress or []


def listed(script: Script) -> list[list[Any]]:
    return [list(op) for op in script]


# --- what happens ---


@dataclass(frozen=True, slots=True)
class Act:
    """A request, an operator's act, or that everything is delivered."""

    kind: str
    message: Message | None = None
    script: Script | None = None
    if_exists: str = SAME

    def __str__(self) -> str:
        if self.message is None:
            return self.kind
        start = f", start={listed(self.script)}, if_exists={self.if_exists}" if self.script is not None else ""
        return f"{self.message.kind} {self.message.name} {self.message.value!r} id={self.message.id}{start}"


NAMES = {"update": ("a", "b"), "event": ("c", "d")}
OPS: Sequence[tuple[Callable[[Random], Op], float]] = (
    (lambda rng: ("update", rng.choice("ab")), 3),
    (lambda rng: ("update", rng.choice("ab"), "int"), 1),
    (lambda rng: ("event", rng.choice("cd")), 1),
    (lambda rng: ("first", rng.choice("ab"), rng.choice("cd")), 1),
    (lambda _: ("answer",), 3),
    (lambda _: ("refuse",), 1),
    (lambda _: ("step",), 0.5),
    (lambda _: ("again",), 0.7),
    (lambda _: ("fail",), 0.2),
    (lambda _: ("break",), 0.4),
    (lambda _: ("stick",), 0.3),
)
OTHER_ACTS = ("cancel", "terminate", "suspend", "resume", "delete", "mend", "mend")
ACTS_MAX = 12
SEND_RATE, SETTLE_RATE, WRONG_RATE, AGAIN_RATE, START_RATE = 0.5, 0.35, 0.2, 0.3, 0.4
IF_EXISTS = (SAME, SAME, REPLACE_ENDED, REPLACE, REFUSE)
WRONG = "wrong"


def drawn_script(rng: Random) -> Script:
    drawers, weights = zip(*OPS, strict=True)
    return tuple(draw(rng) for draw in rng.choices(drawers, weights, k=rng.randint(1, 7)))


def drawn_act(rng: Random, number: int) -> Act:
    drawn = rng.random()
    if number == 0 or drawn < SEND_RATE:
        kind = rng.choice(("update", "update", "event"))
        value = WRONG if rng.random() < WRONG_RATE else rng.randint(1, 3)
        id_ = f"m{rng.randint(0, number) if rng.random() < AGAIN_RATE else number}"
        message = Message(kind, rng.choice(NAMES[kind]), value, id_)
        script = drawn_script(rng) if number == 0 or rng.random() < START_RATE else None
        return Act("send", message, script, rng.choice(IF_EXISTS))
    if drawn < SEND_RATE + SETTLE_RATE:
        return Act("settle")
    return Act(rng.choice(OTHER_ACTS))


@dataclass(frozen=True, slots=True)
class Difference:
    """What the kit and the model do not agree on, after the last of the acts."""

    acts: list[Act]
    what: str
    model: Any
    kit: Any

    def __str__(self) -> str:
        acts = "\n".join(f"{at}: {act}" for at, act in enumerate(self.acts, 1))
        return f"\n{acts}\n\n{self.what}:\n  model: {self.model}\n  kit:   {self.kit}"


@dataclass(slots=True)
class Comparison:
    """A program that runs over both."""

    model: Address = field(default_factory=Address)
    kit: Kit = field(default_factory=Kit)

    def apply(self, act: Act) -> tuple[str, Any, Any] | None:
        """Return the first thing that differs, or None."""
        ours = self.in_model(act)
        theirs = self.in_kit(act)
        if isinstance(ours, tuple) and isinstance(theirs, tuple):
            ours, theirs = known(ours, theirs)
        if ours != theirs:
            return str(act), ours, theirs
        return self.seen() if act.kind == "settle" else None

    def show(self, trace: Callable[[str], None]) -> None:
        """Print what the kit shows of the run, and the answers to its updates."""
        trace(f"  the run: {self.kit.seen()}")
        for id_, _ in self.model.replies():
            trace(f"  the answer to {id_}: {self.kit.reply(id_)}")

    def in_model(self, act: Act) -> Any:
        try:
            if act.message:
                warned, before = self.warned(act.message), self.model.run
                started = self.model.send(act.message, act.script, act.if_exists)
                REACHED[RUNS_REPLACED] += started and before is not None
                return started, warned
            self.of(self.model, act.kind)
        except Refused as refused:
            return refused.args[0]
        return ""

    def warned(self, message: Message) -> bool | None:
        """Return whether the response must have a warning, or None if it is not known."""
        run = self.model.run
        if run is None or not run.is_quiet or run.state != "running" or message.key in self.model.sent:
            return None
        return (message.kind, message.name) not in run.execution.awaited()

    def in_kit(self, act: Act) -> Any:
        try:
            if act.message:
                started, warning = self.kit.send(act.message, act.script, act.if_exists)
                return started, bool(warning)
            self.of(self.kit, act.kind)
        except Problem as problem:
            return problem.slug()
        return ""

    @staticmethod
    def of(side: Any, kind: str) -> None:
        if kind in ("settle", "mend"):
            getattr(side, kind)()
        else:
            side.act(kind)

    def seen(self) -> tuple[str, Any, Any] | None:
        run = self.model.run
        ours: tuple[Any, ...] = (run.state, run.execution.trace) if run else ("", None)
        theirs: tuple[Any, ...] = self.kit.seen()
        if run and (run.state == STUCK or run.is_last_turn_open):  # the progress is that of the last turn
            ours, theirs = ours[:1], theirs[:1]
        if ours != theirs:
            return "state and progress", ours, theirs
        REACHED[EVENTS_REFUSED] += TOO_MANY_EVENTS in (run.replies.values() if run else ())
        for id_, reply in self.model.replies():
            seen = self.kit.reply(id_)
            if seen != reply and not (run and ("update", id_) in run.unsure and seen == WAITS):
                return f"the answer to {id_}", reply, seen
            REACHED[ANSWERED] += reply.startswith("answered")
            REACHED[UPDATES_REFUSED] += reply == TOO_MANY
        return None


def known(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return both without the parts that the pages leave open."""
    started, warned = ours
    return ((started, None), (theirs[0], None)) if warned is None or started else (ours, theirs)


def difference(acts: Iterator[Act], trace: Callable[[str], None] | None = None) -> Difference | None:
    before = runtime.bind(None)
    applied: list[Act] = []
    try:
        with replaced(flow_updates_max=UPDATES_MAX, flow_events_passed_on_max=EVENTS_MAX):
            comparison = Comparison()
            runtime.bind(comparison.kit.shop.ports)
            for act in acts:
                applied.append(act)
                if trace:
                    trace(str(act))
                found = comparison.apply(act)
                if trace:
                    comparison.show(trace)
                if found:
                    return Difference(applied, *found)
    except Open:
        return None
    except Exception as error:  # noqa: BLE001  whatever the kit raises is a difference
        return Difference(applied, "raises", "", repr(error))
    finally:
        if applied and Kit.shop:
            Kit.shop.world.tasks.clear()
        runtime.bind(before)
    return None


def drawn_acts(rng: Random) -> Iterator[Act]:
    for number in range(rng.randint(3, ACTS_MAX)):
        yield drawn_act(rng, number)
    yield Act("settle")


def smaller(acts: Sequence[Act]) -> Iterator[list[Act]]:
    for at, act in enumerate(acts):
        yield [*acts[:at], *acts[at + 1 :]]
        whole = act.script or ()
        for op in range(len(whole)):
            script = (*whole[:op], *whole[op + 1 :])
            yield [*acts[:at], replace(act, script=script), *acts[at + 1 :]]


def shrunk(found: Difference) -> Difference:
    """Return a difference that no smaller list of acts has."""
    while True:
        less = next(filter(None, (difference(iter(acts)) for acts in smaller(found.acts))), None)
        if less is None:
            return found
        found = less


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Compare one seed's program. Raises `Violation` with the smallest program that differs."""
    if found := difference(drawn_acts(Random(f"asked runs {seed}")), trace):
        raise Violation(str(shrunk(found)))
