"""The same flows on Restate, whose handlers store each step's result before the next step."""

import time
from concurrent.futures import ThreadPoolExecutor

from tests.bench import restate_server
from tests.bench.flows.kit_flows import CLIENTS
from tests.bench.flows.measures import Measures


def measure(steps: int, rounds: int, width: int, flows: int, flow_steps: int, *, calls: bool = False) -> Measures:
    """Measure chains, fan-outs, and flows at once, as `tests.bench.flows.kit_flows.measure` does.

    The steps run in the handler of their flow, or are `calls` of another handler, which the server delivers.
    """
    with restate_server.serving("restate_flows.mjs") as call:

        def chain(length: int) -> tuple[float, list[float]]:
            at = time.time()
            return at, call("Flow", "calls" if calls else "chain", body=length)

        def one_step() -> float:
            at, _ = chain(1)
            return time.time() - at

        chain(steps)
        runs = [chain(steps) for _ in range(rounds)]
        alone = [one_step() for _ in range(rounds)]
        fans = [after - before for before, after in (call("Flow", "fan", body=width) for _ in range(rounds))]
        began = time.time()
        with ThreadPoolExecutor(CLIENTS) as pool:
            ends = list(pool.map(lambda _: chain(flow_steps), range(flows)))
        seconds = time.time() - began
    assert all(len(times) == flow_steps for _, times in ends), "a step was lost"
    return Measures(
        chains=[times for _, times in runs],
        first=[times[0] - at for at, times in runs],
        fan_outs={f"fan-out {width}": fans},
        alone=alone,
        at_once=flows,
        at_once_steps=flow_steps,
        at_once_seconds=seconds,
        crowded=[times[0] - at for at, times in ends],
    )
