"""Lists of runs, by id or by start, and their number."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.ports import Ports, Query, Snapshot
from signalbox.core.records.queries import ID, Condition, Order
from signalbox.core.surface.paging import read_page_token, with_prefix, write_page_token
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import STATES
from signalbox.flows.model.labels import check_label, label_entry
from signalbox.flows.problems import BadFlow, TooManyRuns
from signalbox.flows.shown import FlowsShown, ListedFlowShown
from signalbox.flows.storage.listings import ARCHIVED_AT, CREATED_AT, LABELS

SHOWN_IN_LISTS = ("flow", "id", "state", "created_at", "ended_at", ARCHIVED_AT)
"""The fields of a listing that lists show as they are."""

BEHIND_IDS = "\x7f"
"""The character that sorts right after the ``~`` between name and id."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a flow, optionally only those in one state, with one label, or with ids that begin with a prefix.

    With `newest_first` or a time, they are sorted by their starts, the newest first. Otherwise they are sorted by their
    ids. `started_after` is the earliest start, and all starts are before `started_before`. Runs must also have the
    labels `others`, which no index finds: the listings of the first label are read.
    """

    flow: str
    state: str | None = None
    label: tuple[str, str] | None = None
    prefix: str = ""
    started_after: datetime | None = None
    started_before: datetime | None = None
    newest_first: bool = False
    others: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        """Raise `BadFlow` for an unknown state, an impossible label or period, or a prefix in a list by start."""
        if self.state is not None and self.state not in STATES:
            raise BadFlow(f"`state` must be one of {', '.join(STATES)}.", field="state")
        for label in (*((self.label,) if self.label else ()), *self.others):
            check_label(*label)
        if self.prefix and self.by_start:
            detail = "A list by start has no prefix: leave out `prefix`, or the times and `newest_first`."
            raise BadFlow(detail, field="prefix")
        if self.started_after and self.started_before and self.started_after > self.started_before:
            detail = "`started_after` is later than `started_before`, so no run is between them: exchange the times."
            raise BadFlow(detail, field="started_after")

    @property
    def by_start(self) -> bool:
        """Whether the list is sorted by the starts."""
        return self.newest_first or self.started_after is not None or self.started_before is not None

    def query(self) -> Query:
        """Return the query of the listings.

        A list by ids names at most one field, so it needs no composite index. A list by start needs one of `INDEXES`.
        """
        if self.by_start:
            return Query(
                FlowAddress.COLLECTION, (*self._started(), *self._filter()), (Order(CREATED, descending=True),)
            )
        all_of_it = (Condition(ID, ">=", f"{self.flow}~"), Condition(ID, "<", f"{self.flow}{BEHIND_IDS}"))
        return Query(
            FlowAddress.COLLECTION, (*(with_prefix(self.prefix, f"{self.flow}~") or all_of_it), *self._filter())
        )

    def has_others(self, listing: Snapshot) -> bool:
        """Return whether a listing has all of the other labels."""
        entries = (listing.data or {}).get(LABELS, ())
        return all(label_entry(*label) in entries for label in self.others)

    def _started(self) -> Iterator[Condition]:
        yield Condition(("flow",), "==", self.flow)
        if self.started_after:
            yield Condition(CREATED, ">=", self.started_after)
        if self.started_before:
            yield Condition(CREATED, "<", self.started_before)

    def _filter(self) -> Iterator[Condition]:
        if self.label:
            yield Condition((LABELS,), "array_contains", label_entry(*self.label, self.state or ""))
        elif self.state:
            yield Condition(("state",), "==", self.state)


CREATED = (CREATED_AT,)


def count_flows(ports: Ports, runs: Runs) -> int:
    """Return the number of runs. Without `others`, it is counted in the index. Raises `TooManyRuns`."""
    if not runs.others:
        return ports.store.count(runs.query())
    return sum(map(runs.has_others, _scanned(ports, runs)))


def count_by_label(ports: Ports, runs: Runs, name: str) -> dict[str, int]:
    """Return the numbers of the runs with each value of a label, the largest first. Raises `TooManyRuns`."""
    labels = (_labels_of(listing).get(name) for listing in _scanned(ports, runs) if runs.has_others(listing))
    return dict(Counter(value for value in labels if value is not None).most_common())


def _scanned(ports: Ports, runs: Runs) -> Iterator[Snapshot]:
    """Iterate over the listings of runs, without their `others`. Raises `TooManyRuns` for too many."""
    count, most = ports.store.count(runs.query()), LIMITS.flow_scanned_max
    if count > most:
        remedy = "choose fewer by a state, a time or a prefix, or put the rarest label first"
        raise TooManyRuns(f"{count:,} runs would be read, and a count by labels reads {most:,} at most: {remedy}.")
    after: tuple[Any, ...] = ()
    while page := ports.store.query(replace(runs.query(), limit=LIMITS.flow_scanned_page, after=after)):
        yield from page
        if len(page) < LIMITS.flow_scanned_page:
            return
        after = (*_place(runs, page[-1]), page[-1].id)


def list_flows(ports: Ports, runs: Runs, page_token: str = "") -> FlowsShown:
    """Return a page of runs, sorted by their ids or by their starts.

    With `others`, it may be empty and have a token: each page reads a few pages of listings at most.
    """
    most = LIMITS.flows_listed_max
    after = read_page_token(page_token, FlowAddress.COLLECTION, int(runs.by_start)) if page_token else ()
    for _ in range(LIMITS.flow_scanned_pages):
        page = ports.store.query(replace(runs.query(), limit=most, after=after))
        shown = tuple(_shown(listing) for listing in page if runs.has_others(listing))
        if len(page) < most:
            return FlowsShown(shown)
        after = (*_place(runs, page[-1]), page[-1].id)
        if shown:
            break
    return FlowsShown(shown, write_page_token(FlowAddress.COLLECTION, [*after[:-1]], after[-1]))


def _place(runs: Runs, listing: Snapshot) -> tuple[Any, ...]:
    """Return the values by which a listing is sorted, before its id."""
    return ((listing.data or {})[CREATED_AT],) if runs.by_start else ()


def _labels_of(listing: Snapshot) -> dict[str, str]:
    entries = [entry.partition(":") for entry in (listing.data or {}).get(LABELS, ())]
    return {name: value for name, _, value in entries if " " not in name}


def _shown(listing: Snapshot) -> ListedFlowShown:
    data = dict(listing.data or {})
    shown = {name: data[name] for name in SHOWN_IN_LISTS if name in data}
    return ListedFlowShown(**shown, labels=_labels_of(listing))
