"""A seed is a program, a schedule and faults. `Judged` says where the library breaks what the pages promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

from signalbox import Problem, flow
from signalbox.adapters.cost_meter import metered
from signalbox.adapters.http.json_bodies import json_of
from signalbox.core import outbox
from signalbox.core.effects import Effect
from signalbox.core.kit_names import SEMAPHORE_ADMIT
from signalbox.core.ports import Committed, Conflict, Ports, Query, Write
from signalbox.core.problems import Unavailable
from signalbox.flows import sweep
from signalbox.flows.api.runs import Flow
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.messages import Event, Message, Result, message_to_record
from signalbox.flows.problems import CannotRetry, FlowEnded, NoFlow
from signalbox.flows.service import messages, reads, retries, starts
from signalbox.flows.service.turns import NOT_CONTINUED
from signalbox.flows.shown import FlowLogShown
from signalbox.semaphores.model.settings import SemaphoreSettings
from signalbox.semaphores.service import settings, views
from signalbox.semaphores.tasks import TASKS
from signalbox.testing.flow_replay import DoesNotFit, replay
from signalbox.testing.replaced_limits import replaced
from tests.simulation.world import Violation
from tests.unit.flows.shops import FUNCTION, Shop, flows_of, step

ROOT = FlowAddress("root", "1")
EVENTS, LOCK, LEASE_SECONDS = ("a", "b"), "l", 86_400
SMALL = {"flow_tail_bytes_max": 300, "flow_live_tail_bytes_max": 100, "flow_chunk_bytes_max": 900}
MOVES_MAX, ROUNDS_MAX, DELIVERIES_MAX = 60, 12, 600


NEVER_REFUSED = ("step-running", "being-removed", "deadline-over", "too-many")
"""Nothing in these programs is a reason for it."""


@dataclass(frozen=True, slots=True)
class Node:
    """A statement or an item of a group; `label` is unique in the program."""

    kind: str
    label: str
    parts: tuple[Node, ...] = ()

    def all_nodes(self) -> Iterator[Node]:
        yield self
        for part in self.parts:
            yield from part.all_nodes()

    def __str__(self) -> str:
        return f"{self.kind} {self.label}" + (f"({', '.join(map(str, self.parts))})" if self.parts else "")


def detail_of(header: FlowHeader) -> str:
    """Return the error of a run that has failed."""
    assert header.end
    return str((header.end.outcome.error or {})["detail"])


class Drawing:
    """Draws a program."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.drawn = rng, 0

    def node(self, kind: str, *parts: Node) -> Node:
        self.drawn += 1
        return Node(kind, f"{kind[0]}{self.drawn}", parts)

    def block(self, depth: int, *, locked: bool = False) -> Node:
        return self.node("block", *(self.statement(depth, locked) for _ in range(self.rng.choice((1, 2, 2, 3)))))

    def statement(self, depth: int, locked: bool) -> Node:
        kinds = ["step", "step", "step", "event", "event", "sleep", "uuid", "raises", "bug", "send"]
        if depth:
            kinds += ["all", "all", "settled", "try", "sub", "sub", "begun"] + ["locked"] * (not locked)
        kind = self.rng.choice(kinds)
        match kind:
            case "all" | "settled":
                return self.node(kind, *(self.item(depth - 1, kind) for _ in range(self.rng.choice((2, 3)))))
            case "try":
                return self.node(kind, self.item(depth - 1), self.node("step"))
            case "begun":
                return self.node(kind, self.item(depth - 1, "settled"), self.item(depth - 1))
            case "sub" | "locked":
                return self.node(kind, self.block(depth - 1, locked=True))
        return self.node(kind)

    def item(self, depth: int, group: str = "") -> Node:
        kind = self.rng.choice(
            ["step", "step", "step", *["event"] * (group != "settled"), *["sub", "sub"] * bool(depth)]
        )
        return self.node("sub", self.block(depth - 1, locked=True)) if kind == "sub" else self.node(kind)


class FaultyStore:
    """A store whose commits may not arrive, may lose their answer, and may have another operation before them."""

    def __init__(self, judged: Judged, store: Any) -> None:
        self._judged, self._store = judged, store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def commit(self, writes: Sequence[Write]) -> Committed:
        judged = self._judged
        judged.beside()
        if judged.fails(0.04):
            raise Unavailable("it did not arrive")
        committed: Committed = self._store.commit(writes)
        judged.look()
        if judged.fails(0.04):
            raise Unavailable("the answer is lost")
        return committed


@dataclass
class Kept:
    """What a retry promised: the first entries stay, but for the blanks."""

    rewinds: int
    entries: list[Any]
    blanks: set[int]


@dataclass
class Judged:
    """One seed."""

    seed: int
    faults: bool = True
    log: list[str] = field(default_factory=list)
    reached: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = Random(self.seed)
        self.program = Drawing(self.rng).block(2)
        nodes = list(self.program.all_nodes())
        breakable = [each.label for each in nodes if each.kind in ("step", "raises", "bug")]
        self.broken = {label for label in breakable if self.rng.random() < 0.4}
        self.operations: dict[str, dict[str, Any]] = {}
        self.sent: dict[str, set[str]] = {}
        self.accepted: dict[FlowAddress, list[tuple[str, int]]] = {}
        self.ends: set[int] = set()
        self.told: dict[str, Any] = {}
        self.kept: dict[FlowAddress, Kept] = {}
        self.keys: dict[str, tuple[FlowAddress, retries.RetryOptions, str]] = {}
        self.ids: dict[FlowAddress, str] = {}
        self.numbers = 0
        self.failures: dict[FlowAddress, tuple[str, int, list[Any]]] = {}
        self.rough = self.foreign = self.changes_code = False
        self.own = Random(f"code {self.seed}")
        self.is_beside = True
        subs = {each.label: each for each in nodes if each.kind == "sub"}
        codes = [self.code("root", self.program), *(self.code(label, node.parts[0]) for label, node in subs.items())]
        self.shop = Shop(flows_of(*codes))
        world = self.shop.world
        world.ports = metered(Ports(FaultyStore(self, world.store), world, world, world))
        self.sure = metered(Ports(world.store, world, world, world))
        vars(self.shop)["run_task"] = self.run_task
        settings.put(self.sure, LOCK, SemaphoreSettings(1, LEASE_SECONDS))

    # --- the program ---

    def code(self, name: str, node: Node) -> Callable[..., Any]:
        async def code() -> list[Any]:
            if self.foreign:
                raise ValueError("the code of another deployment fits no run")
            out: list[Any] = []
            await self.run(node, out)
            return out

        code.__name__ = name
        return code

    def command(self, node: Node) -> Any:
        match node.kind:
            case "step":
                return step(node.label)
            case "event":
                return flow.event(EVENTS[int(node.label[1:]) % 2], int)
            case "sub":
                return SubFlow(FUNCTION, node.label, {})
        raise AssertionError(node.kind)

    async def run(self, node: Node, out: list[Any]) -> None:
        match node.kind:
            case "block":
                for part in node.parts:
                    await self.run(part, out)
            case "step" | "sub" | "event":
                out.append([node.label, await self.command(node)])
            case "sleep":
                await flow.sleep(5)
            case "uuid":
                out.append([node.label, str(flow.uuid())])
            case "send":
                flow.send(step(node.label))
            case "raises":
                if node.label in self.broken:
                    raise Problem(f"{node.label} raises")
            case "bug":
                if node.label in self.broken:
                    raise ValueError(f"{node.label} has a bug")
            case "all":
                values = await flow.all(*map(self.command, node.parts))
                out.extend([part.label, value] for part, value in zip(node.parts, values, strict=True))
            case "settled":
                settled = await flow.settled(*map(self.command, node.parts))
                out.append([node.label, [str(each.error or each.result) for each in settled]])
            case "try":
                try:
                    await self.run(node.parts[0], out)
                except Problem:
                    await self.run(node.parts[1], out)
                    raise
            case "begun":
                handle = flow.begin(self.command(node.parts[0]))
                await self.run(node.parts[1], out)
                out.append([node.parts[0].label, await handle])
            case "locked":
                async with flow.lock(LOCK):
                    await self.run(node.parts[0], out)
            case _:
                raise AssertionError(node.kind)

    def run_task(self, task: Effect) -> Any:
        name, operation = task.task, task.operation or task.name
        if task.function == SEMAPHORE_ADMIT:
            return TASKS[name](self.shop.ports, task.payload)
        if name == "told":
            self.told[operation] = task.payload
            return None
        if name.startswith("s") and "step" not in task.context:
            self.sent.setdefault(name, set()).add(operation)
            return None
        outcomes = self.operations.setdefault(name, {})
        if operation not in outcomes:
            self.numbers += 1
            outcomes[operation] = None if name in self.broken else f"{name} was {self.numbers}"
        if outcomes[operation] is None:
            raise Problem(f"{name} is broken")
        return outcomes[operation]

    # --- faults ---

    def fails(self, rate: float) -> bool:
        return self.faults and self.rng.random() < rate

    def beside(self) -> None:
        """Let another operation land before a commit."""
        if self.is_beside or not self.fails(0.12):
            return
        self.is_beside = True
        try:
            with suppress(Problem, Conflict):
                acts: list[Callable[[], object]] = [self.post, self.retry, self.retry, self.deliver]
                self.rng.choice([*acts, *[self.act_roughly] * self.rough])()
        finally:
            self.is_beside = False

    def look(self) -> None:
        """Note an end of the root."""
        with suppress(NoFlow):
            header = reads.get(self.sure, ROOT)
            if header.end:
                self.ends.add(header.rewinds)

    # --- moves ---

    def runs(self) -> list[FlowAddress]:
        found = self.shop.world.store.query(Query("flows", ()))
        return [FlowAddress(*each.id.split("~", 1)) for each in found]

    def say(self, text: str) -> None:
        self.log.append(text)

    def deliver(self) -> bool:
        tasks = self.shop.world.tasks
        if not tasks:
            return False
        due = [each for each in tasks if not each.not_before or each.not_before <= self.shop.world.now]
        task = self.rng.choice(due) if due else min(tasks, key=lambda each: each.not_before or self.shop.world.now)
        tasks.remove(task)
        again = self.fails(0.08)
        was = self.is_beside
        self.is_beside = was or not self.faults
        self.say(f"deliver {task.task} {dict(task.payload)}")
        try:
            self.shop.deliver(task)
        except (Unavailable, Conflict) as error:
            self.say(f"  {error!r}")
            again = True
        except Problem as error:
            self.say(f"  {error!r}")
        finally:
            self.is_beside = was
        if again:
            self.shop.world.tasks.append(task)
        self.judge_failures()
        return True

    def post(self) -> None:
        if not self.runs():
            return
        address = self.rng.choice(self.runs())
        self.post_to(address, self.rng.choice(EVENTS))

    def act_roughly(self) -> None:
        """Cancel, terminate or remove a run."""
        if not self.runs():
            return
        address = self.rng.choice(self.runs())
        act = self.rng.choice(("cancel", "terminate", "delete"))
        self.say(f"{act} {address}")
        match act:
            case "cancel":
                messages.cancel(self.shop.ports, address, "enough")
            case "terminate":
                sweep.terminate(self.shop.ports, address, "enough")
            case _:
                sweep.delete(self.shop.ports, address)

    def post_to(self, address: FlowAddress, name: str) -> None:
        self.numbers += 1
        number = self.numbers
        was, self.is_beside = self.is_beside, True  # the order of acceptance is that of the calls
        try:
            self._post(address, name, number)
        finally:
            self.is_beside = was

    def _post(self, address: FlowAddress, name: str, number: int) -> None:
        for _ in range(40):
            try:
                messages.post_event(self.shop.ports, address, name, number, f"e{number}")
            except Unavailable:
                continue
            except (FlowEnded, NoFlow) as error:
                self.say(f"event {name}={number} to {address} refused: {error!r}")
                return
            self.say(f"event {name}={number} to {address}")
            self.accepted.setdefault(address, []).append((name, number))
            return

    def header(self, address: FlowAddress) -> FlowHeader:
        return reads.get(self.sure, address)

    def entries(self, address: FlowAddress) -> list[Message]:
        return list(reads.get_log(self.sure.store, address)[1])

    def retry(self, address: FlowAddress | None = None, options: retries.RetryOptions | None = None) -> str:
        """Retry a run, perhaps by an earlier key, and compare with the page. Return the reason of a refusal."""
        rng = self.rng
        if not self.runs():
            return "removed"
        address = address or rng.choice(self.runs())
        if options is None:
            entry = rng.choice((None, None, 0, rng.randrange(8)))
            options = retries.RetryOptions(entry, entry is None and rng.random() < 0.3)
        alone = self.is_beside  # nothing else lands in between
        self.numbers += 1
        key = f"k{self.numbers}"
        if self.keys and rng.random() < 0.25 and self.faults:  # a late repeat of a request
            key = rng.choice(list(self.keys))
            address, options, _ = self.keys[key]
        if address not in self.runs():
            return "removed"
        keys = self.keys
        before = {each: (self.header(each), self.entries(each)) for each in self.runs()}
        was, _ = before[address]
        answer = None
        for _ in range(40):
            try:
                answer = retries.retry(self.shop.ports, self.shop.flows, address, key, options)
            except Unavailable:
                continue
            except NoFlow:
                return "removed"
            except CannotRetry as refused:
                reason = refused.reason
                if key in keys and not self.rough:
                    self.violate(f"a repeat of the key {key} of {address} is refused as {reason}")
                self.say(f"retry {address} {key} {options}: {reason} {refused.entries} {refused.from_entry}")
                self.count(reason)
                if alone:
                    self.judge_refusal(was, before[address][1], refused, options)
                return reason
            break
        if answer is None:
            return "unavailable"
        blanked = [at for at, _ in answer.blanked]
        done = f"{answer.execution_id} keep {answer.keep} blanked {blanked} repeated {answer.repeated}"
        self.say(f"retry {address} {key} {options}: {done}")
        if key in keys and keys[key][-1] != answer.execution_id:
            self.violate(f"the key {key} of {address} rewound twice")
        if key not in keys and answer.repeated and not self.faults:
            self.violate(f"a new key {key} of {address} was called a repeat")
        keys[key] = address, options, answer.execution_id
        self.count("retried" if not answer.repeated else "repeated")
        if alone and not answer.repeated:
            self.judge_retry(before, answer, options)
        return ""

    def count(self, what: str) -> None:
        self.reached[what] = self.reached.get(what, 0) + 1

    # --- the model ---

    def violate(self, what: str) -> None:
        lines = [f"seed {self.seed}: {what}", str(self.program), f"broken: {sorted(self.broken)}", *self.log]
        raise Violation("\n".join(lines))

    def judge_refusal(
        self, header: FlowHeader, entries: list[Message], refused: CannotRetry, options: retries.RetryOptions
    ) -> None:
        reason, state = refused.reason, header.state
        if (reason == "not-failed") != (state != "failed" and not header.stuck):
            self.violate(f"{header.address} is {state}, stuck {header.stuck}, and is refused as {reason}")
        failed = [at for at, each in enumerate(entries, 1) if isinstance(each, Result) and each.outcome.error]
        if reason == "nothing-failed" and failed:
            self.violate(f"{header.address} has failed results {failed}, and is refused as {reason}")
        if reason == "no-entry" and not (options.from_entry or 0) > len(entries):
            self.violate(f"{header.address} has {len(entries)} entries, and is refused as {reason}")
        if reason == "tail-has-effects" and (options.from_entry is not None or not refused.entries):
            self.violate(f"{header.address} is refused as {reason}: {refused.entries}")
        if reason == "holds-lock" and not any(each.kind == "locked" for each in self.program.all_nodes()):
            self.violate(f"{header.address} has no lock, and is refused as {reason}")
        if reason == "parent-moved-on" and not header.parent:
            self.violate(f"{header.address} has no parent, and is refused as {reason}")
        has_bug = any(each.kind == "bug" and each.label in self.broken for each in self.program.all_nodes())
        if reason in NEVER_REFUSED or (reason == "does-not-fit" and not has_bug and not self.foreign):
            self.violate(f"{header.address} is refused as {reason}")

    def judge_retry(self, before: Any, answer: Any, options: retries.RetryOptions) -> None:
        address = answer.address
        was, entries = before[address]
        if was.state != "failed" and not was.stuck:
            self.violate(f"{address} was {was.state}, and was retried")
        if options.from_entry is not None and answer.keep != options.from_entry:
            self.violate(f"{address} keeps {answer.keep} for {options}")
        blanks = {at for at, _ in answer.blanked}
        for at in blanks:
            entry = entries[at - 1]
            if not (isinstance(entry, Result) and entry.outcome.error):
                self.violate(f"{address} blanks {at}, which has not failed: {entry}")
        now = self.header(address)
        if (now.incarnation, now.generation, now.rewinds) != (was.incarnation, was.generation, was.rewinds + 1):
            self.violate(f"{address} has {now.incarnation}, {now.generation}, {now.rewinds}")
        records = [message_to_record(each) for each in entries]
        self.kept[address] = Kept(now.rewinds, records[: answer.keep], blanks)
        self.failures.pop(address, None)
        if was.end:
            self.failures[address] = detail_of(was), now.rewinds, records

    def judge_failures(self) -> None:
        """Compare a run whose retry could not continue: it has its first error, and its whole log."""
        for address, (detail, rewinds, records) in list(self.failures.items()):
            header = self.header(address) if address in self.runs() else None
            if header is None or header.rewinds != rewinds or not header.rewound:
                del self.failures[address]
            if header is None or header.rewinds != rewinds or header.state != "failed" or header.rewound:
                continue
            first, again, _ = detail_of(header).partition(NOT_CONTINUED)
            if not again:  # it was opened, and has failed again
                continue
            self.count("not continued")
            if first.removesuffix(".") != detail.partition(NOT_CONTINUED)[0].removesuffix("."):
                self.violate(f"{address} had failed with {detail}, and now with {detail_of(header)}")
            if [message_to_record(each) for each in self.entries(address)] != records:
                self.violate(f"{address} has not its whole log again")

    def judge_replay(self) -> None:
        """Replay the logs of all runs that continue, as before a deployment: with the code that wrote them, all fit."""
        for address in self.runs():
            header, entries = self.header(address), self.entries(address)
            if header.state not in ("running", "suspended"):
                continue
            code = Flow[Any, Any](self.shop.flows.definitions[address.name], lambda: self.shop.flows)
            try:
                replay(code, json_of(FlowLogShown.of(header, entries, entries)))
            except DoesNotFit as error:
                self.violate(f"{address} would be refused before a deployment of the same code: {error}")

    def judge_logs(self) -> None:
        for address in self.runs():
            header, entries = self.header(address), self.entries(address)
            kept = self.kept.get(address)
            if kept and kept.rewinds == header.rewinds and not header.rewound:
                now = [message_to_record(each) for each in entries[: len(kept.entries)]]
                for at, (old, new) in enumerate(zip(kept.entries, now, strict=False), 1):
                    if at not in kept.blanks and old != new:
                        self.violate(f"{address} kept {at} as {old}; it is {new}")
                if len(now) < len(kept.entries):
                    self.violate(f"{address} kept {len(kept.entries)} entries and has {len(now)}")
            received = [(each.name, each.value) for each in entries if isinstance(each, Event)]
            accepted = self.accepted.get(address, [])
            if header.end is None and received != accepted[: len(received)]:
                self.violate(f"{address} received {received} of {accepted}")

    # --- a seed ---

    def settle(self) -> None:
        for _ in range(DELIVERIES_MAX):
            tasks = self.shop.world.tasks
            if not tasks or not self.deliver():
                return
        self.violate("it does not come to rest")

    def play(self) -> None:
        """Play the seed. In some, the log has many chunks, and the mailbox many pages."""
        own = Random(f"sizes {self.seed}")
        self.rough = own.random() < 0.3
        self.changes_code = self.own.random() < 0.3
        with replaced(**(SMALL if own.random() < 0.4 else {}), mailbox_page=own.choice((2, 4, 100))):
            self._play()

    def deploy(self) -> None:
        """In some seeds, deploy code that fits no run, or the code that fits again; and replay the logs."""
        if self.changes_code and self.own.random() < (0.4 if self.foreign else 0.15):
            self.foreign = not self.foreign
            self.say(f"a deployment of {'other' if self.foreign else 'the same'} code")
        if not self.foreign and not any(label.startswith("b") for label in self.broken) and self.own.random() < 0.05:
            self.judge_replay()

    def _play(self) -> None:
        starts.start(self.sure, self.shop.flows, FUNCTION, ROOT, {}, step("told"))
        self.look()
        self.is_beside = False
        for _ in range(self.rng.randrange(10, MOVES_MAX)):
            with suppress(Unavailable, Conflict):
                drawn = self.rng.random()
                if self.rough and drawn < 0.04:
                    with suppress(Problem):
                        self.act_roughly()
                elif drawn < 0.6:
                    self.deploy()
                    self.deliver()
                elif drawn < 0.75:
                    self.post()
                elif drawn < 0.97:
                    self.is_beside, was = self.rng.random() < 0.5, self.is_beside
                    self.retry()
                    self.is_beside = was
                else:
                    self.say("a deployment mends the code")
                    self.broken = set()
        self.faults, self.is_beside, self.broken, self.foreign = False, True, set(), False
        self.say("all is mended, and nothing fails any more")
        self.finish()
        self.judge_end()

    def finish(self) -> None:
        for number in range(ROUNDS_MAX):
            self.settle()
            self.judge_logs()
            for _ in range(20):  # events that runs wait for
                waits = self.waiting()
                if not waits:
                    break
                for address, name in waits:
                    self.post_to(address, name)
                self.settle()
            self.judge_logs()
            if self.rough and (ROOT not in self.runs() or self.header(ROOT).state == "cancelled"):
                return
            header = self.header(ROOT)
            if header.state == "completed":
                return
            self.sweep()
            if header.state == "failed" or header.stuck:
                options = retries.RetryOptions() if number < 4 else retries.RetryOptions(0)
                if number % 2 and number < 4:
                    options = retries.RetryOptions(len(self.entries(ROOT)))
                if self.retry(ROOT, options) == "holds-lock" and number < 4:
                    options = retries.RetryOptions(0)
                    self.retry(ROOT, options)
            else:
                for address in self.runs():
                    if self.header(address).stuck or self.header(address).state == "failed":
                        self.retry(address, retries.RetryOptions(0 if number > 3 else None))
        self.violate(f"the root does not complete: {self.header(ROOT)}")

    def sweep(self) -> None:
        self.shop.world.pass_time(4000)
        outbox.sweep(self.sure)
        sweep.sweep(self.sure)

    def waiting(self) -> list[tuple[FlowAddress, str]]:
        found = []
        for address in self.runs():
            header = self.header(address)
            if not header.end and not header.stuck:
                for wait in header.pending.values():
                    kind, _, name = wait.signature.partition(" ")
                    if kind == "event":
                        found.append((address, name))
        return found

    def judge_end(self) -> None:
        self.settle()
        self.sweep()
        self.settle()
        if not self.rough:
            header = self.header(ROOT)
            assert header.end
            self.judge_value(ROOT, header.end.outcome.result, self.program)
        for address in self.runs():
            if not self.header(address).end:
                self.violate(f"{address} goes on although the root has ended")
        if leases := views.get(self.sure, LOCK).semaphore.leases:
            self.violate(f"a lock is held after the end: {leases}")
        if len(self.told) != len(self.ends) and not self.rough:
            self.violate(f"the ends {self.ends} were told as {self.told}")

    def judge_value(self, address: FlowAddress, out: Any, node: Node) -> None:
        expected = list(self.expected(node))
        if [label for label, _ in out] != [each.label for each in expected]:
            self.violate(f"the result is {out}; it should have {[each.label for each in expected]}")
        received = [value for (_, value), each in zip(out, expected, strict=True) if each.kind == "event"]
        if len(set(received)) != len(received):
            self.violate(f"{address} received an event twice: {out}")
        for (label, value), each in zip(out, expected, strict=True):
            if each.kind == "step" and value not in self.operations[label].values():
                self.violate(f"{label} has never ended with {value}")
            if each.kind == "sub":
                self.judge_value(address, value, each.parts[0])
            if each.kind == "event" and address == ROOT and node is self.program:
                of_name = [number for _, number in self.accepted.get(address, [])]
                if value not in of_name:
                    self.violate(f"{label} received {value}")
        if address == ROOT and node is self.program:
            for name in EVENTS:
                received = [
                    (value, each) for (_, value), each in zip(out, expected, strict=True) if each.kind == "event"
                ]
                got = [value for value, each in received if self.command(each).name == name]
                of_name = [number for which, number in self.accepted.get(address, []) if which == name]
                if got != of_name[: len(got)]:
                    self.violate(f"the events {name} were received as {got}, and accepted as {of_name}")

    def expected(self, node: Node) -> Iterator[Node]:
        match node.kind:
            case "step" | "event" | "sub" | "uuid" | "settled":
                yield node
            case "block" | "all" | "locked":
                for part in node.parts:
                    yield from self.expected(part)
            case "begun":
                yield from self.expected(node.parts[1])
                yield from self.expected(node.parts[0])
            case "try":
                yield from self.expected(node.parts[0])
