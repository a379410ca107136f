"""The status of a batch, as its callers see it."""

from dataclasses import asdict, dataclass
from typing import Any, Self

from shared.batches.rules.header import Counts, Header, State


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """State and counts; `pages` is the number of pages, as far as known. `reason` and `missing` are those of an end."""

    id: str
    state: State
    counts: Counts
    pages: int | None
    reason: str = ""
    missing: tuple[int, ...] = ()

    @classmethod
    def of_ended(cls, batch: str, header: Header) -> Self:
        """Return the status of a batch that has ended."""
        return cls(batch, header.state, header.counts, header.pages, header.reason, header.missing)

    @property
    def runs(self) -> bool:
        """Return whether units may run or be retried."""
        return self.state in ("open", "sealed")

    def to_json(self) -> dict[str, Any]:
        """Return the status as an answer shows it."""
        counts = {**asdict(self.counts), "remaining": self.counts.remaining}
        reason = {"reason": self.reason} if self.reason else {}
        missing = {"missing": list(self.missing)} if self.missing else {}
        return {"id": self.id, "state": self.state, **counts, "pages": self.pages, **reason, **missing}
