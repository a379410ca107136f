"""What must hold of batches at every write, and once everything is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.batches.rules.batches import Header

from shared.batches.rules import batches as rules
from shared.core.operations import outbox
from shared.core.operations.ports import Query, Snapshot, Store
from tests.simulation.batches_kinds import Kind
from tests.simulation.world import Violation


class Checks:
    """Watches one world's records, and what was announced."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self.announced: dict[str, set[str]] = {}
        self.said: dict[str, Mapping[str, Any]] = {}

    def announce(self, name: str, said: Mapping[str, Any]) -> None:
        """Take note of an announcement and of the name of its task."""
        self.announced.setdefault(said["id"], set()).add(name)
        self.said[name] = said

    # --- what must hold at every write ---

    def check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Check one write of a batch's records."""
        parts = path.split("/")
        if parts[0] != rules.COLLECTION:
            return
        if len(parts) == 2:
            self._check_header(parts[1], rules.decode(before.data), rules.decode(after.data))
        elif parts[2] == "units" and before.data is not None and after.data is not None:
            self._check_overwritten(path, before.data, after.data)

    @staticmethod
    def _check_overwritten(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        if before["state"] != "failed" or after["attempt"] <= before["attempt"]:
            raise Violation(f"the outcome {before['text']} of {path} became {after['text']}")

    def _check_header(self, batch: str, before: Header | None, after: Header | None) -> None:
        if before is not None and before.ended and after is not None and after.state not in (before.state, "removed"):
            raise Violation(f"{batch} ended twice: {before.state}, then {after.state}")
        if after is None or after.state != "completed" or (before is not None and before.ended):
            return
        loaded, done = self.loaded(batch), self.done(batch)
        if len(done) != loaded or after.size != loaded or after.done != loaded:
            raise Violation(f"{batch} is complete with {len(done)} of {loaded} units done, saying {after.done}")
        if not self._kind.failing and after.failed != self.failed(batch):
            raise Violation(f"{batch} says {after.failed} failed, {self.failed(batch)} did")

    # --- what must hold once quiet ---

    def check_rest(self, retried: bool = False) -> None:
        """Check every batch, and that nothing waits to be handed over."""
        for snapshot in self._store.query(Query(rules.COLLECTION)):
            header = rules.decode(snapshot.data)
            assert header is not None
            self._check_end(snapshot.id, header, retried)
        if left := self._store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still holds {[snapshot.data for snapshot in left]}")

    def _check_end(self, batch: str, header: Header, retried: bool) -> None:
        if batch != "b" and self._kind.cancelled and header.state == "open":
            return  # its parent was cancelled while it was loaded: it ends at its deadline
        if not header.ended:
            raise Violation(f"{batch} is {header.state} for ever: {self.done(batch)} of {self.loaded(batch)}")
        if batch != "b":
            return
        names = self.announced.get(batch, set())
        if len(names) != 1:
            raise Violation(f"{batch} was announced under {len(names)} names")
        said = self.said[next(iter(names))]
        if (said["state"], said["size"], said["done"]) != (header.state, header.size, header.done):
            raise Violation(
                f"{batch} was announced as {said}, and is {header.state} with {header.done} of {header.size}"
            )
        if header.reason == "deadline" and self._kind.hurried:
            self._check_missing(batch, header)
        elif not self._kind.cancelled and self._kind.failures_max is None and header.state != "completed":
            raise Violation(f"{batch} is {header.state} for no reason: {header.reason}")
        if not _tolerated(self._kind, header) and header.state != "cancelled" and not retried:
            raise Violation(f"{batch} is {header.state} with {header.failed} failures")

    def _check_missing(self, batch: str, header: Header) -> None:
        """What came after the deadline may be named as missing; what never came must be."""
        if header.size != self.loaded(batch):
            return  # a page landed just after the end: it does no work, and is removed with the rest
        undone = set(range(self.loaded(batch))) - set(self.done(batch))
        if not undone <= set(header.missing) or header.done + len(undone) > header.size:
            raise Violation(f"{batch} names {header.missing} as missing, and {undone} are")

    def check_nothing_left_behind(self) -> None:
        """Check that all records of `b` are of its present life."""
        for batch in {"b"}:
            header = self.header(batch)
            now = "" if header is None else header.incarnation
            for part in ("pages", "counters", "units"):
                for snapshot in self._store.query(Query(f"{rules.path_of(batch)}/{part}", limit=1_000)):
                    if not snapshot.id.startswith(now) or header is None:
                        raise Violation(f"{snapshot.path} is left of a life that is over")

    # --- what the records say ---

    def records(self, collection: str) -> list[dict[str, Any]]:
        """Give all records of a collection."""
        return [dict(one.data) for one in self._store.query(Query(collection, limit=1_000)) if one.data is not None]

    def header(self, batch: str) -> Header | None:
        """Give a batch's header."""
        return rules.decode(self._store.read(rules.path_of(batch))[0].data)

    def loaded(self, batch: str) -> int:
        """Count the units that are loaded."""
        return sum(page.get("size", 0) for page in self.records(f"{rules.path_of(batch)}/pages"))

    def done(self, batch: str) -> list[int]:
        """List the units that have an outcome."""
        return [unit["index"] for unit in self.records(f"{rules.path_of(batch)}/units")]

    def failed(self, batch: str) -> int:
        """Count the units that have failed."""
        return sum(unit["state"] == "failed" for unit in self.records(f"{rules.path_of(batch)}/units"))


def _tolerated(kind: Kind, header: Header) -> bool:
    return kind.failures_max is None or header.failed <= kind.failures_max
