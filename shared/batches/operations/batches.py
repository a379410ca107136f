"""Batches: work in units, and one announcement when all of it is done.

    populate ──► header, pages ──► batch_expand: a task a unit ──► complete_unit ──► counters ──► … ──► the end's task
       seal ──► end mark + sealed + check ─────────────────────────────────────────────────▲

`batch_pages` loads, `batch_tasks` expands, `batch_units` completes, `batch_walk` climbs the tree, `batch_sweep` repairs
and cleans up. Nothing here may run only once: every step can be repeated by whoever died in it, or by the sweeper.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from shared.batches.operations import pages, walk
from shared.batches.operations.pages import add_page as add_page
from shared.batches.operations.sweep import sweep as sweep
from shared.batches.operations.tasks import follow as follow
from shared.batches.operations.tasks import retry as retry
from shared.batches.operations.units import complete_from_outside as complete_from_outside
from shared.batches.operations.units import complete_unit as complete_unit
from shared.batches.operations.units import life_of, no_such_batch
from shared.batches.operations.units import list_units as list_units
from shared.batches.operations.units import resume_unit as resume_unit
from shared.batches.operations.units import unit_is_wanted as unit_is_wanted
from shared.batches.rules import batches as rules
from shared.batches.rules import requests
from shared.batches.rules.batches import Ending, Header, Life, Unit
from shared.batches.rules.requests import Order
from shared.core.operations.perform import Writes, perform
from shared.core.operations.ports import Must, Ports, Put, Snapshot
from shared.core.rules.effects import Decision
from shared.core.rules.problems import BatchSealed, OtherBody, PageOutOfOrder, Unavailable


@dataclass(frozen=True, slots=True)
class Status:
    """How a batch stands, as its callers see it; `created` by the very call that this answers."""

    batch: Mapping[str, Any]
    created: bool = False


def populate(ports: Ports, batch: str, order: Order, parent: Unit | None = None) -> Status:
    """Create a batch with its first units; seal it if so ordered. A call that died half-way is finished by its repeat.

    With `parent` the end of this batch completes that unit. Raises `OtherBody` when the id stands for another order.
    """
    life, header, created = _begin(ports, requests.check_id(batch), order, parent)
    cut = requests.cut(order.units)
    if header.state == "open":
        first = 0
        for number, units in enumerate(cut):
            pages.load(ports, life, header, number, first, units)
            first += len(units)
    if not order.sealed or header.ended:
        return _counted(ports, life, header, created)
    return Status(seal(ports, batch, len(cut)).batch, created)


def _begin(ports: Ports, batch: str, order: Order, parent: Unit | None) -> tuple[Life, Header, bool]:
    incarnation = draw_incarnation(ports)

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, tuple[Header, bool]]:
        held = rules.decode(read[0].data)
        if held is not None:
            return Decision((), (_same(batch, held, order), False))
        deadline_at = read[0].read_time + timedelta(seconds=order.deadline_seconds)
        header = Header(
            incarnation=incarnation,
            digest=order.digest(),
            deadline_at=deadline_at,
            due_at=deadline_at,
            first_pages=len(requests.cut(order.units)),
            task=None if order.task is None else order.task.to_record(),
            on_complete=None if order.on_complete is None else order.on_complete.to_record(),
            failures_max=order.failures_max,
            parent=None if parent is None else parent.record(),
        )
        return Decision((Put(rules.path_of(batch), header.record(), Must.NOT_EXIST),), (header, True))

    (header, created), _ = perform(ports, [rules.path_of(batch)], decide)
    return Life(batch, header.incarnation), header, created


def draw_incarnation(ports: Ports) -> str:
    """Draw what tells this life of an id from all others."""
    return ports.store.new_id()


def _same(batch: str, held: Header, order: Order) -> Header:
    if held.state == "removed":
        raise Unavailable(f"the batch {batch!r} is being removed", retry_after_seconds=60)
    if held.digest != order.digest():
        raise OtherBody(f"There is a batch {batch!r} that was created with another body.", field="id")
    return held


def seal(ports: Ports, batch: str, count: int) -> Status:
    """Say that a batch has so many pages and no more. Raises `PageOutOfOrder` or `BatchSealed`, or `NotFound`.

    The seal is the page behind the last: an end mark. Its commit carries the check, which looks whether all was done
    before; a batch without units ends here.
    """
    life = life_of(ports, batch)
    paths = [life.header, life.page(count), *([life.page(count - 1)] if count else [])]

    def decide(read: tuple[Snapshot, ...]) -> Decision[Writes, Header]:
        header = rules.alive(read[0].data, life)
        if header is None:
            raise no_such_batch(batch)
        if header.ended or header.state == "sealed":
            return Decision((), _sealed_alike(header, count))
        return _sealing(life, header, read, count)

    header, _ = perform(ports, paths, decide)
    return _counted(ports, life, header)


def _sealed_alike(header: Header, count: int) -> Header:
    if header.pages != count:
        raise BatchSealed("This batch has ended, or is sealed at another number of pages.", field="pages")
    return header


def _sealing(life: Life, header: Header, read: tuple[Snapshot, ...], count: int) -> Decision[Writes, Header]:
    if read[1].data is not None:
        raise PageOutOfOrder(f"Page {count} is loaded: the batch has more than {count} pages.", field="pages")
    size = pages.follows(read[2] if count else None, count, header) if count else _none_promised(header)
    now = read[0].read_time
    after = rules.sealed(header, count, size, now)
    if not size:
        after = rules.ended(after, Ending("completed", 0, 0, 0), now)
    effects = (life.ask("check"),) if size else rules.announcements(life, after, now)
    mark = Put(life.page(count), pages.END_MARK, Must.NOT_EXIST)
    return Decision((Put(life.header, after.record(), read[0].guard), mark), after, effects)


def _none_promised(header: Header) -> int:
    if header.first_pages:
        raise PageOutOfOrder(f"The batch was created with {header.first_pages} pages.", field="pages")
    return 0


def get(ports: Ports, batch: str) -> Status:
    """Tell how a batch stands. Raises the problem `NotFound`."""
    [read] = ports.store.read(rules.path_of(batch))
    header = rules.decode(read.data)
    if header is None or header.state == "removed":
        raise no_such_batch(batch)
    return _counted(ports, Life(batch, header.incarnation), header)


def cancel(ports: Ports, batch: str) -> Status:
    """End a batch that has not ended; units that have not begun will not. Raises the problem `NotFound`."""
    life = life_of(ports, batch)
    done, failed, size = walk.count(ports, life), walk.count(ports, life, "failed"), walk.loaded(ports, life)[1]
    header = walk.end(ports, life, lambda _: Ending("cancelled", size, done, failed, "cancelled"))
    if header is None:
        raise no_such_batch(batch)
    return _counted(ports, life, header)


def _counted(ports: Ports, life: Life, header: Header, created: bool = False) -> Status:
    """Show a batch: counted when it ended, or as far as it has come."""
    if header.ended:
        return Status({"id": life.batch, **rules.summary(header), "pages": header.pages}, created)
    count, size = (header.pages, header.size) if header.state == "sealed" else walk.loaded(ports, life)
    done, failed = (walk.count(ports, life), walk.count(ports, life, "failed")) if size else (0, 0)
    shown = {"id": life.batch, "state": header.state, "size": size, "done": done, "failed": failed, "pages": count}
    return Status(shown, created)


def expand(ports: Ports, payload: Mapping[str, Any]) -> None:
    """Do what a page's ``expand`` task asks for: hand over the tasks of its units."""
    follow(ports, "expand", payload)
