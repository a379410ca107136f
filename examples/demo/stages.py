"""The six stages of the demo. The first three run steps of the gazetteer's job, grouped under a heading."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from examples.demo import batches, philosophers, standings
from examples.gazetteer.data import Document
from examples.gazetteer.job import LOAD_DOCUMENTS, Job, OnProgress, Result, Site
from examples.gazetteer.steps import Step, plan
from signalbox.client import Client

RunStage = Callable[[Client, Site, OnProgress], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class Stage:
    """One of the six stages, with a sentence about what it shows."""

    name: str
    summary: str
    run: RunStage


def stages(documents: dict[str, Document], run_id: str) -> Sequence[Stage]:
    """Return all six; `run_id` is a word that no other run on the same store has used."""
    steps = {step.name: step for step in plan(documents)}
    changes = [step for name, step in steps.items() if name not in ("load", "query by copies", "verify all")]
    queries = [steps["query by copies"], steps["verify all"]]
    loaded = f"documents with links, {LOAD_DOCUMENTS} a bulk call, the cities of the largest country first"
    return (
        Stage("Load", loaded, _job([steps["load"]])),
        Stage("Change", "documents that others embed: every copy follows", _job(changes)),
        Stage("Query", "by fields of copies, and read everything back", _job(queries)),
        Stage("Semaphores", "dining philosophers as continuations: no process waits", philosophers.stage(run_id)),
        Stage("Batches", "a fan-out that completes exactly once", batches.stage(run_id)),
        Stage("Standings", "counts and sums that follow, and end exact", standings.stage(run_id)),
    )


def _job(steps: Sequence[Step]) -> RunStage:
    def run(client: Client, site: Site, on_progress: OnProgress) -> Iterator[Result]:
        return Job(client, site, on_progress).run(steps)

    return run
