"""The properties of batches: those checked at every write, and those checked when nothing is left to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signalbox.batches.machine.units import outcome_of_sub_batch
from signalbox.batches.model.headers import REPLACED, Header
from signalbox.batches.model.tree import COLLECTION, BatchRun, header_path
from signalbox.batches.model.units import UnitOutcome
from signalbox.core import outbox
from signalbox.core.ports import Query, Snapshot, Store
from tests.simulation.world import Violation
from tests.simulation.worlds.batches.kinds import Kind


class Checks:
    """Observes one world's records, and the completion tasks that ran."""

    def __init__(self, store: Store, kind: Kind) -> None:
        self._store = store
        self._kind = kind
        self.completion_tasks: dict[str, set[str]] = {}
        self.completions: dict[str, Mapping[str, Any]] = {}
        self.alarms: set[str] = set()
        self.returned: set[str] = set()
        """The texts of outcomes that the code of the unit with a sub-batch returned or raised."""

    def note_completion(self, name: str, completion: Mapping[str, Any]) -> None:
        """Record that a completion task ran, by its name."""
        self.completion_tasks.setdefault(completion["id"], set()).add(name)
        self.completions[name] = completion

    # --- what must hold at every write ---

    def check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Check one write of a batch's records."""
        parts = path.split("/")
        if parts[0] != COLLECTION:
            return
        if len(parts) == 2:
            self._check_header(parts[1], _header(before.data), _header(after.data))
        elif parts[2] == "units" and before.data is not None and after.data is not None:
            self._check_overwritten(path, before.data, after.data)
        elif parts[2] == "units" and parts[1] == "b" and self._kind.nested and after.data is not None:
            self._check_outcome_of_parts(after.data)

    def _check_outcome_of_parts(self, unit: Mapping[str, Any]) -> None:
        """Check that the first unit's outcome is the end of its one sub-batch, or was returned by a run of its code.

        Without permits it has none.
        """
        if unit["index"] == 0 and unit["text"] in self.returned:
            return
        ends = [outcome_of_sub_batch(BatchRun(id_, header.incarnation), header) for id_, header in self.sub_batches()]
        if not ends and self._kind.cancelled and str(unit["text"]).startswith("The wait for a permit"):
            return
        if unit["index"] == 0 and UnitOutcome(unit["state"], unit["text"]) not in ends:
            raise Violation(f"unit 0 {unit['state']} with {unit['text']}, and its sub-batch ended as {ends}")

    @staticmethod
    def _check_overwritten(path: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        same = [before[name] == after[name] for name in ("state", "text", "attempt")]
        if not all(same) and (before["state"] != "failed" or after["attempt"] <= before["attempt"]):
            raise Violation(f"the outcome {before['text']} of {path} became {after['text']}")

    def _check_header(self, batch: str, before: Header | None, after: Header | None) -> None:
        if before is not None and before.ended and after is not None and after.state not in (before.state, "removed"):
            raise Violation(f"{batch} ended twice: {before.state}, then {after.state}")
        if after is not None and after.ended and after.counts.remaining < 0:
            raise Violation(f"{batch} counts more outcomes than units: {after.counts}")
        if after is None or after.state != "completed" or (before is not None and before.ended):
            return
        loaded, finished = self.loaded(batch), self.finished(batch)
        if len(finished) != loaded or after.size != loaded or after.counts.remaining:
            raise Violation(f"{batch} is complete with {len(finished)} of {loaded} units, and counts {after.counts}")
        if not self._kind.failing and after.failed != self.failed(batch):
            raise Violation(f"{batch} counts {after.failed} failures of {self.failed(batch)}")

    # --- what must hold once nothing is left to run ---

    def check_rest(self, retried: bool = False) -> None:
        """Check every batch, and that the outbox is empty."""
        for snapshot in self._store.query(Query(COLLECTION)):
            assert snapshot.data is not None
            self._check_end(snapshot.id, Header.from_record(snapshot.data), retried)
        self._check_what_follows(retried)
        if left := self._store.query(Query(outbox.COLLECTION)):
            raise Violation(f"the outbox still has {[snapshot.data for snapshot in left]}")

    def _check_what_follows(self, retried: bool) -> None:
        """Check that the batch that follows `b` is there, and has run once, or its failure was reported once."""
        header = self.header("b")
        if header is None or not header.then:
            return
        found = [(one.id, Header.from_record(one.data or {})) for one in self._store.query(Query(COLLECTION))]
        following = {id_: other for id_, other in found if id_ != "b" and other.parent is None}
        succeeded = header.state == "completed" and (header.failed == 0 or header.settings.failures_max is not None)
        if len(following) != succeeded:
            raise Violation(f"b is {header.state} with {header.failed} failures, and {len(following)} batches follow")
        for id_ in following:
            if len(self.completion_tasks.get(id_, ())) != 1:
                raise Violation(f"{id_}, which follows b, completed under {self.completion_tasks.get(id_)}")
        ended_well = succeeded and all(other.state == "completed" and not other.failed for other in following.values())
        if len(self.alarms) == ended_well and not retried:
            raise Violation(f"b is {header.state} with {header.failed} failures, and {len(self.alarms)} alarms ran")

    def _check_end(self, batch: str, header: Header, retried: bool) -> None:
        if not header.ended:
            raise Violation(f"{batch} is {header.state} for ever: {self.finished(batch)} of {self.loaded(batch)}")
        if batch != "b":
            return
        names = self.completion_tasks.get(batch, set())
        if len(names) != 1:
            raise Violation(f"{batch} completed under {len(names)} names")
        self._check_completion(batch, header, self.completions[next(iter(names))])
        if header.reason == "deadline" and self._kind.hurried:
            self._check_missing(batch, header)
        elif not self._kind.cancelled and self._kind.failures_max is None and header.state != "completed":
            raise Violation(f"{batch} is {header.state} for no reason: {header.reason}")
        if not _tolerated(self._kind, header) and header.state != "cancelled" and not retried:
            raise Violation(f"{batch} is {header.state} with {header.failed} failures")

    @staticmethod
    def _check_completion(batch: str, header: Header, completion: Mapping[str, Any]) -> None:
        names = ("state", "size", "succeeded", "failed")
        if [completion[name] for name in names] != [getattr(header, name) for name in names]:
            raise Violation(f"{batch} is {header.state} with {header.counts}, its completion task got {completion}")

    def _check_missing(self, batch: str, header: Header) -> None:
        """Units completed after the deadline may be named as missing; units never completed must be."""
        if header.size != self.loaded(batch):
            return  # a page landed just after the end: it does no work, and is removed with the rest
        missing = set(range(self.loaded(batch))) - set(self.finished(batch))
        if not missing <= set(header.missing) or header.counts.remaining < len(missing):
            raise Violation(f"{batch} names {header.missing} as missing, and {missing} are")

    def check_no_earlier_run_left(self) -> None:
        """Check that all records of `b` are of its present run."""
        header = self.header("b")
        incarnation = "" if header is None else header.incarnation
        for part in ("pages", "counters", "units"):
            for snapshot in self._store.query(Query(f"{header_path('b')}/{part}", limit=1_000)):
                if not snapshot.id.startswith(incarnation) or header is None:
                    raise Violation(f"{snapshot.path} is left of an earlier run")

    # --- what the records hold ---

    def records(self, collection: str) -> list[dict[str, Any]]:
        """Return all records of a collection."""
        return [dict(one.data) for one in self._store.query(Query(collection, limit=1_000)) if one.data is not None]

    def sub_batches(self) -> list[tuple[str, Header]]:
        """Return the ids and headers of the sub-batches that were sealed. Raises `Violation` if there are two."""
        children = [(id_, header) for id_, header in self._children() if header.reason != REPLACED]
        sealed = [(id_, header) for id_, header in children if header.state != "open"]
        if len(sealed) > 1:
            raise Violation(f"a unit has two sub-batches: {sealed}")
        return sealed

    def stored_sub_batches(self) -> set[str]:
        """Return the ids of the sub-batches that are stored completely, sealed or not."""
        sealed = {id_ for id_, _ in self.sub_batches()}
        return sealed | {id_ for id_, header in self.open_sub_batches() if len(self.pages(id_)) >= header.first_pages}

    def open_sub_batches(self) -> list[tuple[str, Header]]:
        """Return the ids and headers of the sub-batches that are open."""
        return [(id_, header) for id_, header in self._children() if header.state == "open"]

    def _children(self) -> list[tuple[str, Header]]:
        found = [(one.id, Header.from_record(one.data or {})) for one in self._store.query(Query(COLLECTION))]
        return [(id_, header) for id_, header in found if header.parent is not None]

    def header(self, batch: str) -> Header | None:
        """Return a batch's header."""
        return _header(self._store.read(header_path(batch))[0].data)

    def pages(self, batch: str) -> list[dict[str, Any]]:
        """Return a batch's pages, without the end mark."""
        return [page for page in self.records(f"{header_path(batch)}/pages") if "size" in page]

    def loaded(self, batch: str) -> int:
        """Count the units that are loaded."""
        return sum(page["size"] for page in self.pages(batch))

    def finished(self, batch: str) -> list[int]:
        """Return the indexes of the units with an outcome."""
        return [unit["index"] for unit in self.records(f"{header_path(batch)}/units")]

    def failed(self, batch: str) -> int:
        """Count the units that failed."""
        return sum(unit["state"] == "failed" for unit in self.records(f"{header_path(batch)}/units"))


def _header(record: Mapping[str, Any] | None) -> Header | None:
    return None if record is None else Header.from_record(record)


def _tolerated(kind: Kind, header: Header) -> bool:
    return kind.failures_max is None or header.failed <= kind.failures_max
