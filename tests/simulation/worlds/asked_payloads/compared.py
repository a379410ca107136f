"""Make random calls in the test harness and in the model, and compare what is answered, shown, and stored."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from hashlib import sha256
from itertools import count
from math import inf
from random import Random
from typing import Any

from signalbox import batch, flows, objects, sub_batch, transaction
from signalbox.testing import Faults
from tests.simulation.reached_counts import LEFT_OPEN, PAYLOADS, REACHED
from tests.simulation.world import Violation
from tests.simulation.worlds.asked_payloads import shop
from tests.simulation.worlds.asked_payloads.acts import Act, drawn_act, known, listed
from tests.simulation.worlds.asked_payloads.code import UNNAMED, Model
from tests.simulation.worlds.asked_payloads.kit import (
    Kit,
    outcome_of,
    partial_post,
)
from tests.simulation.worlds.asked_payloads.model import (
    BATCH_KEPT,
    DAY,
    LEFT,
    MINUTES,
    RUN_KEPT,
    STATE_MAX,
    Bucket,
    Json,
    Open,
    Refused,
    Run,
    Thing,
    Units,
    canonical,
    digest,
    enqueue,
    is_large,
    shown,
    shown_arguments,
    shown_result,
)
from tests.simulation.worlds.asked_payloads.shop import MENDED, SHOP, TAKEN
from tests.simulation.worlds.asked_payloads.values import value_of

CHECKED_DAYS = (6.9, 7.2, 31.9, 32.2, 41.0, 129.0, 139.0)
LEFT_DAYS = 41
"""The days until nothing is left of requests that have failed."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What the kit and the model do not agree on, after the last of the acts."""

    acts: Sequence[Act]
    what: str
    model: Any
    kit: Any

    def __str__(self) -> str:
        acts = "\n".join(f"{at}: {act}" for at, act in enumerate(self.acts, 1))
        return f"\n{acts}\n\n{self.what}:\n  model: {brief(self.model)}\n  kit:   {brief(self.kit)}"


class Differs(Exception):
    """Its arguments are those of a `Difference`, without the acts."""


def brief(seen: Any) -> str:
    """Return what was seen, with runs of equal parts left out."""
    said = REPEATED.sub(lambda run: f"{run[1] * 3}…", repr(seen))
    return said if len(said) < 3_000 else f"{said[:2_000]} … {said[-900:]}"


REPEATED = re.compile(r"(.{1,8}?)\1{20,}")


def same(what: str, model: Any, kit: Any) -> None:
    if model != kit:
        raise Differs(what, model, kit)


@dataclass(slots=True)
class Comparison:
    is_on: bool
    faults: Faults | None = None
    kit: Kit = field(init=False)
    model: Model = field(init=False)
    ids: Iterator[int] = field(default_factory=count)
    compared: int = 0

    def __post_init__(self) -> None:
        self.kit = Kit(is_on=self.is_on, faults=self.faults)
        self.model = Model(Bucket(self.is_on))

    def apply(self, act: Act) -> None:
        """Raises `Differs` and `Open`."""
        self.model.now = self.kit.now
        getattr(self, act.kind)(act)

    def both(self, what: str, ours: Callable[[], object], theirs: Callable[[], object]) -> str:
        """Return the problem that both raise. A request of the kit that is refused has stored nothing."""
        problem = outcome_of(ours)
        before = self.kit.stored()
        same(f"the problem of {what}", problem, outcome_of(theirs))
        if problem:
            same(f"what {what} has stored", before, self.kit.stored())
        return problem

    def settle(self, _: Act) -> None:
        self.kit.settle()
        self.see()

    def forget(self, _: Act) -> None:
        self.kit.forget()

    # flows

    def start(self, act: Act) -> None:
        arguments = {"script": listed(act.script), "a": act.values[0].json, "b": act.values[1].json}
        if act.of in self.model.runs:
            return
        if act.how == "http":
            path = f"{SHOP}/flows/told/{act.of}"
            start = partial_post(self.kit.harness, path, {"arguments": arguments})
        else:

            def start() -> Any:
                return [shop.told.start(act.of, **arguments) for _ in range(2)]

        def with_code() -> Any:
            return self.model.start(act.of, arguments)

        if self.both(f"the start of {act.of}", with_code, start):
            self.model.runs.pop(act.of, None)

    def message(self, act: Act) -> None:
        if act.of not in self.model.runs or self.model.runs[act.of].state != "running":
            return
        number = sum(map(len, (run.answers for run in self.model.runs.values()))) + len(self.kit.placeholders)
        value, run = act.values[0].json, flows("told", act.of)
        if act.how == "update":
            key = f"u{number}"

            def send() -> Any:
                return self._hold(key, run.update("asked", value, id=key))

        else:
            key = f"e{number}"

            def send() -> Any:
                return self._hold(key, run.event("told", value, id=key), run.event("told", value, id=key))

        self.kit.settle()
        self.both(f"a message to {act.of}", lambda: self.model.message(act.of, act.how, key, value), send)
        self.kit.settle()

    def _hold(self, key: str, *sent: Any) -> None:
        self.kit.placeholders[key] = sent[0]

    def retry(self, _: Act) -> None:
        """Mend the code of flows, and continue those that have failed."""
        self.kit.settle()
        MENDED.add("flow")
        for run in self.model.runs.values():
            if run.state == "failed":
                entries = self.kit.json(f"{SHOP}/flows/told/{run.id}")["log_length"]
                flows("told", run.id).retry(from_entry=entries)
                run.continue_again()
                self.model.advance(run)
        self.kit.settle()

    def fork(self, act: Act) -> None:
        """Begin another run with the first entry of the log of one that has ended, if its code received no messages."""
        other = self.model.runs.get(act.of)
        self.kit.settle()
        if other is None or other.state != "completed" or not other.log or any(kind != "done" for kind, _ in other.log):
            return
        id_ = f"{act.of} forked {len(self.model.runs)}"
        kept = int(len(other.log) > 1)
        shop.told.fork(act.of, id_, from_entry=kept)
        self.model.start(id_, other.arguments, kept)
        self.kit.settle()

    def cut(self, act: Act) -> None:
        """Terminate a run whose step is about to run. Its late result is deleted with the run."""
        value = act.values[0]
        if act.of in self.model.runs or not self.is_on:
            return
        script = listed((("make", "c", value), ("return", "c")))
        run = Run(act.of, self.model.bucket)
        run.begin({"script": script})
        shop.told.start(act.of, script=script)
        flows("told", act.of).terminate()
        run.end("cancelled", self.kit.now)
        self.model.runs[act.of] = run
        left = ("left", act.of)
        self.model.bucket.result(left, value.json)
        self.model.bucket.end(left, self.kit.now, self.kit.now + RUN_KEPT + LEFT)
        self.kit.settle()

    def delete(self, act: Act) -> None:
        run = self.model.runs.get(act.of)
        if run is None or run.state == "running":
            return
        self.settle(act)
        flows("told", act.of).delete()
        run.delete(self.kit.now)
        if ("left", act.of) in self.model.bucket.terms:
            self.model.bucket.end(("left", act.of), self.kit.now, self.kit.now + LEFT)
        del self.model.runs[act.of]

    # objects

    def call(self, act: Act) -> None:
        method, _, how = act.how.partition(" ")
        arguments: dict[str, Json] = {"value": act.values[0].json}
        if method == "echo" and len(act.values) > 1:
            arguments["other"] = act.values[1].json
        if method == "hand":
            arguments["key"] = f"handed by {act.of}"

        def ours() -> Any:
            return self.model.call(act.of, method, arguments)

        if how == "http":
            path = f"{SHOP}/objects/Box/{act.of}/{method}"
            if method == "refuse":
                problem = outcome_of(ours) or "problem"
                return same(
                    "the problem of a method", problem, outcome_of(partial_post(self.kit.harness, path, arguments))
                )
            if self.both(
                f"{method} of {act.of}", ours, partial_post(self.kit.harness, path, arguments, self._answered)
            ):
                return None
            if self.answer.get("ready"):
                result = arguments["value"] if method == "echo" else None
                same(f"the answer of {method}", shown_result(result), self.answer["result"])
            return None
        thing = objects("Box", act.of)

        def call() -> None:
            placeholder = getattr(thing, method)(**arguments)
            if how == "then":
                placeholder.then(shop.take_outcome.call())

        if not self.both(f"{method} of {act.of}", ours, call) and how == "then":
            result = arguments["value"] if method == "echo" else None
            self.model.follow(result)
            self.model.taken[canonical(result)] += 1
        return None

    answer: Any = None
    ended: float = inf

    def _answered(self, answer: Any) -> None:
        self.answer = answer

    def remove(self, act: Act) -> None:
        if act.of not in self.model.things:
            return
        objects("Box", act.of).delete()
        self.kit.settle()
        thing = self.model.things.pop(act.of)
        thing.delete(self.kit.now)

    # batches

    def populate(self, act: Act) -> None:
        if act.of in self.model.batches:
            return
        units = Units(act.of, self.model.bucket)
        if act.how == "http":
            units.common = {"other": act.values[0].json}
            added = [{"value": value.json} for value in act.values[1:]]
            body = {
                "id": act.of,
                "task": {"function": SHOP, "task": "give", "payload": units.common},
                "units": added,
                "sealed": True,
            }
            theirs: Callable[[], object] = partial_post(self.kit.harness, "batches", body)
        elif act.how == "outside":
            added = [value.json for value in act.values]
            body = {"id": act.of, "units": added, "sealed": True}
            theirs = partial_post(self.kit.harness, "batches", body)
        elif act.how == "made":
            added = [{"spec": [*astuple(value)]} for value in act.values]

            def theirs() -> Any:
                return batch(act.of).populate([shop.make.call(**unit) for unit in added])

        else:
            fails = {"fails": True} if act.how == "failing" else {}
            added = [{"value": value.json, **fails} for value in act.values]
            options: dict[str, Any] = {"per_task": 2} if act.how == "grouped" else {}

            def theirs() -> Any:
                return batch(act.of).populate([shop.give.call(**unit) for unit in added], **options)

        if act.how == "http" and is_large(units.common):
            raise Open
        if self.both(f"the batch {act.of}", lambda: units.add(added, is_task=act.how != "outside"), theirs):
            return
        self.model.batches[act.of] = units
        begun = self.kit.now
        self.kit.settle()
        if act.how == "outside":
            for index, unit in enumerate(added):
                path, body = f"batch-complete/{act.of}/{index}", {"result": unit}
                ours = partial(units.succeed, index, unit)
                self.both("a completion", ours, partial_post(self.kit.harness, path, body))
        elif act.how != "failing":
            for index, unit in enumerate(added):
                self._succeed(units, index, value_of(unit["spec"]) if act.how == "made" else unit["value"])
        self.kit.settle()
        units.end(begun, self.kit.now)

    def _succeed(self, units: Units, index: int, result: Json) -> None:
        try:
            units.succeed(index, result)
        except Refused as refused:
            raise Open from refused  # such a unit fails

    def chain(self, act: Act) -> None:
        """Populate a batch that others follow: each has two of the values."""
        if act.of in self.model.batches:
            return
        stages = [[{"value": value.json} for value in act.values[at : at + 2]] for at in range(0, len(act.values), 2)]

        def theirs() -> None:
            follows: Any = None
            for stage in reversed(stages[1:]):
                follows = sub_batch([shop.give.call(**unit) for unit in stage], then=follows)
            batch(act.of).populate([shop.give.call(**unit) for unit in stages[0]], then=follows)

        begun = self.kit.now
        if not self.both("a chain", lambda: self.model.chain(act.of, stages), theirs):
            self.kit.settle(3)
            for number in range(len(stages)):
                place = ("batch", f"{act.of} {number}")
                self.model.bucket.end(place, begun + BATCH_KEPT, self.kit.now + BATCH_KEPT + MINUTES)

    def again(self, act: Act) -> None:
        """Retry the first unit of a batch whose units have failed, with another value."""
        units = self.model.batches.get(act.of)
        if units is None or units.results or not units.units or not units.units[0].get("fails"):
            return
        changed = {"value": act.values[0].json, "fails": False}
        path, body = f"batches/{act.of}/retry", {"units": [0], "payload": changed}
        if self.both("a retry", lambda: units.retry(changed), partial_post(self.kit.harness, path, body)):
            return
        self.kit.settle()
        units.succeed(0, changed["value"])

    # tasks

    def task(self, act: Act) -> None:
        arguments = {"value": act.values[0].json}
        if len(act.values) > 1:
            arguments["other"] = act.values[1].json

        def ours() -> Any:
            return self.model.send(("month",), arguments)

        if act.how == "http":
            body = {"function": SHOP, "task": "take", "payload": arguments}
            theirs: Callable[[], object] = partial_post(self.kit.harness, "tasks", body)
        elif act.how == "transaction":

            def theirs() -> Any:
                return transaction(shop.transacted(arguments), id=str(next(self.ids)))

        else:

            def theirs() -> Any:
                return shop.take.call(**arguments).enqueue()

        self.both("a task", ours, theirs)

    def refused(self, act: Act) -> None:
        """Enqueue a task that fails, look at its failure, and retry it."""
        arguments = {"value": act.values[0].json}
        MENDED.discard("task")

        def ours() -> Any:
            return enqueue(self.model.bucket, ("month",), arguments, self.kit.now)

        if self.both("a task", ours, lambda: shop.refuse.call(**arguments).enqueue()):
            return
        self.kit.settle()
        kept = self.kit.json("failures")["failures"][0]
        same("the arguments of a failure", shown_arguments(arguments), kept["payload"])
        MENDED.add("task")
        self.kit.harness.post(f"failures/{kept['id']}/retry")
        self.model.taken[canonical(arguments["value"])] += 1
        self.kit.settle()

    # --- what is seen at rest ---

    def see(self) -> None:
        for run in self.model.runs.values():
            self.see_run(run)
        for thing in self.model.things.values():
            self.see_thing(thing)
        for units in self.model.batches.values():
            self.see_units(units)
        if self.faults is None:
            same("the values that tasks received", self.model.taken, Counter(map(canonical, TAKEN)))
        else:
            same("the values that tasks received", set(self.model.taken), set(map(canonical, TAKEN)))
        self.compared += 1

    def see_run(self, run: Run) -> None:
        what, path = f"of the run {run.id}", f"{SHOP}/flows/told/{run.id}"
        status, log = self.kit.json(path), self.kit.json(f"{path}/log")
        same(f"the state {what}", run.state, status["state"])
        same(f"the result shown {what}", shown_result(run.result), status.get("result"))
        same(f"the result {what}", run.result, flows("told", run.id).status().result)
        same(f"the arguments {what}", shown_arguments(run.arguments), log["arguments"])
        done = [each["result"] for each in log["entries"] if each["entry"] == "done" and "batch" not in each["command"]]
        same(f"the results in the log {what}", [shown_result(value) for kind, value in run.log if kind == "done"], done)
        told = Counter(json.dumps(each["value"]) for each in log["entries"] if each["entry"] in ("event", "update"))
        received = Counter(json.dumps(shown_result(value)) for kind, value in run.log if kind != "done")
        same(f"the messages {what}", received - told, Counter())
        for key, value in run.answers.items():
            answer = self.kit.json(f"{path}/answers/{key}")
            same(f"the answer shown to {key}", shown_result(value), answer.get("result"))
            same(f"the answer to {key}", value, self.kit.placeholders[key].result())
        others = [value for other in self.model.runs.values() for value in (other.result, *other.arguments.values())]
        own = {digest(value) for value in [run.result, *run.arguments.values(), *(value for _, value in run.log)]}
        for value in others:
            if is_large(value) and digest(value) not in own and run.generation == 0:
                found = self.kit.harness.get(f"{path}/payloads/{digest(value)}")
                same(f"a value of another run {what}", 404, found.status)
                break
        for value in [run.result, *(value for _, value in run.log), *run.arguments.values()]:
            if is_large(value):
                loaded = self.kit.json(f"{path}/payloads/{digest(value)}")
                same(f"a large value {what}", value, loaded.get("value"))
                break
        same("an unknown value", 404, self.kit.harness.get(f"{path}/payloads/{'0' * 64}").status)

    def see_thing(self, thing: Thing) -> None:
        path = f"{SHOP}/objects/Box/{thing.key}"
        state = self.kit.json(f"{path}?state=true").get("state")
        stored = is_large(thing.state, STATE_MAX)
        same(f"the state of {thing.key}", shown(thing.state, stored=stored) if stored else thing.state, state)
        if stored:
            same("a large state", thing.state, self.kit.json(f"{path}/payloads/{digest(thing.state)}").get("value"))

    def see_units(self, units: Units) -> None:
        shown_units = self.kit.json(f"batches/{units.id}/units")["units"]
        results = {each["index"]: each["result"] for each in shown_units if each["state"] == "succeeded"}
        same(
            f"the units of {units.id}", {index: shown_result(value) for index, value in units.results.items()}, results
        )
        lines = self.kit.harness.get(f"batches/{units.id}/results?state=succeeded").body.splitlines()
        same(f"the download of {units.id}", results, {each["index"]: each["result"] for each in map(json.loads, lines)})
        got = {each["index"]: each["result"] for each in batch(units.id).results("succeeded")}
        same(f"the results of {units.id}", units.results, got)
        for index, value in units.results.items():
            if is_large(value):
                path = f"batches/{units.id}/units/{index}/payloads/{digest(value)}"
                same(f"the result of unit {index}", value, self.kit.json(path).get("value"))
                break

    def see_bucket(self) -> None:
        kit, now = self.kit.stored(), self.kit.now
        least, most = self.model.bucket.least(now), self.model.bucket.most(now)
        unnamed = sum(each.startswith(UNNAMED) for each in least), sum(each.startswith(UNNAMED) for each in most)
        named = [Counter({key: n for key, n in each.items() if not key.startswith(UNNAMED)}) for each in (least, most)]
        missing, more = named[0] - kit, kit - named[1]
        if self.faults and now < self.ended + LEFT_DAYS * DAY:
            known_ = {key for values in self.model.bucket.values.values() for key in values}
            more = Counter({key: number for key, number in more.items() if key not in known_})
        if missing:
            raise Differs(f"missing in the bucket after {now / DAY:.1f} days", self._sizes(missing), self._places())
        owned = self._owned(more) if self.faults and now < self.ended + LEFT_DAYS * DAY else more.total()
        if not (unnamed[0] <= more.total() and owned <= unnamed[1]):
            raise Differs(f"too many or few in the bucket after {now / DAY:.1f} days", unnamed, self._places(more))
        self.compared += 1

    def _sizes(self, hashes: Counter[str]) -> Any:
        places = [
            (place, key[:6], bytes_) for place, all_ in self.model.bucket.values.items() for key, bytes_ in all_.items()
        ]
        return [each for each in places if any(key.startswith(each[1]) for key in hashes)], hashes

    def _owned(self, hashes: Counter[str]) -> int:
        """Return the number of values with these hashes, of which an owner has each once.

        A delivery that has stored a value, and whose commit has failed, leaves it under another incarnation.
        """
        return len({(key.rsplit("/", 2)[0], key.rpartition("/")[2]) for key, _, _ in self._places(hashes)})

    def _places(self, hashes: Counter[str] | None = None) -> Any:
        contents = self.kit.harness.payloads.contents
        return [
            (key, len(content), content[:30])
            for key, content in contents.items()
            if hashes is None or sha256(content).hexdigest() in hashes
        ]

    def show(self, trace: Callable[[str], None] | None) -> None:
        """Print what has been sent, what the bucket has, and the requests to it."""
        if trace:
            for run in self.model.runs.values():
                trace(f"  the run {run.id} is {run.state} after {len(run.log)} entries")
                for kind, value in run.log:
                    trace(f"    {kind} {ascii(value)[:40]}")
            for thing in self.model.things.values():
                trace(f"  the object {thing.key} has had {thing.calls} calls")
            for hash_, number in sorted(self.kit.stored().items()):
                trace(f"  stored {number} × {hash_[:12]}")
            trace(f"  requests to the bucket: {dict(self.kit.requests)}")
            trace(f"  after {self.kit.now:.0f} s")

    def see_requests(self) -> None:
        """Without faults, each value is put once, or once for each time that it is received."""
        puts = self.kit.requests["create"] + self.kit.requests["copy"]
        least = sum(map(len, self.model.bucket.values.values()))
        if not least <= puts <= self.model.bucket.puts:
            raise Differs("requests that store", (least, self.model.bucket.puts), puts)

    def end(self, *, with_terms: bool) -> None:
        self.settle(Act("settle"))
        REACHED[PAYLOADS] += sum(map(len, self.model.bucket.values.values()))
        self.kit.sweep()
        self.see_bucket()
        if self.faults is None and self.is_on:
            self.see_requests()
        self.kit.travel_to(self.kit.now + MINUTES)
        self.ended = self.kit.now
        self.see_bucket()
        if with_terms:
            begun = self.kit.now
            for days in CHECKED_DAYS:
                self.kit.travel_to(begun + days * DAY)
                self.see_bucket()


def difference(
    acts: Sequence[Act],
    *,
    is_on: bool = True,
    with_terms: bool = False,
    faults: Faults | None = None,
    trace: Callable[[str], None] | None = None,
) -> Difference | None:
    """Return the first thing that differs, or None."""
    applied: list[Act] = []
    TAKEN.clear()
    MENDED.clear()
    comparison = Comparison(is_on, faults)
    with comparison.kit.harness as harness:
        harness.add(shop.app)
        try:
            for act in acts:
                applied.append(act)
                if trace:
                    trace(str(act))
                comparison.apply(act)
                comparison.show(trace)
            comparison.end(with_terms=with_terms)
            comparison.show(trace)
        except Open:
            REACHED[LEFT_OPEN] += 1
            return None
        except Differs as differs:
            return Difference(applied, *differs.args)
        except Exception as error:  # noqa: BLE001  whatever the kit raises is a difference
            return Difference(applied, "raises", "", repr(error))
    return None


@dataclass(frozen=True, slots=True)
class Program:
    """The acts of a seed."""

    acts: tuple[Act, ...]
    is_on: bool = True
    with_terms: bool = False
    faults_of: int | None = None

    @classmethod
    def of(cls, seed: int) -> Program:
        rng = Random(f"asked payloads {seed}")
        is_on, with_terms = rng.random() < 0.9, rng.random() < 0.3
        faults_of = seed if rng.random() < 0.2 else None
        first = drawn_act(rng, 0)
        return cls((first, *(drawn_act(rng, n) for n in range(1, rng.randint(1, 6)))), is_on, with_terms, faults_of)

    def difference(self, trace: Callable[[str], None] | None = None) -> Difference | None:
        faults = (
            Faults(duplicate=0.3, lose_answer=0.2, reorder=True, seed=self.faults_of)
            if self.faults_of is not None
            else None
        )
        return difference(self.acts, is_on=self.is_on, with_terms=self.with_terms, faults=faults, trace=trace)

    def smaller(self) -> Iterator[Program]:
        for at, act in enumerate(self.acts):
            yield replace(self, acts=(*self.acts[:at], *self.acts[at + 1 :]))
            for op in range(len(act.script)):
                script = tuple(known((*act.script[:op], *act.script[op + 1 :])))
                yield replace(self, acts=(*self.acts[:at], replace(act, script=script), *self.acts[at + 1 :]))
        if self.faults_of is not None:
            yield replace(self, faults_of=None)


def shrunk(program: Program, found: Difference) -> Difference:
    """Return a difference that no smaller program has."""
    while True:
        for smaller in program.smaller():
            if less := smaller.difference():
                program, found = smaller, less
                break
        else:
            return found


def run(seed: int, trace: Callable[[str], None] | None = None) -> None:
    """Compare one seed's program. Raises `Violation` with the smallest program that differs."""
    program = Program.of(seed)
    if found := program.difference(trace):
        raise Violation(f"{shrunk(program, found)}\n(on: {program.is_on}, faults: {program.faults_of})")
