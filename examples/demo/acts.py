"""The five steps of the demo. The first three are the gazetteer's, whose own steps they gather under a heading."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from examples.demo import batches, philosophers
from examples.gazetteer.client import Documents
from examples.gazetteer.data import Document
from examples.gazetteer.job import Job, Result, Site, Watch
from examples.gazetteer.steps import Step, plan

Play = Callable[[Documents, Site, Watch], Iterator[Result]]


@dataclass(frozen=True, slots=True)
class Act:
    """One of the five, with what it shows in a sentence."""

    name: str
    story: str
    play: Play


def acts(documents: dict[str, Document], run: str) -> Sequence[Act]:
    """Give all five; `run` is a word that no other run on the same store has used."""
    steps = {step.name: step for step in plan(documents)}
    changes = [step for name, step in steps.items() if name not in ("load", "query by copies", "verify all")]
    return (
        Act("Load", "documents with links, in random order, from many threads", _job([steps["load"]])),
        Act("Change", "what is embedded elsewhere: every copy follows", _job(changes)),
        Act(
            "Ask",
            "by fields of copies, and read everything back",
            _job([steps["query by copies"], steps["verify all"]]),
        ),
        Act("Dine", "philosophers as continuations on semaphores: nobody waits in a process", philosophers.play(run)),
        Act("Sew", "batches that say complete once", batches.play(run)),
    )


def _job(steps: Sequence[Step]) -> Play:
    def play(client: Documents, site: Site, watch: Watch) -> Iterator[Result]:
        return Job(client, site, watch).run(steps)

    return play
