"""Virtual machines as state machines: nodes, transitions with conditions, and work that is done on the way.

Each machine is a flow that waits for the next event; the graph below has its next node. A limit (here: the number of
machines that the provider starts or stops at once) is a lock, a semaphore of the kit.

    POST {base}machines/flows/machine/m1 {"arguments": {"name": "m1"}}                    201
    POST {base}machines/flows/machine/m1/events/order {"value": {"order": "start"}}       202
    GET  {base}machines/flows/machine/m1                                   200 {"progress": {"state": "running"}, …}
    GET  {base}machines/flows/machine/m1/queries/orders                    200 {"result": ["idle", "stop"], …}
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from signalbox import Call, Function, Problem, Request, Response, documents, flow, semaphore

CHANGES_AT_ONCE = 2
"""The number of machines that the provider starts or stops at the same time."""

EVENTS_A_RUN = 20
"""The number of events after which the flow continues as new, so that its log stays short however long the machine
exists.
"""

IDLE_SECONDS = 7 * 86_400

app = Function("machines")


class ProviderFailed(Problem):
    status = 502
    title = "The provider could not do it"


@app.task
def start_machine(name: str, number: int) -> None:
    _change("start", name, number)


@app.task
def stop_machine(name: str, number: int) -> None:
    _change("stop", name, number)


def _change(what: str, name: str, number: int) -> None:
    """Stand for the provider; machines that are called `broken-…` do not start."""
    if name.startswith("broken-") and what == "start":
        raise ProviderFailed(f"{name} does not {what}.")
    documents.put(f"{what}-{name}-{number}", {"machine": name, "what": what, "number": number})


@dataclass(frozen=True)
class Transition:
    """A transition to the node `to`, if the event meets the condition.

    `work` is done on the way; if it fails, the machine has failed.
    """

    to: str
    condition: Callable[[dict[str, Any]], bool] = lambda _: True
    work: Callable[[str, int], Call[None]] | None = None


GRAPH: dict[str, dict[str, Transition]] = {
    "stopped": {
        "start": Transition("running", work=lambda name, number: start_machine.call(name=name, number=number)),
        "delete": Transition("deleted", lambda event: bool(event.get("sure"))),
    },
    "running": {
        "stop": Transition("stopped", work=lambda name, number: stop_machine.call(name=name, number=number)),
        "idle": Transition("stopped", work=lambda name, number: stop_machine.call(name=name, number=number)),
    },
    "failed": {"reset": Transition("stopped")},
    "deleted": {},
}


@app.flow
async def machine(name: str, state: str = "stopped", changes: int = 0) -> Any:
    """Run a machine: move from node to node of the graph, until one that leads nowhere."""
    flow.answer("orders", lambda: sorted(GRAPH[state]))
    flow.answer("leads_to", lambda order: GRAPH[state][order].to if order in GRAPH[state] else state)
    for _ in range(EVENTS_A_RUN):
        flow.progress({"state": state, "changes": changes})
        if not GRAPH[state]:
            return {"state": state, "changes": changes}
        event = await next_event(state)
        transition = GRAPH[state].get(event["order"])
        if transition is None or not transition.condition(event):
            continue
        changes += 1
        state = await change(name, transition, changes)
        await remember.call(name=name, number=changes, state=state)
    return flow.continue_as_new(name=name, state=state, changes=changes)


async def next_event(state: str) -> dict[str, Any]:
    """Wait for an order; a machine that runs and gets none for a week is idle."""
    if "idle" not in GRAPH[state]:
        return await flow.event("order", dict[str, Any])
    _, order = await flow.first(order=flow.event("order", dict[str, Any]), idle=flow.sleep(IDLE_SECONDS))
    return order or {"order": "idle"}


async def change(name: str, transition: Transition, number: int) -> str:
    """Do a transition's work under the provider's limit. Return the node that it leads to."""
    if transition.work is None:
        return transition.to
    try:
        async with flow.lock("provider", lease_seconds=600):
            await flow.step(transition.work(name, number), attempts_max=3, pause_seconds=1)
    except Problem:
        return "failed"
    return transition.to


@app.task
def remember(name: str, number: int, state: str) -> None:
    """Store a node that a machine reached, under the change's number: it may run twice."""
    documents.put(f"node-{name}-{number}", {"machine": name, "number": number, "state": state})


@app.http("POST", "/provider")
def open_provider(_: Request) -> Response:
    """Set the number of machines that the provider changes at once."""
    semaphore("provider").ensure(permits=CHANGES_AT_ONCE, lease_seconds=600)
    return Response(202, {"changes_at_once": CHANGES_AT_ONCE})


machines = app.entry_point()
