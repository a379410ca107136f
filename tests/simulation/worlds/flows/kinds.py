"""What the flows of a simulated world are about, and their programs."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from tests.simulation.worlds.flows.interpreted_programs import Program

NAMES = "abcd"
EVENTS = "xy"
OPERATIONS_MAX = 4


class Kind(Enum):
    """The main subject of a world's programs."""

    MIXED = "mixed"
    RETRIES = "retried steps"
    FIRST = "the first of several commands, and what follows"
    AGAIN = "generations, and events"
    LOCKS = "two flows and one permit"
    FLOWS = "sub-flows"
    DEPLOYED = "a deployment of new code"
    CARELESS = "code that diverges from its logs, and is withdrawn"
    BROKEN = "code that is fixed later"
    DEADLY = "code that ends its process"
    RESTARTED = "an id that is used again"
    WIDE = "more concurrent commands than a page has messages"
    NESTED = "everything inside everything"
    OVERSIZED = "code that sends more than a commit has room for, and is fixed later"
    """`NESTED` and `OVERSIZED` have their own world (`nested_programs.py`): the draws of others must not change."""
    INLINE = "inline steps next to everything else"
    INLINE_DEADLY = "inline steps whose own code, or whose flow's code, ends its process"
    """`INLINE` and `INLINE_DEADLY` have their own world (`inline_steps.py`)."""
    COMPOSED = "handles, and everything else inside them"
    """`COMPOSED` has its own world (`begun_commands.py`)."""


def program(random: Random, kind: Kind) -> Program:
    """Return a program of a world of this kind."""
    return PROGRAMS[kind](random)


def one(random: Random) -> list[Any]:
    """Return an operation that waits for one thing."""
    drawn = random.random()
    if drawn < 0.55:
        return step(random)
    if drawn < 0.7:
        return ["sleep", random.choice((0.05, 0.5, 3.0))]
    return ["event", random.choice(EVENTS)] if drawn < 0.85 else ["object"]


def step(random: Random) -> list[Any]:
    """Return a step, of one attempt or of more."""
    return ["step", random.choice(NAMES), random.choice((1, 1, 3))]


def first(random: Random) -> list[Any]:
    """Return an `any`, each of its items with what follows on it."""
    items = [random.choice((step, one, _lock))(random) for _ in range(2)]
    return ["any", items, [["step", f"then_{number}", 1] for number in range(2)]]


def _lock(_: Random) -> list[Any]:
    return ["lock"]


def _all(random: Random) -> list[Any]:
    return ["all", [one(random) for _ in range(random.choice((2, 3, 6)))]]


def _locked(random: Random) -> list[Any]:
    return ["locked", step(random)]


def _settled(random: Random) -> list[Any]:
    return ["settled", [step(random), step(random)]]


def _mixed(random: Random) -> Program:
    kinds = (one, one, step, first, _all, _locked, _settled, lambda _: ["send"])
    return [random.choice(kinds)(random) for _ in range(random.randint(1, OPERATIONS_MAX))]


def _retries(random: Random) -> Program:
    return [["step", random.choice(NAMES), random.choice((2, 3))] for _ in range(random.randint(1, 3))]


def _again(random: Random) -> Program:
    waits = random.choice(([], [["event", "x"]], [["all", [["step", "a", 1], ["event", "x"]]]], [_quick(random)]))
    return [["step", "a", 1], *waits, ["again", random.choice((1, 2, 3))], *random.choice(([], [["event", "y"]]))]


def _quick(random: Random) -> list[Any]:
    """Return an `any` whose first item ends when others are under way, and in the next generation all of the same."""
    count = random.choice((2, 6))
    steps = [["step", "a", 1]] * count
    return ["in turns", ["any", steps, [["step", "b", 1]] * count], ["settled", steps]]


def _locks(random: Random) -> Program:
    impatient = ["any", [["lock"], ["sleep", 0.4]], [["step", "a", 1], ["step", "b", 1]]]
    held = (_locked(random), impatient, ["unreleased"], ["renewed", step(random)], ["finally", step(random)])
    return [random.choice(held) for _ in range(random.randint(1, 2))]


def _flows(random: Random) -> Program:
    inner = ["flow", [one(random), _locked(random)] if random.random() < 0.3 else [one(random)]]
    impatient = ["any", [inner, ["sleep", random.choice((0.1, 1.0))]], [["step", "a", 1], ["step", "b", 1]]]
    return [random.choice((inner, impatient)), step(random), *random.choice(([], [["again", 1]]))]


def _deployed(random: Random) -> Program:
    change = ["patched", "p", ["step", "old", 1], ["step", "new", 1]]
    return [*([change] * random.choice((2, 3))), *random.choice(([], [["event", "x"]]))]


def _broken(random: Random) -> Program:
    return [one(random), ["broken", step(random)], one(random)]


def _deadly(random: Random) -> Program:
    return [["deadly", ["step", "a", 1]], step(random)]


def _restarted(random: Random) -> Program:
    return [["step", "a", 1], random.choice((["step", "b", 1], ["event", "x"], _locked(random)))]


def _wide(random: Random) -> Program:
    return [["all", [["step", random.choice(NAMES), 1] for _ in range(7)]], ["step", "a", 1]]


# --- nested programs ---

DEPTH = 3
LEAVES_MAX = 12
"""Waits of a nested program at most, so that its trace is short."""


OF_LOCKS = ("lock", "released", "renewed")
"""Words in the names of operations with locks."""

SHIELDED_SHARE = 0.35
CONTINUING_SHARE = 0.5
REFUSED_SHARE = 0.08


def _nested(random: Random) -> Program:
    operations = _unshielded(random)
    own = Random(f"shields {operations}")
    shielded = [_shielded(own, each) for each in operations] if own.random() < SHIELDED_SHARE else operations
    return _refused(Random(f"refused {operations}"), _continuing(Random(f"continuing {operations}"), shielded))


def _continuing(random: Random, operations: Program) -> Program:
    """Return a program that may continue as new right after a shield: a cancel is due in the next generation."""
    again = next((number for number, (kind, *_) in enumerate(operations) if kind == "again"), 0)
    before = operations[again - 1] if again else []
    if not before or any(each in str(before) for each in ("event", "lock")) or random.random() >= CONTINUING_SHARE:
        return operations
    inner = before[1] if before[0] == "shielded" else before
    return [*operations[: again - 1], ["shielded", inner, "continues"], *operations[again:], ["sleep", 0.01]]


def _refused(random: Random, operations: Program) -> Program:
    """Return a program that may call a task with a wrong argument before one of its operations."""
    number = random.randrange(len(operations))
    if operations[number][0] == "again" or random.random() >= REFUSED_SHARE:
        return operations
    return [*operations[:number], ["refused", operations[number]], *operations[number + 1 :]]


def _shielded(random: Random, operation: list[Any]) -> list[Any]:
    """Return an operation with shields around some of its waits: not of events or locks, which may never come.

    A run that holds a lock which it has begun, and waits for the same one in a shield, is not ended by a cancel.
    """
    kind, *parts = operation
    if kind == "all":
        return [kind, [_shielded(random, each) for each in parts[0]]]
    if kind == "cleaned up":
        return [kind, parts[0], ["shielded", parts[1]]]
    may_be = kind != "again" and not any(each in str(operation) for each in ("event", "lock"))
    has_lock = any(each in str(operation) for each in OF_LOCKS)
    return ["shielded", operation] if may_be and random.random() < 0.5 and not has_lock else operation


def _unshielded(random: Random) -> Program:
    if random.random() < 0.25:
        return _crowded(random)
    if random.random() < 0.15:
        return [_group_with_lock(random), *random.choice(([], [step(random)]))]
    left = [LEAVES_MAX]
    operations = [_operation(random, DEPTH, left) for _ in range(random.randint(1, 3))]
    return [*operations, *random.choice(([], [], [["again", 1]], [["again", 2], one(random)]))]


def _operation(random: Random, depth: int, left: list[int]) -> list[Any]:
    """Return an operation that has others inside it; `left` is the number of waits that the program may still have."""
    left[0] -= 1
    if depth == 0 or left[0] <= 0:
        return random.choice((one, one, step, _burst))(random)
    inner = partial(_operation, random, depth - 1, left)
    match random.randrange(12):
        case 0:
            return ["all", [inner() for _ in range(random.randint(1, 4))]]
        case 1:
            return ["settled branches", [inner() for _ in range(random.randint(1, 3))]]
        case 2:
            return ["caught", inner()]
        case 3:
            return ["cleaned up", inner(), random.choice((step, _short, _burst))(random)]
        case 4:
            return ["locked", inner()]
        case 5:
            return ["flow", [inner() for _ in range(random.randint(1, 2))]]
        case 6 | 7:
            return ["first", [_tree(random, 2, left) for _ in range(random.randint(1, 3))], inner()]
        case 8:
            kind = random.choice(("each of", "settled of"))
            return ["group", [kind, [_tree(random, 2, left) for _ in range(random.randint(2, 3))]], inner()]
        case 9:
            return _group_with_lock(random)
        case 10:
            return ["released early", inner()]
    return random.choice((one, step, _burst))(random)


def _crowded(random: Random) -> Program:
    """Return a program whose events and steps lead to more than one commit has room for, if they come together."""
    items = [["both", one(random), ["burst", 18]] for _ in range(random.choice((2, 3)))]
    items += [["both", ["event", random.choice(EVENTS)], ["burst", 18]]]
    return [["all", [step(random), *items]], step(random)]


def _oversized(random: Random) -> Program:
    return [["all", [["oversized", step(random)], one(random)]], step(random)]


def _group_with_lock(random: Random) -> list[Any]:
    """Return a group that may fail when a lock in it was granted, and what the code waits for afterwards."""
    kind = random.choice(("each of", "settled of", "one of"))
    lock = [kind, [["lock"], ["event", "y"]][: random.randint(1, 1 + (kind == "one of"))]]
    items = [random.choice((lock, lock, ["lock"])), ["step", "a", random.choice((2, 3))]]
    return ["group", ["each of", items], random.choice((["event", "z"], ["event", "z"], one(random)))]


def _tree(random: Random, depth: int, left: list[int]) -> list[Any]:
    """Return a command, or a group of commands, for an `any`."""
    left[0] -= 1
    if depth == 0 or left[0] <= 0 or random.random() < 0.5:
        return random.choice((one, one, step, _lock))(random)
    kind = random.choice(("each of", "settled of", "one of"))
    return [kind, [_tree(random, depth - 1, left) for _ in range(random.randint(1, 2))]]


def _short(random: Random) -> list[Any]:
    """Return an operation that ends by itself: a clean-up that is cancelled waits as it likes."""
    return random.choice((["sleep", 0.5], ["object"]))


def _burst(random: Random) -> list[Any]:
    return ["burst", random.choice((1, 4, 8))]


def _inline(random: Random) -> Program:
    """Return a program whose steps are inline, most of them."""
    drawn = random.random()
    if drawn < 0.35:
        return [_inline_step(random) for _ in range(random.randint(1, 6))]
    if drawn < 0.5:
        return [["all", [_inline_step(random) for _ in range(random.choice((2, 3, 12)))]], _inline_step(random)]
    other = random.choice((_mixed, _retries, _again, _locks, _flows, _nested, _nested))
    return [_inlined(random, operation) for operation in other(random)]


def _inline_step(random: Random) -> list[Any]:
    """Return an inline step: its name, its attempts, the pause before a further one, and its time-out."""
    seconds = random.choice((60, 60, 1, 0.1))
    return ["inline", random.choice(NAMES), random.choice((1, 1, 3)), random.choice((0, 0.3)), seconds]


def _inlined(random: Random, operation: Any) -> Any:
    """Return an operation with most of its steps inline."""
    if not isinstance(operation, list):
        return operation
    if operation[:1] == ["step"] and random.random() < 0.7:
        return [*_inline_step(random)[:2], operation[2], *_inline_step(random)[3:]]
    return [_inlined(random, part) for part in operation]


def _inline_deadly(random: Random) -> Program:
    """Return a program with an inline step that ends its process next to others, or code that does so itself."""
    if random.random() < 0.3:
        return [["broken", ["inline", "once", 1, 0, 60]], _inline_step(random)]
    if random.random() < 0.5:
        return [["all", [["killer"], *(_inline_step(random) for _ in range(random.choice((1, 2, 9))))]], step(random)]
    return [["deadly", _inline_step(random)], _inline_step(random)]


SUB_FLOWS = "mn"
"""The ids that programs give to sub-flows: few, so that they are in use."""

HOWS = ("each", "all", "first", "success", "as completed", "cancelled", "left", "cleaned up")
"""What a program does with the handles of what it has begun."""

INLINED_SHARE = 0.4


def _composed(random: Random) -> Program:
    """Return a program that begins commands and awaits them later, inside everything else."""
    left = [LEAVES_MAX]
    operations = [_around_handles(random, left) for _ in range(random.randint(1, 3))]
    operations += random.choice(([], [], [["again", 1]], [["again", 2], one(random)]))
    return [_inlined(random, each) for each in operations] if random.random() < INLINED_SHARE else operations


def _around_handles(random: Random, left: list[int]) -> list[Any]:
    """Return an operation with handles, most often inside of another one."""
    inner = _handles(random, left)
    match random.randrange(12):
        case 0 | 1:
            return ["all", [inner, random.choice((_handles, _success))(random, left)]]
        case 2:
            return ["caught", inner]
        case 3:
            return ["cleaned up", inner, _short(random)]
        case 4:
            return ["locked", inner]
        case 5:
            return ["flow", [inner]]
        case 6:
            return ["finally", inner]
        case 7 if not any(each in str(inner) for each in ("event", *OF_LOCKS)):
            return ["shielded", inner]
        case 8:
            return _success(random, left)
    return inner


def _handles(random: Random, left: list[int]) -> list[Any]:
    """Return the begin of several commands, an operation, and what becomes of the handles."""
    items = [_begun(random, left) for _ in range(random.randint(1, 3))]
    return ["begun", items, _operation(random, 1, left), random.choice(HOWS)]


def _success(random: Random, left: list[int]) -> list[Any]:
    """Return a `first_success`, and what follows."""
    return ["success", [_begun(random, left) for _ in range(random.randint(1, 3))], _operation(random, 1, left)]


def _begun(random: Random, left: list[int]) -> list[Any]:
    """Return a command or a group: steps most often, whose outcomes have an order."""
    drawn = random.random()
    if drawn < 0.45:
        return step(random)
    if drawn < 0.6:
        left[0] -= 2
        return ["flow", [random.choice((one, step))(random) for _ in range(random.randint(1, 2))]]
    if drawn < 0.75:
        left[0] -= 2
        return ["named", random.choice(SUB_FLOWS), [random.choice((one, step))(random) for _ in range(2)]]
    return _tree(random, random.choice((0, 1, 2)), left)


PROGRAMS: dict[Kind, Callable[[Random], Program]] = {
    Kind.MIXED: _mixed,
    Kind.RETRIES: _retries,
    Kind.FIRST: lambda random: [first(random) for _ in range(2)],
    Kind.AGAIN: _again,
    Kind.LOCKS: _locks,
    Kind.FLOWS: _flows,
    Kind.DEPLOYED: _deployed,
    Kind.CARELESS: _deployed,
    Kind.BROKEN: _broken,
    Kind.DEADLY: _deadly,
    Kind.RESTARTED: _restarted,
    Kind.WIDE: _wide,
    Kind.NESTED: _nested,
    Kind.OVERSIZED: _oversized,
    Kind.INLINE: _inline,
    Kind.INLINE_DEADLY: _inline_deadly,
    Kind.COMPOSED: _composed,
}
