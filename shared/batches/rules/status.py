"""The status of a batch, as its callers see it."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from shared.batches.rules.batch_run import BatchRun
from shared.batches.rules.header import Counts, Header, State


def header_to_json(batch: str, header: Header) -> dict[str, Any]:
    """Return a batch as a list shows it: what its header says. Counts of units are known there once it has ended."""
    summary = header.summary() if header.ended else {"state": header.state}
    counts = summary | {"remaining": header.counts.remaining} if header.ended else summary
    size = {} if header.size is None else {"size": header.size}
    task = {} if header.task is None else {"task": header.task.shown()}
    return {
        "id": batch,
        **counts,
        **size,
        "pages": header.pages,
        "deadline_at": header.deadline_at,
        **task,
        **_then(then_id(batch, header)),
    }


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """State and counts; `pages` is the number of pages, as far as known. `reason` and `missing` are those of an end.

    `then` is the id of the batch that follows.
    """

    id: str
    state: State
    counts: Counts
    pages: int | None
    reason: str = ""
    missing: tuple[int, ...] = ()
    then: str = ""

    @classmethod
    def of_ended(cls, batch: str, header: Header) -> Self:
        """Return the status of a batch that has ended."""
        follows = then_id(batch, header)
        return cls(batch, header.state, header.counts, header.pages, header.reason, header.missing, follows)

    @property
    def runs(self) -> bool:
        """Return whether units may run or be retried."""
        return self.state in ("open", "sealed")

    def to_json(self) -> dict[str, Any]:
        """Return the status as an answer shows it."""
        counts = {**asdict(self.counts), "remaining": self.counts.remaining}
        reason = {"reason": self.reason} if self.reason else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        return {
            "id": self.id,
            "state": self.state,
            **counts,
            "pages": self.pages,
            **reason,
            **missing,
            **_then(self.then),
        }


def then_id(batch: str, header: Header) -> str:
    """Return the id of the batch that follows, which is there once this one has succeeded; empty if none does."""
    return BatchRun(batch, header.incarnation).then_id if header.then else ""


def _then(id_: str) -> dict[str, str]:
    return {"then": id_} if id_ else {}
