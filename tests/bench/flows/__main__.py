"""Measure flows on a local stack, compared with DBOS, Celery, durabletask and Restate.

In the table, the steps of `flows` are tasks, and those of `inline` are inline steps.

python -m tests.bench.flows --steps 30 --rounds 5 --flows 1000

The store is the one that a stack chooses (`STORE`). Task steps are
compared with steps that a queue or a server delivers (a queue of DBOS, calls of Restate, a chain of Celery), inline
steps with steps that run in the process of their workflow.

`chain`: steps one after another in one flow. A step lasts from the beginning of its code to that of the next step's.
`of it queue`: from the time at which a step's task is due to the beginning of its code. The rest is the flow's own
turn: two round trips to the store, the replay, and the creation of the next task. `first step`: from the call that
starts a flow to its first step. `a flow`: from the call to the result of a flow of one step. `a step`: the mean of a
chain, of all chains. A list or a batch: from the step before it to the step after it. `1,000 flows`: all at
once, started by 16 clients; `their first`: from the start of each to its first step. `processor`: the processor time
of a step of these flows, by part of the stack. Each system first runs a chain that is not measured.

durabletask runs on its in-memory backend, which stores nothing. Celery needs a `redis-server` on the PATH. `uv`
makes an environment for each outside the project, which needs a network or a package cache once. DBOS runs on SQLite,
and also on PostgreSQL if that is installed (`postgresql.py`). DBOS' queue has shorter chains and fewer flows. Restate,
whose server runs permanently, is left out if it is not installed (`tests/bench/restate_server.py`). Numbers of a laptop
compare with each other, not with the cloud.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench import restate_server
from tests.bench.flows import postgresql, restate_flows
from tests.bench.flows.kit_flows import measure, stepping
from tests.bench.flows.measures import Measures, figures, lines, processor_figures
from tests.bench.rivals.rival_processes import PACKAGES

DBOS = ("dbos_flows", ("dbos==3.4.0",))
DURABLETASK = ("durabletask_flows", ("durabletask==1.12.0",))
CELERY = ("celery_flows", PACKAGES["celery_chord"])
FOLDER = Path(__file__).parents[1] / "rivals"
SECONDS_MAX = 600.0
POLLED_STEPS_MAX, POLLED_FLOWS_MAX = 30, 100
"""The longest chain and the most flows of DBOS' queue, which is polled for each step: a thousand take ten minutes."""


Rival = tuple[str, str, Measures | str]
"""The kind of a rival's steps, its name, and its measures or the reason why it has none."""


def rivals(sizes: list[int]) -> Iterator[Rival]:
    """Measure each rival, whose steps are compared with the kit's steps of the same kind."""
    steps, _, width, flows, flow_steps = sizes
    polled = [min(steps, POLLED_STEPS_MAX), 1, width, min(flows, POLLED_FLOWS_MAX), flow_steps]
    yield "task", "DBOS queue", in_python(*DBOS, polled, "queue")
    yield "task", "Celery chain", in_python(*CELERY, sizes)
    yield "inline", "DBOS/SQLite", in_python(*DBOS, sizes, "steps")
    if programs := postgresql.programs():
        with postgresql.serving(programs) as url:
            yield "inline", "DBOS/PostgreSQL", in_python(*DBOS, sizes, "steps", url)
    yield "inline", "durabletask", in_python(*DURABLETASK, sizes)
    if restate_server.are_installed():
        yield "task", "Restate calls", restate_flows.measure(*sizes, calls=True)
        yield "inline", "Restate", restate_flows.measure(*sizes)
    else:
        yield "inline", "Restate", "not measured: it is not installed"


def in_python(script: str, packages: Sequence[str], sizes: list[int], *others: str) -> Measures | str:
    """Run a rival that is a Python package; return its measures, or the reason why it has none."""
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    command = [uv, "run", "--quiet", "--no-project", "--isolated", "--python", sys.executable]
    command += [part for package in packages for part in ("--with", package)]
    try:
        ended = subprocess.run(
            [*command, "python", str(FOLDER / f"{script}.py"), *map(str, sizes), *others],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
    except OSError:
        return "not measured: uv is not installed"
    except subprocess.TimeoutExpired:
        return f"stopped after {SECONDS_MAX:,.0f} s"
    if ended.returncode:
        return f"failed: {(ended.stderr.splitlines() or ['no message'])[-1]}"
    return Measures.from_json(json.loads(ended.stdout.splitlines()[-1]))


def on_a_new_stack(sizes: list[int], *, inline: bool = False) -> Measures:
    """Measure the kit's flows on a stack whose store is empty."""
    with tempfile.TemporaryDirectory() as folder, stepping(Path(folder)) as client:
        return measure(client, *sizes, inline=inline)


def table(sizes: list[int], *, alone: bool) -> Iterator[str]:
    """Measure, and iterate over the lines of the table."""
    own, inline = on_a_new_stack(sizes), on_a_new_stack(sizes, inline=True)
    yield from lines("flows", own, own)
    yield from lines("inline", inline, own)
    yield from processor_figures(own, inline)
    measured = {"task": own, "inline": inline}
    for kind, name, found in () if alone else rivals(sizes):
        if not isinstance(found, Measures):
            yield f"{name:<16}{found}"
            continue
        yield from lines(name, found, measured[kind])
        yield from figures(kind, measured[kind], name, found)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flows", description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=30, help="steps of a chain (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=10, help="chains and fan-outs (default: %(default)s)")
    parser.add_argument("--width", type=int, default=100, help="steps of a fan-out (default: %(default)s)")
    parser.add_argument("--flows", type=int, default=1_000, help="flows at once (default: %(default)s)")
    parser.add_argument("--flow-steps", type=int, default=3, help="steps of each of these (default: %(default)s)")
    parser.add_argument("--no-rivals", action="store_true", help="measure the kit alone")
    chosen = parser.parse_args()
    sizes = [chosen.steps, chosen.rounds, chosen.width, chosen.flows, chosen.flow_steps]
    for line in table(sizes, alone=chosen.no_rivals):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
