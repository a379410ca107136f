"""Random programs of a flow: trees of statements and commands, the code that runs them, and their text in Python.

`run_program` awaits the commands of any `Commands`: those of the library, or those of the model. Each command has its
own label, except that events share two names, and that the labels of a later generation have its number.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Protocol

from signalbox import Problem, flow

EVENTS = ("a", "b")
LEAVES = ("step", "step", "step", "sleep", "event", "event", "lock", "flow", "run")
"""The kinds of commands, each as often as it is drawn."""

GROUPS = ("all", "first", "first_success", "settled")
DRAWN_GROUPS = ("all", "all", "all", "first", "first_success", "settled")


class Commands(Protocol):
    """The functions for a flow's code that a program uses."""

    def command(self, kind: str, label: str) -> Any: ...
    def all(self, *items: Any) -> Any: ...
    def settled(self, *items: Any) -> Any: ...
    def first(self, *items: Any) -> Any: ...
    def first_success(self, *items: Any) -> Any: ...
    def shield(self, item: Any) -> Any: ...
    def begin(self, item: Any) -> Any: ...
    def wait_for(self, item: Any, label: str) -> Any: ...
    def map(self, items: Sequence[Callable[[], Awaitable[Any]]], at_once: int) -> Any: ...
    def as_completed(self, *items: Any) -> Any: ...
    def cancel(self, handle: Any) -> bool: ...
    def done(self, handle: Any) -> bool: ...
    def now(self) -> int: ...
    def again(self, generation: int) -> Any: ...


@dataclass(frozen=True, slots=True)
class Tree:
    """A statement or an item of a program, with the label of its command, variable, branch or mode."""

    kind: str
    label: str = ""
    parts: tuple[Tree, ...] = ()

    def __len__(self) -> int:
        return 1 + sum(map(len, self.parts))

    def smaller(self) -> Iterator[Tree]:
        """Yield trees with a part less, or with a part in place of the whole."""
        if self.kind not in ("block", "code"):
            yield from (part for part in self.parts if is_statement(part) == is_statement(self))
        if self.kind == "code":
            yield from (item for statement in self.parts[0].parts for item in statement.parts if not is_statement(item))
        for at, part in enumerate(self.parts):
            if self.kind in ("block", "all", "settled", "as_completed") or (
                self.kind in (*GROUPS, "map") and len(self.parts) > 1
            ):
                yield replace(self, parts=self.parts[:at] + self.parts[at + 1 :])
            if self.kind == "block" and part.kind in ("try", "locked"):
                yield replace(self, parts=self.parts[:at] + part.parts[0].parts + self.parts[at + 1 :])
            yield from (replace(self, parts=(*self.parts[:at], less, *self.parts[at + 1 :])) for less in part.smaller())


STATEMENTS = ("block", "await", "try", "locked", "begin", "cancel", "done", "as_completed", "raise", "return", "again")


def is_statement(tree: Tree) -> bool:
    return tree.kind in STATEMENTS


# --- run ---


@dataclass
class Trace:
    """What the code of each branch has observed, in order, with the number of the entry."""

    seen: dict[str, list[str]] = field(default_factory=dict)

    def note(self, branch: str, what: str) -> None:
        self.seen.setdefault(branch, []).append(what)


RETURNED = object()


@dataclass
class Run:
    """The code of one generation of a program."""

    commands: Commands
    trace: Trace
    generation: int = 0
    handles: dict[str, Any] = field(default_factory=dict)
    locks: dict[str, Any] = field(default_factory=dict)

    async def main(self, program: Tree) -> Any:
        ended = await self.block(program, f"main {self.generation}")
        return ended[1] if ended else "end"

    async def code(self, tree: Tree) -> Any:
        """Run a branch. It notes how it ends."""
        branch = self.labelled(tree.label)
        self.trace.note(branch, "begins")
        ended = await self.block(tree.parts[0], branch)
        return ended[1] if ended else f"end of {branch}"

    async def block(self, block: Tree, branch: str) -> tuple[object, Any] | None:
        for statement in block.parts:
            if ended := await self.statement(statement, branch):
                return ended
        return None

    def labelled(self, label: str) -> str:
        return f"{label}g{self.generation}" if self.generation else label

    def note(self, branch: str, what: str) -> None:
        self.trace.note(branch, f"{self.commands.now()}: {what}")

    async def statement(self, tree: Tree, branch: str) -> tuple[object, Any] | None:
        match tree.kind:
            case "await":
                await self.observed(tree.parts[0], branch)
            case "try":
                return await self.tried(tree, branch)
            case "locked":
                async with self.commands.command("lock", self.labelled(tree.label)) as self.locks[tree.label]:
                    self.note(branch, f"holds {tree.label}")
                    try:
                        return await self.block(tree.parts[0], branch)
                    finally:
                        del self.locks[tree.label]
            case "begin":
                self.handles[tree.label] = self.commands.begin(self.item(tree.parts[0]))
            case "cancel" if handle := self.handles.get(tree.label):
                self.note(branch, f"{tree.label}.cancel() is {self.commands.cancel(handle)}")
            case "done" if handle := self.handles.get(tree.label):
                self.note(branch, f"{tree.label}.done is {self.commands.done(handle)}")
            case "as_completed":
                await self.as_completed(tree, branch)
            case "raise":
                raise Problem(tree.label)
            case "return":
                return RETURNED, f"returned {tree.label}"
            case "again" if self.generation < int(tree.label):
                return RETURNED, self.commands.again(self.generation + 1)
        return None

    async def observed(self, item: Tree, branch: str) -> None:
        """Await an item, and note its result or its error."""
        try:
            self.note(branch, shown(await self.item(item)))
        except (Problem, flow.Cancelled) as error:
            self.note(branch, f"raises {shown(error)}")
            raise

    async def tried(self, tree: Tree, branch: str) -> tuple[object, Any] | None:
        body, handler = tree.parts
        match tree.label:
            case "problem":
                try:
                    return await self.block(body, branch)
                except Problem:
                    return await self.block(handler, branch)
            case "cancelled" | "swallowed":
                try:
                    return await self.block(body, branch)
                except flow.Cancelled:
                    ended = await self.block(handler, branch)
                    if tree.label == "cancelled":
                        raise
                    return ended
            case _:
                try:
                    ended = await self.block(body, branch)
                except (
                    Problem,
                    flow.Cancelled,
                ):  # a `finally`, which is not left to Python: dropped code does not run on
                    await self.block(handler, branch)
                    raise
                return await self.block(handler, branch) or ended

    async def as_completed(self, tree: Tree, branch: str) -> None:
        """Await handles as they end, at most as many as the label says."""
        left = int(tree.label)
        try:
            async for handle in self.commands.as_completed(*map(self.item, tree.parts)):
                try:
                    self.note(branch, shown(await handle))
                except Problem as error:
                    self.note(branch, f"raises {shown(error)}")
                left -= 1
                if left == 0:
                    break
        except flow.Cancelled:
            self.note(branch, "raises Cancelled")
            raise

    def item(self, tree: Tree) -> Any:
        """Return what a tree of commands awaits."""
        commands = self.commands
        if tree.kind in LEAVES:
            label = tree.label if tree.kind == "event" else self.labelled(tree.label)
            return commands.command(tree.kind, label)
        if tree.kind in GROUPS:
            return getattr(commands, tree.kind)(*map(self.item, tree.parts))
        match tree.kind:
            case "shield":
                return commands.shield(self.item(tree.parts[0]))
            case "wait_for":
                return commands.wait_for(self.item(tree.parts[0]), self.labelled(tree.label))
            case "map":
                return commands.map([partial(self.item, part) for part in tree.parts], int(tree.label))
            case "renew":
                lock = self.locks.get(tree.label)
                return lock.renew() if lock else self.item(tree.parts[0])
            case "handle":
                return self.handles.get(tree.label) or self.item(tree.parts[0])
            case "code":
                return self.code(tree)
        raise AssertionError(tree.kind)


def shown(value: Any) -> str:
    """Return a text for what code has received, equal for the library and the model."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, flow.AllFailed):
        return f"AllFailed({', '.join(f'{at}: {shown(value.errors[at])}' for at in sorted(value.errors))})"
    if type(value) is Problem:
        return f"Problem({value.detail})"
    if isinstance(value, BaseException):
        return type(value).__name__
    if hasattr(value, "semaphore"):
        return f"lock {value.semaphore}"
    if hasattr(value, "result") and hasattr(value, "error"):
        return f"error {shown(value.error)}" if value.error is not None else f"ok {shown(value.result)}"
    return str(value)


# --- draw ---


@dataclass
class Drawing:
    """Draws a random program. Commands below `first` have no code, since a coroutine could be abandoned half done.

    `alone` is how often a command is in no further group.
    """

    rng: Random
    leaves: Sequence[str] = LEAVES
    groups: Sequence[str] = DRAWN_GROUPS
    alone: float = 0.35
    events: Sequence[str] = EVENTS
    generations: int = 0
    size: int = 14
    shields: float = 0.15
    labels: int = 0
    renews: bool = True
    handles: list[str] = field(default_factory=list)
    renewable: list[str] = field(default_factory=list)

    def program(self) -> Tree:
        block = self.block(3)
        if self.generations:
            return replace(block, parts=(*block.parts, Tree("again", str(self.generations))))
        return block

    def late_program(self) -> Tree:
        """Return a program that begins a group after a step, before whose end events are kept, and then awaits events.

        The step may be shielded: a cancel that comes during the step is then due after it. Another branch may run
        beside the group.
        """
        step = Tree("step", self.label("step"))
        late = Tree("shield", "", (step,)) if self.rng.random() < self.shields else step
        statements = (self.begins_group(), *self.waits())
        if self.rng.random() < 0.3:
            statements = (Tree("await", "", (Tree("all", "", (self.branch(statements), self.branch(self.waits()))),)),)
        last = Tree("again", str(self.generations)) if self.generations else self.statement(1)
        return Tree("block", "", (self.caught(late), *statements, last))

    def branch(self, statements: tuple[Tree, ...]) -> Tree:
        return Tree("code", self.label("branch"), (Tree("block", "", statements),))

    def waits(self) -> tuple[Tree, ...]:
        return (self.caught(self.leaf()), self.caught(self.leaf()))

    def begins_group(self) -> Tree:
        """Return a statement that awaits or begins a group, or its handles as they end."""
        kind = self.rng.choice(("await", "await", "begin", "as_completed"))
        if kind == "await":
            return self.caught(self.item(3, code=True))
        item = self.item(3, code=False)
        if kind == "as_completed":
            return Tree(kind, "2", (item, self.leaf()))
        self.handles.append(self.label("handle"))
        return Tree(kind, self.handles[-1], (item,))

    def caught(self, item: Tree) -> Tree:
        """Return a statement that awaits an item, and catches its error or its cancel."""
        body = Tree("block", "", (Tree("await", "", (item,)),))
        return Tree("try", self.rng.choice(("problem", "problem", "swallowed")), (body, Tree("block")))

    def label(self, kind: str) -> str:
        self.labels += 1
        return f"{kind[0]}{self.labels}"

    def block(self, depth: int, most: int = 4) -> Tree:
        return Tree("block", "", tuple(self.statement(depth) for _ in range(self.rng.randint(1, most))))

    def statement(self, depth: int) -> Tree:
        drawn = self.rng.random()
        self.size -= 1
        if self.size > 0 and depth > 0 and drawn < 0.3:
            mode = self.rng.choice(("problem", "cancelled", "swallowed", "finally", "finally"))
            return Tree("try", mode, (self.block(depth - 1), self.block(depth - 1, 2)))
        if self.size > 0 and depth > 0 and drawn < 0.36:
            label = self.label("lock")
            self.renewable += [label] * self.renews
            return Tree("locked", label, (self.block(depth - 1, 2),))
        if drawn < 0.48:
            begun = Tree("begin", self.label("handle"), (self.item(2, code=False),))
            self.handles.append(begun.label)
            return begun
        if drawn < 0.54 and self.handles:
            return Tree(self.rng.choice(("cancel", "cancel", "done")), self.rng.choice(self.handles))
        if drawn < 0.57:
            items = tuple(self.item(1, code=False) for _ in range(self.rng.randint(1, 3)))
            return Tree("as_completed", str(self.rng.randint(1, 3)), items)
        if drawn < 0.59:
            return Tree("raise", self.label("problem"))
        if drawn < 0.60:
            return Tree("return", self.label("result"))
        return Tree("await", "", (self.item(3, code=True),))

    def item(self, depth: int, *, code: bool) -> Tree:
        self.size -= 1
        drawn = self.rng.random()
        if depth == 0 or self.size < 0 or drawn < self.alone:
            return self.leaf()
        drawn -= self.alone + self.shields
        if drawn < 0:
            return Tree("shield", "", (self.item(depth - 1, code=code),))
        if drawn < 0.1 and self.handles:
            return Tree("handle", self.rng.choice(self.handles), (Tree("step", self.label("step")),))
        if code and drawn < 0.2:
            return Tree("code", self.label("branch"), (self.block(depth - 1, 3),))
        if code and drawn < 0.25:
            return Tree("wait_for", self.label("time"), (self.item(depth - 1, code=False),))
        if code and drawn < 0.28:
            items = tuple(self.item(depth - 1, code=True) for _ in range(self.rng.randint(1, 4)))
            return Tree("map", str(self.rng.randint(1, 3)), items)
        kind = self.rng.choice(self.groups)
        inside = code and kind in ("all", "settled")
        return Tree(kind, "", tuple(self.item(depth - 1, code=inside) for _ in range(self.rng.randint(1, 3))))

    def leaf(self) -> Tree:
        if self.renewable and self.rng.random() < 0.3:
            return Tree("renew", self.renewable.pop(), (Tree("step", self.label("step")),))
        kind = self.rng.choice(self.leaves)
        return Tree(
            kind, self.rng.choice(self.events) if kind == "event" else self.label(kind if kind != "sleep" else "time")
        )


# --- show ---


def in_python(program: Tree) -> str:
    """Return a program as the source of a flow."""
    branches: list[str] = []
    lines = ["async def program():", *_statements(program, branches, "    ")]
    return "\n".join([*branches, *lines])


def _statements(block: Tree, branches: list[str], indent: str) -> list[str]:
    lines = [line for statement in block.parts for line in _lines(statement, branches)]
    return [f"{indent}{line}" for line in lines or ["pass"]]


def _lines(tree: Tree, branches: list[str]) -> list[str]:
    match tree.kind:
        case "await":
            return [f"await {_text(tree.parts[0], branches)}"]
        case "try":
            body, handler = (_statements(part, branches, "    ") for part in tree.parts)
            catch = {"problem": "except Problem:", "finally": "finally:"}.get(tree.label, "except flow.Cancelled:")
            return ["try:", *body, catch, *handler, *(["    raise"] if tree.label == "cancelled" else [])]
        case "locked":
            return [
                f'async with flow.lock("{tree.label}") as {tree.label}:',
                *_statements(tree.parts[0], branches, "    "),
            ]
        case "begin":
            return [f"{tree.label} = flow.begin({_text(tree.parts[0], branches)})"]
        case "cancel":
            return [f"{tree.label}.cancel()"]
        case "done":
            return [f"{tree.label}.done"]
        case "as_completed":
            items = ", ".join(_text(part, branches) for part in tree.parts)
            return [f"async for handle in flow.as_completed({items}):  # {tree.label} at most", "    await handle"]
        case "raise":
            return [f'raise Problem("{tree.label}")']
        case "return":
            return [f'return "{tree.label}"']
        case "again":
            return ["return flow.continue_as_new()" + f"  # {tree.label} times"]
    raise AssertionError(tree.kind)


def _text(tree: Tree, branches: list[str]) -> str:
    items = [_text(part, branches) for part in tree.parts if not is_statement(part)]
    match tree.kind:
        case "step":
            return f"{tree.label}.call()"
        case "flow":
            return f"{tree.label}.call()"
        case "sleep" | "event" | "lock":
            return f'flow.{tree.kind}("{tree.label}")'
        case "handle":
            return tree.label
        case "run":
            return f"flow.run({tree.label})"
        case "renew":
            return f"{tree.label}.renew()"
        case "wait_for":
            return f'flow.wait_for({items[0]}, "{tree.label}")'
        case "map":
            return f"flow.map(call, [{', '.join(items)}], at_once={tree.label})"
        case "code":
            branches.extend([f"async def {tree.label}():", *_statements(tree.parts[0], branches, "    "), ""])
            return f"{tree.label}()"
    return f"flow.{tree.kind}({', '.join(items)})"
