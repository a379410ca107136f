"""The flow of simulated worlds: code that interprets the program it is started with, in two versions.

A program is JSON, a list of operations; the values that the code receives become its result. `Code` is one
deployment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from importlib import import_module
from typing import Any

from signalbox import Function
from signalbox.core.problems import Problem
from signalbox.flows.api import flow
from signalbox.flows.machine import combinations, commands, running_flow, stuck
from signalbox.flows.machine.commands import Inline, ObjectCall, SubFlow
from signalbox.flows.machine.running_flow import created
from signalbox.flows.model.definitions import FlowDefinition, Flows
from signalbox.flows.model.retention import AS_LONG_AS_NEEDED, Keeping
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.tasks.api import Call
from signalbox.tasks.model.attempts import TaskContext
from tests.simulation.processes import Killed
from tests.simulation.worlds.flow_trees import model, nodes
from tests.simulation.worlds.objects.remembering_class import CLASS

FLOW, FUNCTION, SEMAPHORE = "work", "shop", "till"
LEASE_SECONDS = 30_000_000
"""Longer than any world, so that a permit that is not released stays held."""

PAUSE_SECONDS, PAUSE_FACTOR = 0.3, 3.0
OVERSIZED_TASKS = 100
"""More tasks than a small commit has room for."""

NESTED = (
    "settled branches",
    "caught",
    "cleaned up",
    "first",
    "both",
    "burst",
    "group",
    "released early",
    "oversized",
    "shielded",
    "refused",
    "begun",
    "success",
)
LOCKS, SETTLED = (commands.HeldLock, model.Lock), (combinations.Settled, nodes.Settled)
"""Locks and settled outcomes that code receives from the library, or from a model."""

TREES = ("each of", "settled of", "one of")
Program = list[Any]

OF_THE_RUN: ContextVar[str] = ContextVar("of_the_run", default="")
OF_THE_BRANCH: ContextVar[str] = ContextVar("of_the_branch", default="")


import_module("signalbox.flows.api.host")  # as in a function that has flows: it connects calls with the flow that runs


@Function(FUNCTION).task
def priced(item: str = "", amount: int = 0) -> None:
    """Not run: a flow calls it with a wrong argument."""


@dataclass
class Code:
    """The code of the flow in one deployment. `fixed`: the operations that break it have no effect.

    `patching` is how it takes what a patch changes: as before (`never`), by `flow.patched`, or without care (`always`).
    `consumed` are the values of events that code was given, also in turns that did not count. `open` has the items of
    each `any` that the code waits for, `orders` the outcomes of handles as they ended, `wrong` what no code may see,
    `outside` the clean-ups that ran outside of a flow, and `interrupted` the
    shielded operations that a cancel interrupted. `leases_max` has the numbers of permits that the parts of the code
    may hold now.

    `runs` runs an inline step of a name. `early`: a lock is released before the operation that other deployments run
    under it. `labels`: it labels its run with what it has received. `answers`: it answers queries.
    """

    revision: int
    patching: str = "by its place"
    fixed: bool = False
    consumed: set[Any] = field(default_factory=set)
    open: list[list[Any]] = field(default_factory=list)
    orders: list[list[str]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    leases_max: list[int] = field(default_factory=list)
    early: bool = True
    labels: bool = False
    keeping: Keeping = AS_LONG_AS_NEEDED
    answers: bool = False
    mixes_contexts: bool = False
    """Whether processes of the last release take part, whose runs and branches share the context of their thread."""
    dies: Callable[[], None] = lambda: None
    runs: Callable[[str, TaskContext], Any] = lambda _, __: None

    @property
    def kit(self) -> Any:
        """The functions of `signalbox.flow`, or those of a model."""
        return flow

    @property
    def _set(self) -> str:
        """The value of a run's variable."""
        return f"of revision {self.revision}"

    @cached_property
    def flows(self) -> Flows:
        """The flows of this deployment's processes."""

        async def work(program: list[Any], total: int = 0) -> Any:
            return await self._work(program, total)

        definition = FlowDefinition.from_function(work, keeping=self.keeping)
        return Flows(FUNCTION, {FLOW: definition}, self.revision)

    async def _work(self, program: Program, total: int) -> Any:
        self._begins(OF_THE_RUN, "a run", self._set)
        seen, operations = [total], list(program)
        program.clear()  # its own list: no other run of the code sees the change
        if self.answers:
            self.kit.answer("seen", lambda: seen)
            self.kit.answer("acts", lambda: flow.send(Call(FUNCTION, "sent", {})))
        try:
            for operation in operations:
                if operation[0] == "again" and total < operation[1]:
                    return self.kit.continue_as_new(program=operations, total=total + 1)
                now = operation[1 + total % 2] if operation[0] == "in turns" else operation
                seen.append(await self._run(now))
                if self.labels:
                    self.kit.label("seen", None if len(seen) % 3 == 0 else f"{total}-{len(seen)}")
        except stuck.Cancelled:
            await self._undo()
            raise
        return seen

    async def _run(self, operation: list[Any]) -> Any:
        kind, *parts = operation
        if kind == "any":
            return await self._any(*parts)
        if kind == "all":
            return await self.kit.all(*[self._run(each) for each in parts[0]])
        if kind == "settled":
            results = await self.kit.settled(*[self._command(each) for each in parts[0]])
            return [each.result if each.error is None else str(each.error) for each in results]
        if kind == "locked":
            with self._may_hold(1):
                async with self._lock(parts[0]):
                    return await self._run(parts[0])
        if kind == "renewed":
            return await self._renewed(parts[0])
        if kind == "finally":
            return await self._finally(parts[0])
        if kind == "unreleased":
            self.leases_max.append(1)
            await self._lock(operation)
            return SEMAPHORE
        if kind == "patched":
            return await self._run(parts[2] if self._is_new(parts[0]) else parts[1])
        if kind in ("broken", "deadly"):
            return await self._breaks(kind, parts[0])
        if kind in NESTED:
            return await self._nested(kind, *parts)
        if kind == "send":
            self.kit.send(Call(FUNCTION, "sent", {"mark": f"{self.kit.uuid()}"}))
            return "sent"
        return await self._one(operation) if kind != "again" else "over"

    async def _renewed(self, operation: list[Any]) -> Any:
        """Hold a lock for an operation, and renew it before its release."""
        with self._may_hold(1):
            async with self._lock(operation) as lease:
                got = await self._run(operation)
                await self._renew(lease, operation)
                return got

    @contextmanager
    def _may_hold(self, permits: int) -> Iterator[None]:
        """Note that the code may hold so many permits while the context is entered."""
        self.leases_max.append(permits)
        try:
            yield
        finally:
            self.leases_max.remove(permits)

    async def _finally(self, operation: list[Any]) -> Any:
        """Send a task when an operation has ended, however it did."""
        try:
            return await self._run(operation)
        finally:
            self.kit.send(Call(FUNCTION, "sent", {"mark": f"{self.kit.uuid()}"}))

    # --- nested programs ---

    async def _nested(self, kind: str, *parts: Any) -> Any:
        got = "sent"
        match kind:
            case "settled branches":
                branches: list[Any] = [self._run(operation) for operation in parts[0]]
                results = await self.kit.settled(*branches)
                return [each.result if each.error is None else "?" for each in results]
            case "caught":
                return await self._caught(*parts)
            case "cleaned up":
                return await self._cleaned_up(*parts)
            case "first":
                return await self._first(*parts)
            case "both":
                return [await self._run(parts[0]), await self._run(parts[1])]
            case "group":
                return await self._group(*parts)
            case "released early":
                return await self._released_early(*parts)
            case "shielded":
                return await self._shielded(*parts)
            case "refused":
                return await self._refused(*parts)
            case "begun":
                return await self._begun(*parts)
            case "success":
                return await self._success(*parts)
            case "oversized":
                got = await self._run(parts[0])
                parts = (0 if self.fixed else OVERSIZED_TASKS,)
        for _ in range(parts[0]):
            self.kit.send(Call(FUNCTION, "sent", {"mark": f"{self.kit.uuid()}"}))
        return got

    async def _caught(self, operation: list[Any]) -> Any:
        try:
            return await self._run(operation)
        except Problem as problem:
            return f"? {problem.detail}"

    async def _cleaned_up(self, operation: list[Any], clean_up: list[Any]) -> Any:
        """Run an operation, and another one at its end, however it ends."""
        try:
            return await self._run(operation)
        finally:
            if not running_flow.is_running():
                self.outside.append(str(clean_up))
            await self._run(clean_up)

    async def _refused(self, operation: list[Any]) -> Any:
        """Call a task with an argument that it does not take, handle that, and run an operation."""
        with suppress(TypeError):
            wrong: Any = "many"
            await self.kit.all(priced.call("a"), priced.call(amount=wrong))
            return "never refused"
        return await self._run(operation)

    async def _shielded(self, operation: list[Any], then: str = "waits") -> Any:
        """Run an operation that no cancel interrupts; then wait once more, where a cancel is raised, or do not."""

        async def inner() -> Any:
            try:
                return await self._run(operation)
            except stuck.Cancelled:
                self.interrupted.append(str(operation))
                raise

        got = await self.kit.shield(inner())
        if then == "waits":
            await self._sleep(operation, 0.01)
        return got

    async def _first(self, items: list[Any], after: list[Any]) -> Any:
        """Wait for the first of several trees of commands."""
        self.open.append(items)
        try:
            with self._may_hold(sum(map(locks_in, items))):
                which, got = await self.kit.first(*map(self._tree, items))
        finally:
            self.open.remove(items)
        return [which, _released(got), await self._run(after)]

    async def _begun(self, items: list[Any], between: list[Any], how: str) -> Any:
        """Begin trees of commands, run an operation, and wait for the handles, or leave them to the end of the code."""
        self.leases_max.append(sum(map(locks_in, items)))
        handles = [self.kit.begin(self._tree(item)) for item in items]
        try:
            got = [await self._run(between)]
            with suppress(Problem):
                got.append(await self._ended(items, handles, how))
        except stuck.Cancelled:
            ending = [handle for item, handle in zip(items, handles, strict=True) if ends_by_itself(item)]
            for handle in ending if how == "cleaned up" else []:
                await self._handled(handle)
            raise
        return got

    async def _ended(self, items: list[Any], handles: list[flow.Handle[Any]], how: str) -> Any:
        match how:
            case "first":
                return _released(await self._awaited(items, self.kit.first(*handles)))
            case "success":
                return _released(await self._awaited([["each of", items]], self._succeeding(handles)))
            case "all":
                return _released(await self.kit.all(*handles))
            case "as completed":
                return await self._as_completed(items, handles)
            case "left":
                return how
            case "cancelled":
                self._cancel(handles[0])
        return [await self._handled(handle) for handle in handles]

    async def _awaited(self, items: list[Any], what: Any) -> Any:
        """Wait for what ends when one of the items does."""
        self.open.append(items)
        try:
            return await what
        finally:
            self.open.remove(items)

    async def _handled(self, handle: flow.Handle[Any]) -> Any:
        """Wait for a handle, twice, and no longer than it takes once."""
        try:
            got = await handle
        except Problem as problem:
            got = f"? {problem.detail}"
        if not self._is_done(handle):
            self.wrong.append(f"{handle} has an outcome and is not done")
        with suppress(Problem):
            await handle
        return _released(got)

    async def _as_completed(self, items: list[Any], handles: list[flow.Handle[Any]]) -> Any:
        """Wait for handles as they end; note the outcomes of steps, which are in the log in this order."""
        steps = [handle for item, handle in zip(items, handles, strict=True) if item[0] in ("step", "inline")]
        order: list[str] = []
        self.orders.append(order)
        got = []
        async for handle in self.kit.as_completed(*handles):
            got.append(await self._handled(handle))
            if handle in steps:
                order.append(str(got[-1]).removeprefix("? "))
            if len(got) == 1:
                await self._sleep(items, 0.2)
        return got

    async def _success(self, items: list[Any], after: list[Any]) -> Any:
        """Wait for the first success among trees of commands, and then for an operation."""
        with self._may_hold(sum(map(locks_in, items))), suppress(Problem):
            got = await self._awaited([["each of", items]], self._succeeding([self._tree(item) for item in items]))
            return [_released(got), await self._run(after)]
        return await self._run(after)

    async def _succeeding(self, items: list[Any]) -> Any:
        """Wait for the first success. The only problem is that of all items."""
        try:
            return await self.kit.first_success(*items)
        except flow.AllFailed as failed:
            if len(failed.errors) < len(items):
                self.wrong.append(f"only {failed.errors} of {items} have failed")
            return "?"
        except Problem as problem:
            self.wrong.append(f"a first success has raised {problem}")
            raise

    async def _group(self, tree: list[Any], after: list[Any]) -> Any:
        """Wait for a tree of commands, and then for an operation without the locks among the results."""
        try:
            with self._may_hold(locks_in(tree)):
                got = _released(await self._tree(tree))
        except Problem:
            got = "?"
        return [got, await self._run(after)]

    async def _released_early(self, operation: list[Any]) -> Any:
        """Hold a lock for an operation, or in a later deployment not."""
        with self._may_hold(0 if self.early else 1):
            lock = await self._lock(operation)
            if self.early:
                lock.release()
            got = await self._run(operation)
            lock.release()
            return got

    def _tree(self, item: list[Any]) -> Any:
        kind, *parts = item
        match kind:
            case "each of":
                return self.kit.all(*[self._tree(inner) for inner in parts[0]])
            case "settled of":
                return self.kit.settled(*[self._tree(inner) for inner in parts[0]])
            case "one of":
                return self.kit.first(*map(self._tree, parts[0]))
        return self._command(item)

    def _is_new(self, patch: str) -> bool:
        return self.patching == "always" or (self.patching == "by its place" and self.kit.patched(patch))

    async def _one(self, operation: list[Any]) -> Any:
        if OF_THE_RUN.get() != self._set:
            self._note_mixed("a branch lacks what its run has set")
        self._begins(OF_THE_BRANCH, "a branch", own := repr(operation))
        try:
            got = await self._command(operation)
            if OF_THE_BRANCH.get() not in (own, ""):
                self._note_mixed("a branch has what another one has set")
        except Problem as problem:
            return f"? {problem.detail}"
        finally:
            OF_THE_BRANCH.set("")  # in any context, if Python collects the code of a process that was killed
        return self._got(operation, got)

    def _begins(self, variable: ContextVar[str], what: str, value: str) -> None:
        """Set a context variable, which no other code has set before."""
        if variable.get():
            self._note_mixed(f"{what} begins with what another one has set")
        variable.set(value)

    def _note_mixed(self, wrong: str) -> None:
        if not self.mixes_contexts:
            self.wrong.append(wrong)

    def _got(self, operation: list[Any], value: Any) -> Any:
        if operation[0] == "event":
            self.consumed.add(value)
        if isinstance(value, list):
            value.append("received")  # in its own list, and not in the log
        return value

    async def _any(self, items: list[Any], after: list[Any]) -> Any:
        """Wait for the first, and then for what follows on that one."""
        with self._may_hold(len(items)):
            which, got = await self.kit.first(*(self._command(each) for each in items))
        got = _released(got) if items[which] == ["lock"] else got
        return [which, self._got(items[which], got), await self._run(after[which])]

    async def _breaks(self, kind: str, operation: list[Any]) -> Any:
        got = await self._run(operation)
        if not self.fixed and kind == "broken":
            raise KeyError("a bug")
        if not self.fixed:
            self.dies()
            raise Killed
        return got

    def _command(self, operation: list[Any]) -> Any:
        kind, *parts = operation
        match kind:
            case "step":
                return flow.step(Call(FUNCTION, parts[0], {}), attempts_max=parts[1], pause_seconds=PAUSE_SECONDS)
            case "inline":
                name, attempts_max, pause_seconds, timeout_seconds = parts
                code = partial(self.runs, name)
                shown = f"{name} {pause_seconds}"  # the checks read the pause
                factor = PAUSE_FACTOR if attempts_max > 1 and pause_seconds else 1.0
                inline = Inline(shown, code, attempts_max, pause_seconds, timeout_seconds, pause_factor=factor)
                return created(inline, "inline")
            case "killer":
                return created(Inline("killer 0", partial(self.runs, "killer")), "inline")
            case "sleep":
                return self._sleep(operation, parts[0])
            case "event":
                return flow.event(parts[0])
            case "lock":
                return self._lock(operation)
            case "object":
                return ObjectCall("logs", ObjectAddress(CLASS, "a"), "note", {"id": self.kit.uuid()})
            case "flow":
                return SubFlow(FUNCTION, FLOW, {"program": parts[0]})
            case "named":
                return SubFlow(FUNCTION, FLOW, {"program": parts[1]}, id=parts[0])
        raise AssertionError(f"no such operation: {kind}")

    # --- commands that have no operation of their own: `of` is the one next to them ---

    def _lock(self, of: Any) -> Any:  # noqa: ARG002  a model tells locks apart
        return flow.lock(SEMAPHORE, lease_seconds=LEASE_SECONDS)

    def _renew(self, lease: Any, of: Any) -> Any:  # noqa: ARG002  likewise
        return lease.renew()

    def _sleep(self, of: Any, seconds: float) -> Any:  # noqa: ARG002  likewise
        return flow.sleep(seconds)

    def _undo(self) -> Any:
        return Call(FUNCTION, "undo", {})

    def _cancel(self, handle: Any) -> None:
        handle.cancel()

    def _is_done(self, handle: Any) -> bool:
        return bool(handle.done)


def _released(value: Any) -> Any:
    """Release the locks in the result of an `any`; return it as JSON."""
    if isinstance(value, LOCKS):
        value.release()
        return "locked"
    if isinstance(value, SETTLED):
        return _released(value.result) if value.error is None else "?"
    return [_released(each) for each in value] if isinstance(value, list | tuple) else value


def locks_in(item: list[Any]) -> int:
    """Return the number of locks in a tree of commands."""
    kind, *parts = item
    return sum(map(locks_in, parts[0])) if kind in TREES else int(kind == "lock")


def ends_by_itself(item: list[Any]) -> bool:
    """Return whether an item of an `any` ends without an event, a permit or another flow."""
    kind, *parts = item
    if kind in ("each of", "settled of"):
        return all(map(ends_by_itself, parts[0]))
    ends = ("step", "inline", "killer", "sleep", "object")
    return any(map(ends_by_itself, parts[0])) if kind == "one of" else kind in ends
