"""Run a random program twice, over the library and over the model, and compare both after each entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from random import Random
from typing import Any

from tests.simulation.reached_counts import REACHED, TREES_IN_TURNS
from tests.simulation.world import Violation
from tests.simulation.worlds.flow_trees.nodes import Open
from tests.simulation.worlds.flow_trees.programs import EVENTS, LEAVES, Drawing, Tree, in_python
from tests.simulation.worlds.flow_trees.runs import DriverRun, Entry, ModelRun, Seen
from tests.simulation.worlds.flow_trees.turns import TurnsRun

ENTRIES_MAX = 40
CANCEL_RATE, EVENT_RATE, ERROR_RATE = 0.08, 0.15, 0.3
WRONG_EVERY = 5
TURNS_RATE = 0.02
"""Programs that run in turns, through a store and a queue. They may continue as new. A turn costs milliseconds."""

BURSTS_RATE, BURST_RATE = 0.1, 0.75
"""Programs that mostly wait for events, in groups that are decided as they begin, since many events arrive before."""

LEAVES_IN_TURNS = ("step", "step", "step", "event", "event", "lock", "run")
OF_BURSTS: dict[str, Any] = {
    "leaves": ("event", "event", "event", "step", "lock"),
    "groups": ("all", "first", "first", "first_success", "settled", "settled"),
    "events": ("a", "a", "a", "a", "a", "b"),
    "alone": 0.15,
    "shields": 0.25,
}


@dataclass(frozen=True, slots=True)
class Difference:
    """What the library and the model do not agree on, after the last of the entries."""

    case: Case
    entries: list[Entry]
    what: str
    model: Any
    library: Any

    def __str__(self) -> str:
        entries = "\n".join(f"{at}: {entry}" for at, entry in enumerate(self.entries, 1))
        differs = f"{self.what}:\n  model:   {self.model}\n  library: {self.library}"
        return f"\n{in_python(self.case.program)}\n\n{entries}\n\n{differs}"


def drawn_entry(
    rng: Random, pending: Sequence[str], number: int, *, in_turns: bool, event_rate: float = EVENT_RATE
) -> Entry:
    """Return what happens next to a run that waits."""
    drawn = rng.random()
    if drawn < CANCEL_RATE:
        return Entry(rng.choice(("cancel", "cancel", "deadline", "terminate")) if in_turns else "cancel")
    ending = [label for label in pending if not label.startswith(("event", "sleep") if in_turns else "event")]
    if drawn < CANCEL_RATE + event_rate or not ending:
        is_wrong = int(drawn * 1_000_000) % WRONG_EVERY == 0
        return Entry("event", rng.choice(EVENTS), f"wrong {number}" if is_wrong else number)
    kind, label = rng.choice(ending).split(" ")
    has_value = kind in ("step", "flow", "run")
    return Entry(kind, label, number if has_value else 0, has_value and rng.random() < ERROR_RATE)


def differs(model: Seen, library: Seen) -> tuple[str, Any, Any] | None:
    """Return the first thing that differs, and both values."""
    for branch in sorted({*model.trace, *library.trace}):
        ours, theirs = model.trace.get(branch, []), library.trace.get(branch, [])
        if ours != theirs:
            return f"{branch} observes", ours, theirs
    for what in ("ended", "pending", "locks", "kept"):
        ours, theirs = getattr(model, what), getattr(library, what)
        if ours != theirs:
            return what, ours, theirs
    return None


@dataclass(frozen=True, slots=True)
class Case:
    """A program, whether it runs in turns, and its entries: a list, or random numbers to draw them from."""

    program: Tree
    entries: Sequence[Entry] | Random
    in_turns: bool = False
    event_rate: float = EVENT_RATE

    @classmethod
    def of(cls, seed: int) -> Case:
        rng = Random(f"flow trees {seed}")
        drawn = rng.random()
        if drawn < TURNS_RATE:
            is_burst = drawn < TURNS_RATE * BURSTS_RATE
            kinds = OF_BURSTS if is_burst else {"leaves": LEAVES_IN_TURNS, "shields": 0.3}
            drawing = Drawing(rng, generations=rng.randint(1, 2), size=6, renews=False, **kinds)
            program = drawing.late_program() if is_burst else drawing.program()
            return cls(program, rng, in_turns=True, event_rate=BURST_RATE if is_burst else EVENT_RATE)
        if drawn < TURNS_RATE + BURSTS_RATE:
            return cls(Drawing(rng, **OF_BURSTS).late_program(), rng, event_rate=BURST_RATE)
        return cls(Drawing(rng, LEAVES).program(), rng)

    def smaller(self, entries: Sequence[Entry]) -> Iterator[Case]:
        for program in self.program.smaller():
            yield Case(program, entries, self.in_turns)
        for at in range(len(entries)):
            yield Case(self.program, [*entries[:at], *entries[at + 1 :]], self.in_turns)

    def difference(self, trace: Callable[[str], None] | None = None) -> Difference | None:
        """Return the first difference, or None. Entries that do not fit the program are left out."""
        applied = list[Entry]()
        model = ModelRun(self.program, in_turns=self.in_turns)
        library: DriverRun | TurnsRun | None = None
        try:
            model.start()
            library = TurnsRun(self.program) if self.in_turns else DriverRun(self.program)
            entries = self._entries(model)
            if trace:
                show(trace, "the run begins", model.seen())
            while not (found := differs(model.seen_in_turns() if self.in_turns else model.seen(), library.seen())):
                if model.ended or (entry := next(entries, None)) is None:
                    return None
                applied.append(entry)
                model.apply(entry)
                if trace:
                    show(trace, str(entry), model.seen())
                library.apply(entry)
            return Difference(self, applied, *found)
        except Open:
            return None
        except Exception as error:  # noqa: BLE001  whatever the library raises is a difference
            return Difference(self, applied, "raises", "", repr(error))
        finally:
            model.close()
            if library is not None:
                library.close()

    def _entries(self, model: ModelRun) -> Iterator[Entry]:
        if isinstance(self.entries, Random):
            for number in range(1, ENTRIES_MAX):
                yield drawn_entry(
                    self.entries, model.pending(), number, in_turns=self.in_turns, event_rate=self.event_rate
                )
        else:
            yield from (entry for entry in self.entries if entry.fits(model.pending()))


def show(trace: Callable[[str], None], entry: str, seen: Seen) -> None:
    """Print an entry and what the model has seen since."""
    trace(entry)
    for what in fields(Seen):
        trace(f"  {what.name}: {getattr(seen, what.name)}")


def shrunk(difference: Difference) -> Difference:
    """Return a difference that no smaller program and no shorter list of entries has."""
    while True:
        smaller = map(Case.difference, difference.case.smaller(difference.entries))
        if (found := next(filter(None, smaller), None)) is None:
            return difference
        difference = found


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Compare one seed's program. Raises `Violation` with the smallest program that differs."""
    case = Case.of(seed)
    if trace:
        for line in in_python(case.program).splitlines():
            trace(line)
    REACHED[TREES_IN_TURNS] += case.in_turns
    if difference := case.difference(trace):
        raise Violation(str(shrunk(difference)))
