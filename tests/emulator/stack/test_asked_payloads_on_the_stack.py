"""Random calls with large values on a local stack, over HTTP, compared with the model of their page.

The values are in files, each function is a process, and some of them are killed meanwhile.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest

from signalbox.client import Client, call
from signalbox_tools.local.stack import Stack
from tests.emulator.polling_until import eventually
from tests.simulation.worlds.asked_payloads import shop
from tests.simulation.worlds.asked_payloads.acts import drawn_script, drawn_value, listed
from tests.simulation.worlds.asked_payloads.code import Model
from tests.simulation.worlds.asked_payloads.model import (
    Bucket,
    Json,
    Open,
    Units,
    digest,
    is_large,
    shown,
    shown_arguments,
    shown_result,
)
from tests.simulation.worlds.asked_payloads.values import Value

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
SECONDS_MAX = 120.0
KEPT_SECONDS = 40
PROGRAMS = 5
SHOP = f"""
from signalbox.batches.limits import LIMITS as BATCHES
from signalbox.flows.limits import LIMITS as FLOWS
FLOWS.flow_kept_seconds = BATCHES.batch_keep_seconds = {KEPT_SECONDS}

def value_of(spec):
    raise ValueError("values are arguments here")
"""
SWEEP = f"""
from signalbox.batches.limits import LIMITS as BATCHES
from signalbox.payloads.limits import LIMITS as PAYLOADS
PAYLOADS.payload_collected_seconds, PAYLOADS.payload_walk_seconds = 15, 5
BATCHES.batch_keep_seconds = {KEPT_SECONDS}
"""
CATALOGUE = """
payloads: true
functions:
  shop: {{folder: {folder}/shop, invoked_by: [people, queue], enqueues: [batches, flows, objects, tasks],
    tasks: [make, give, take, take_outcome, refuse], flows: [inner, told], objects: [Box]}}
  batches: {{folder: {root}/functions/batches, invoked_by: [people], enqueues: [batches, tasks]}}
  tasks: {{folder: {root}/functions/tasks, invoked_by: [people, schedule], enqueues: [tasks]}}
  batch_expand: {{folder: {root}/functions/batch_expand, invoked_by: [queue], enqueues: [batches, tasks]}}
  sweep: {{folder: {folder}/sweep, invoked_by: [schedule], enqueues: [batches, flows, objects, tasks]}}
queues:
  batches: &queue {{dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}}
  flows: *queue
  objects: *queue
  tasks: *queue
schedules:
  sweep: {{function: sweep, cron: "* * * * *", local_every_seconds: 2}}
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("asked")
    for name in ("infra", "shop", "sweep"):
        (folder / name).mkdir()
    lines = Path(shop.__file__).read_text("utf-8").splitlines(keepends=True)
    own = "".join(line for line in lines if not line.startswith("from tests."))
    code = own.replace("\nJson = Any\n", f"\nJson = Any\n{SHOP}")
    (folder / "shop" / "main.py").write_text(f"{code}\n\nshop = app.entry_point()\n", "utf-8")
    own = (ROOT / "functions" / "sweep" / "main.py").read_text("utf-8")
    (folder / "sweep" / "main.py").write_text(own + SWEEP, "utf-8")
    catalogue = folder / "infra" / "catalogue.yaml"
    catalogue.write_text(CATALOGUE.format(root=ROOT, folder=folder), "utf-8")
    with Stack(folder=folder / "state", catalogue=catalogue) as stack:
        yield stack


def paths(stack: Stack) -> list[Path]:
    """Return the files, of which the sweeper removes some meanwhile."""
    return [
        Path(folder) / name
        for folder, _, names in os.walk(stack.folder)
        for name in names
        if "/payloads/" in folder and not name.endswith(".part")
    ]


def files(stack: Stack) -> Counter[str]:
    """Return the hashes of the contents of the files, each of which begins with a line about its owner."""
    found = Counter[str]()
    for file in paths(stack):
        with suppress(FileNotFoundError):
            found[sha256(file.read_bytes().partition(b"\n")[2]).hexdigest()] += 1
    return found


def without_steps(script: tuple[tuple[Any, ...], ...]) -> list[list[Any]]:
    """Return the operations that need no values but the arguments, and no messages."""
    return [op for op in listed(script) if op[0] in USED_FROM and {*op[USED_FROM[op[0]] :]} <= {"a", "b"}]


USED_FROM = {"step": 2, "sub": 2, "echo": 3, "put": 2, "send": 1, "batch": 1, "return": 1}
"""The first part of an operation that names a value which it uses."""


def drawn(seed: int) -> tuple[list[list[Any]], Value, Value, list[Value]]:
    """Return a script, its arguments, and the units of a batch, for which the model leaves nothing open."""
    rng = Random(f"on the stack {seed}")
    while True:
        script = without_steps(drawn_script(rng))
        a, b, *units = (drawn_value(rng) for _ in range(5))
        model = Model(Bucket())
        try:
            model.start("r", {"script": script, "a": a.json, "b": b.json})
            Units("b", model.bucket).add([{"value": value.json} for value in units])
        except Open:
            continue
        if len(script) > 1 and model.bucket.puts > 2:
            return script, a, b, units


def run_program(stack: Stack, client: Client, seed: int, model: Model, *, kills: Random | None = None) -> None:
    """Send a program over HTTP, and compare what is answered and shown with the model."""
    script, a, b, values = drawn(seed)
    id_ = f"r{seed}"
    arguments: dict[str, Json] = {"script": script, "a": a.json, "b": b.json}
    model.start(id_, arguments)
    run = client.flow("shop", "told").start(id_, **arguments)
    if kills:
        stack.kill(kills.choice(stack.service_names))
    units = Units(f"b{seed}", model.bucket)
    units.add([{"value": value.json} for value in values])
    batch = client.batch(f"b{seed}")
    batch.populate([{"value": value.json} for value in values], task=call("shop", "give"))
    client.tasks.enqueue(call("shop", "take", {"value": a.json}), id=f"t{seed}")
    model.send(("month",), {"value": a.json})
    if kills:
        stack.kill(kills.choice(stack.service_names))
    result = client.object("shop", "Box", id_).call("echo", timeout_seconds=SECONDS_MAX, value=b.json)
    assert result == model.call(id_, "echo", {"value": b.json})

    modelled = model.runs[id_]
    assert run.result(timeout_seconds=SECONDS_MAX) == modelled.result
    assert dict(run.show())["result"] == shown_result(modelled.result)
    assert run.whole_log()["arguments"] == {name: shown(value, stored=False) for name, value in arguments.items()}
    log: Any = client.request("GET", f"shop/flows/told/{id_}/log")
    assert log["arguments"] == shown_arguments(arguments)
    done = [each["result"] for each in log["entries"] if each["entry"] == "done" and "batch" not in each["command"]]
    assert done == [shown_result(value) for _, value in modelled.log]
    for value in {digest(value): value for value in (a.json, b.json, modelled.result) if is_large(value)}.values():
        if shown_result(value) in (*done, dict(run.show())["result"]):
            assert run.payload(digest(value)) == value
    assert batch.result(timeout_seconds=SECONDS_MAX)["succeeded"] == len(values)
    for unit, value in zip(sorted(batch.units(), key=lambda unit: int(unit["index"])), values, strict=True):
        units.succeed(int(unit["index"]), value.json)
        assert unit["result"] == shown_result(value.json)
        if is_large(value.json):
            assert batch.payload(int(unit["index"]), digest(value.json)) == value.json


def names_of(expected: Counter[str]) -> tuple[Counter[str], int]:
    """Return the hashes that the model knows, and the number of the others."""
    named = Counter({key: number for key, number in expected.items() if not key.startswith("unnamed")})
    return named, expected.total() - named.total()


def test_random_programs_over_http_store_and_show_what_the_page_says(stack: Stack) -> None:
    with Client(stack.base_url) as client:
        stored = files(stack)
        for seed in range(PROGRAMS):
            model = Model(Bucket())
            run_program(stack, client, seed, model)
            stack.wait_until_idle(SECONDS_MAX)
            (named, others), now = names_of(model.bucket.least(0)), files(stack)
            run_owned = now - stored
            assert named - run_owned - stored == Counter(), (seed, "missing")
            assert (run_owned - names_of(model.bucket.most(0))[0]).total() <= others, (seed, "more")
            stored = now


def test_no_value_is_lost_if_processes_are_killed_and_none_is_left_after_its_term(stack: Stack) -> None:
    kills = Random("killed processes")
    months: Counter[str] = Counter()
    with Client(stack.base_url, retry_seconds=SECONDS_MAX) as client:
        for seed in range(100, 100 + PROGRAMS // 2):
            model = Model(Bucket())
            run_program(stack, client, seed, model, kills=kills)
            stack.wait_until_idle(SECONDS_MAX)
            for key in model.bucket.values.get(("month",), {}):
                months[key] = 1

    def left() -> list[str]:
        found = [path.as_posix() for path in paths(stack)]
        return [path for path in found if "payloads/flows/" in path or "payloads/batches/" in path]

    eventually(lambda: not left(), SECONDS_MAX)
    assert not months - files(stack), "arguments of tasks are kept for months"
