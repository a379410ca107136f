"""Documents that embed each other, written by many at once; once idle, every copy is what a put now would embed.

Checked at every write: a version is unique across a key's incarnations; only a user changes what a user wrote; no copy
goes back to an older state of its source; a merge changes what it names in what is there at that moment, and no more; a
put under a condition finds it true. Checked once idle: every copy, also of what a transform makes of its source, every
`linked` mark, every record's shape, and nothing left in the outbox.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from random import Random

from signalbox.core import outbox
from signalbox.core.kit_names import ANYONE, KIT
from signalbox.core.kit_names import WRITERS as CHOICES
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import DocumentEvent, Query, Snapshot
from signalbox.core.records.record_values import map_bytes
from signalbox.documents.limits import LIMITS as DOCUMENTS_LIMITS
from signalbox.documents.machine.reactions import WRITERS
from signalbox.links import tasks
from signalbox.links.service import refreshes, verifications
from signalbox.testing.replaced_limits import replaced
from tests.simulation.fault_rates import FaultRates
from tests.simulation.world import World
from tests.simulation.world_lengths import operations_max
from tests.simulation.worlds.links.callers import Users
from tests.simulation.worlds.links.kinds import (
    COMMIT_DOCUMENTS,
    DIVIDED_BYTES,
    EVENT_RECORD_BYTES,
    FEW_INDEX_ENTRIES,
    HOPS_MAX,
    KINDS,
    LINK_LEVELS_MAX,
    PAGE_COPIES,
    SMALL_DOCUMENT_BYTES,
    UNLUCKY,
    Kinds,
)
from tests.simulation.worlds.links.properties import Checks

OPERATIONS_MAX = 7


def run(
    seed: int, trace: Callable[[str], None] | None = None, kinds: Kinds = KINDS, writers: str | None = None
) -> None:
    """Run one seed until nothing is left to do. Raises `Violation` when a property does not hold.

    `writers` is who writes documents, by the catalogue; by default the seed decides.
    """
    LinksWorld(seed, trace, kinds, writers or drawn_writers(seed)).run()


def drawn_writers(seed: int) -> str:
    """Return the `written_by` of a seed's world. No other choice of the seed depends on it."""
    return Random(f"{seed}-writers").choice(CHOICES)


def _is_too_large(event: DocumentEvent) -> bool:
    """Return whether an event may be dropped. The platform decides by the sum of both sizes, which is not smaller."""
    return any(data is not None and map_bytes(data) > EVENT_RECORD_BYTES for data in (event.before, event.after))


class LinksWorld:
    """A few keys, a few contents (so that earlier contents recur), users who put, delete and write past the kit."""

    def __init__(self, seed: int, trace: Callable[[str], None] | None, kinds: Kinds, writers: str = ANYONE) -> None:
        self.writers = writers
        self.kind = Random(seed).choice(kinds)
        self.world = World(seed, replace(UNLUCKY) if self.kind.unlucky else FaultRates(), trace)
        self.keys = self.kind.names
        self.document_bytes = SMALL_DOCUMENT_BYTES if self.kind.crowded else 1_000_000
        self.world.events.handler = refreshes.fan_out if writers == ANYONE else None
        self.world.events.too_large = _is_too_large if self.kind.large else None
        self.world.sweeper = outbox.sweep
        self.world.task_handlers["link_refresh"] = lambda ports, effect: tasks.run_link_task(
            ports, effect.task, effect.payload
        )
        self.world.observers.append(self._check_write)
        self.checks = Checks(self.kind)
        self.users = Users(self.world, self.kind, self.checks, Random(f"{seed}-transactions"))

    def run(self) -> None:
        with (
            WRITERS.replaced(self.writers),
            replaced(
                page_copies_max=PAGE_COPIES,
                walk_documents_max=len(self.keys) if self.kind.round else PAGE_COPIES,
                hops_max=HOPS_MAX,
                link_levels_max=LINK_LEVELS_MAX,
                document_bytes_max=self.document_bytes,
                index_entries_max=FEW_INDEX_ENTRIES if self.kind.indexed else DOCUMENTS_LIMITS.index_entries_max,
                event_record_bytes_max=EVENT_RECORD_BYTES
                if self.kind.large
                else DOCUMENTS_LIMITS.event_record_bytes_max,
                commit_documents_max=COMMIT_DOCUMENTS,
                compared_keys_bytes_max=0 if self.kind.divided else DOCUMENTS_LIMITS.compared_keys_bytes_max,
                read_bytes_max=DIVIDED_BYTES if self.kind.divided else CORE_LIMITS.read_bytes_max,
            ),
        ):
            random = self.world.random
            if (self.kind.narrow and not self.kind.same) or random.random() < 0.5:
                self._settle_first()
            self.world.run([self.users.act for _ in range(random.randint(2, operations_max(OPERATIONS_MAX)))])
            self._let_the_sweeper_finish()
            self._check_rest()

    def _verify_foreign_writes(self) -> None:
        """Verify all documents, without faults: only that finds the writes of other clients, which have no events."""
        self.world.handlers["link_verify"] = tasks.verify
        with self._no_misfortune():
            self.world.start("verify", self._ask_for_verification)
            self.world.run()

    def _ask_for_verification(self) -> None:
        verifications.begin(self.world.ports, "the next night")

    def _let_the_sweeper_finish(self) -> None:
        """Run the sweeper until the outbox is empty: a process that crashed may have left records in it."""
        self.world.pass_an_outage()
        with self._no_misfortune():
            while self.world.store.query(Query(outbox.COLLECTION)):
                self.world.pass_time(CORE_LIMITS.outbox_patience_seconds)
                self.world.start("sweep", self._swept)
                self.world.run()

    def _swept(self) -> None:
        outbox.sweep(self.world.ports)

    def _settle_first(self) -> None:
        """Put and link all documents, without faults."""
        with self._no_misfortune():
            for key in self.keys:
                self.users.start_put(f"first put {key}", key)
            self.world.run()

    @contextmanager
    def _no_misfortune(self) -> Iterator[None]:
        """Keep what may still go wrong for later."""
        left, self.world.fault_rates.left = self.world.fault_rates.left, 0
        yield
        self.world.fault_rates.left = left

    def _check_write(self, path: str, before: Snapshot, after: Snapshot) -> None:
        self.checks.check_write(path, before, after)

    def _check_rest(self) -> None:
        if self.kind.foreign and self.writers == KIT:
            self._verify_foreign_writes()
        self.checks.check_rest(self.world.store)
