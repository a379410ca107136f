"""Find records of the database that will enqueue tasks for functions that a plan removes.

A queue contains the tasks that were enqueued. Others exist in records only, until something happens: a permit is free,
a page is expanded, a time comes, a message is applied. Their function would answer 404 for 31 days.

Each query names a field that has an index (infra/indexes.tf), so records of ended work are not read. At most
`RECORDS_MAX` records of a query are.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from signalbox.batches.model.tree import COLLECTION as BATCHES
from signalbox.batches.model.tree import COMPLETIONS
from signalbox.core import outbox
from signalbox.core.ports import Query, Snapshot, Store
from signalbox.core.records.queries import Condition, Order
from signalbox.critical_sections.model import COLLECTION as SECTIONS
from signalbox.documents.model.stamped_contents import COLLECTION as DOCUMENTS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import RUNNING, STUCK, SUSPENDED
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import MAILBOX, header_path
from signalbox.mailboxes.storage import SWEPT_BY
from signalbox.rates.model import COLLECTION as RATES
from signalbox.rates.model import waits_of
from signalbox.semaphores.model.semaphore import COLLECTION as SEMAPHORES
from signalbox.semaphores.service.views import WITH_WAITERS
from signalbox.standings.model.yokes import DECLARED, YOKES
from signalbox.tasks.model.failures import FAILURES
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Run

RECORDS_MAX = 6_000
PAGE = 300
BATCH_RUNS = (Condition(("state",), "in", ["open", "sealed"]),)
FLOW_RUNS = (Condition(("state",), "in", [RUNNING, SUSPENDED, STUCK]),)


KEPT = {
    "documents": (DOCUMENTS, "documents: {}, whose copies would no longer be refreshed"),
    "standings": (YOKES, "yokes: {}, which would no longer be counted"),
}
"""The records for which a part is needed as long as they exist."""


OF_CALLERS = {
    "batches": (
        Query(BATCHES, BATCH_RUNS),
        "batches: {} open or sealed, which callers can no longer load, seal, complete or cancel. Deadlines end them",
    ),
    "failures": (
        Query(FAILURES),
        "failures: {} that can no longer be retried or deleted. Each is kept for 30 days",
    ),
}
"""Records that callers of a function may still change. Whether a batch is a caller's or the code's is not recorded."""


class TooMany(Exception):
    """A query has more records than are read. The message names the collection."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Functions that are removed, and the functions that remain, by the names of their classes and flows.

    `parts` are the kit's parts that are removed: the work of each is lost, whichever function its tasks call.
    """

    functions: Collection[str]
    classes: Mapping[str, str]
    flows: Mapping[str, str]
    parts: Collection[str] = ()

    def loses(self, part: str) -> Callable[[Any], bool]:
        """Return whether a record's work is lost with a part of the kit, or with a function that it names."""
        return (lambda _: True) if part in self.parts else self.is_named_in

    def has(self, function: str | None) -> bool:
        """Return whether this function, None if no function remains, is removed."""
        return function is None or function in self.functions

    def is_named_in(self, value: Any) -> bool:
        """Return whether a record, or a part of one, names a removed function as the one that runs a task."""
        if isinstance(value, Mapping):
            if value.get("function") in self.functions:
                return True
            return any(map(self.is_named_in, value.values()))
        return isinstance(value, list) and any(map(self.is_named_in, value))


def database(target: Target, run: Run) -> Store:
    """Return the environment's database, read as gcloud's account. Raises `CommandFailed`."""
    from signalbox.adapters.firestore.store import FirestoreStore
    from signalbox_tools.deploy.gcloud_credentials import gcloud_credentials

    return FirestoreStore(target.project, target.database, credentials=gcloud_credentials(target, run))


def found(store: Store, removal: Removal) -> list[str]:
    """Return a line for each record, or collection of records, with tasks for the removed functions.

    Raises `TooMany`, and as `Store.query` does.
    """
    searches = (
        _outbox,
        _completions,
        _waiters,
        _rate_waits,
        _sections,
        _batches,
        _flows,
        _messages,
        _thresholds,
        _kept,
    )
    return [line for search in searches for line in search(store, removal)]


def left_by_callers(store: Store, functions: Collection[str]) -> list[str]:
    """Return a line for each collection whose records callers can no longer change without these functions.

    Raises as `found` does.
    """
    return [
        line
        for name, (query, text) in OF_CALLERS.items()
        if name in functions
        for line in _counted(store, query, text, lambda _: True)
    ]


def _outbox(store: Store, removal: Removal) -> Iterator[str]:
    return _counted(
        store, Query(outbox.COLLECTION), "outbox: {} with tasks that are not enqueued yet", removal.loses("sweep")
    )


def _completions(store: Store, removal: Removal) -> Iterator[str]:
    return _counted(store, Query(COMPLETIONS), "completions: {} of batches", removal.loses("batches"))


def _waiters(store: Store, removal: Removal) -> Iterator[str]:
    def waits(record: Mapping[str, Any]) -> bool:
        return record.get("state") == "waiting" and removal.loses("semaphores")(record)

    for semaphore in _records(store, Query(SEMAPHORES, WITH_WAITERS)):
        for field in ("since", "lane"):  # a waiter has one of them while it waits
            waiters = Query(f"{semaphore.path}/waiters", order_by=(Order((field,)),))
            yield from _counted(store, waiters, f"{semaphore.path}: {{}} that wait", waits)


def _rate_waits(store: Store, removal: Removal) -> Iterator[str]:
    for rate in _records(store, Query(RATES)):
        waits = Query(waits_of(rate.id), order_by=(Order(("since",)),))
        yield from _counted(store, waits, f"{rate.path}: {{}} that wait", removal.loses("semaphores"))


def _sections(store: Store, removal: Removal) -> Iterator[str]:
    def is_pending(record: Mapping[str, Any]) -> bool:
        pending = [each for each in (record.get("next"), record.get("run")) if each]
        return bool(pending) and removal.loses("semaphores")(pending)

    return _counted(store, Query(SECTIONS), "critical_sections: {} with a run that is pending", is_pending)


def _batches(store: Store, removal: Removal) -> Iterator[str]:
    for batch in _records(store, Query(BATCHES, BATCH_RUNS)):
        pages = Query(f"{batch.path}/pages")
        is_lost = removal.loses("batches")
        if is_lost(batch.data) or any(is_lost(page.data) for page in _records(store, pages)):
            yield f"{batch.path}: {(batch.data or {}).get('state')}"


def _flows(store: Store, removal: Removal) -> Iterator[str]:
    for runs in _pages(store, Query(FlowAddress.COLLECTION, FLOW_RUNS)):
        headers = store.read(*(header_path(run.path) for run in runs), fields=(("on_complete",),))
        for run, header in zip(runs, headers, strict=True):
            data = run.data or {}
            if (
                "flows" in removal.parts
                or removal.has(removal.flows.get(data["flow"]))
                or removal.is_named_in(header.data)
            ):
                yield f"{run.path}: {data['state']}"


def _messages(store: Store, removal: Removal) -> Iterator[str]:
    waiting: dict[str, int] = {}
    page = store.query(Query(MAILBOX, order_by=(Order((SWEPT_BY,)),), limit=RECORDS_MAX, group=True))
    for message in page:
        base = message.path.rpartition(f"/{MAILBOX}/")[0]
        if base.startswith(f"{ObjectAddress.COLLECTION}/") and _is_lost(removal, base, message.data or {}):
            waiting[base] = waiting.get(base, 0) + 1
    if not waiting and len(page) == RECORDS_MAX:
        raise TooMany(f"{MAILBOX} has more than {RECORDS_MAX} records to look at")
    yield from (f"{base}: {_of(count)} that wait" for base, count in waiting.items())


def _is_lost(removal: Removal, base: str, message: Mapping[str, Any]) -> bool:
    name = ObjectAddress.of_base(base).name
    return (
        "objects" in removal.parts
        or removal.has(removal.classes.get(name))
        or removal.is_named_in([message, json.loads(message.get("body", "null"))])
    )


def _thresholds(store: Store, removal: Removal) -> Iterator[str]:
    """Iterate over the declarations of standings whose thresholds enqueue a task, for as long as they are declared."""
    return _counted(
        store,
        Query(DECLARED.partition("/")[0]),
        "standings: {} whose thresholds enqueue tasks; declare them without these thresholds",
        removal.is_named_in,
    )


def _kept(store: Store, removal: Removal) -> Iterator[str]:
    """Iterate over the records that a part keeps up to date as long as they exist."""
    for part, (collection, line) in KEPT.items():
        found = store.query(Query(collection, limit=PAGE)) if part in removal.parts else ()
        if found:
            yield line.format(f"{len(found)}{' or more' if len(found) == PAGE else ''}")


def _counted(store: Store, query: Query, line: str, is_pending: Callable[[Mapping[str, Any]], bool]) -> Iterator[str]:
    if count := sum(is_pending(each.data or {}) for each in _records(store, query)):
        yield line.format(_of(count))


def _of(count: int) -> str:
    return f"{count} record{'s' if count > 1 else ''}"


def _records(store: Store, query: Query) -> Iterator[Snapshot]:
    return (record for page in _pages(store, query) for record in page)


def _pages(store: Store, query: Query) -> Iterator[Sequence[Snapshot]]:
    """Iterate over the pages of a query's records, up to `RECORDS_MAX` records."""
    after: tuple[Any, ...] = ()
    for _ in range(RECORDS_MAX // PAGE):
        page = store.query(replace(query, limit=PAGE, after=after))
        yield page
        if len(page) < PAGE:
            return
        last = page[-1]
        after = (*((last.data or {})[order.field[0]] for order in query.order_by), last.id)
    raise TooMany(f"{query.collection} has more than {RECORDS_MAX} records to look at")
