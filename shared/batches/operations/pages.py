"""Pages of a batch: each one commit, which creates the page, its counters and the task that expands it, or nothing.

Pages are loaded in the order of their numbers. So each knows where it begins by its predecessor, and a page and the
seal compete for one record: the next number.
"""

import json
from collections.abc import Sequence
from typing import Any

from shared.batches.operations.units import no_such_batch
from shared.batches.operations.walk import PASSED
from shared.batches.rules import batches as rules
from shared.batches.rules import requests, tree
from shared.batches.rules.batches import Header, Life
from shared.batches.rules.tree import Node
from shared.core.operations import outbox
from shared.core.operations.ports import AlreadyExists, Must, Ports, Put, Snapshot, Write
from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BatchSealed, OtherBody, PageOutOfOrder, TooLarge

END_MARK = {"end": True}


def add_page(ports: Ports, batch: str, number: int, units: Sequence[Any]) -> bool:
    """Load the next page of a batch; tell whether it was new. Raises the `Problem` that keeps it out."""
    [found] = ports.store.read(rules.path_of(batch))
    header = rules.decode(found.data)
    if header is None or header.state == "removed":
        raise no_such_batch(batch)
    life = Life(batch, header.incarnation)
    requests.check_page(units, task_of(header))
    if header.state != "open" or number < header.first_pages:
        return _repeated(ports, life, number, units)
    before = ports.store.read(life.page(number - 1))[0] if number else None
    return load(ports, life, header, number, follows(before, number, header), units)


def _repeated(ports: Ports, life: Life, number: int, units: Sequence[Any]) -> bool:
    """Answer a page that can only be a repeat."""
    [page] = ports.store.read(life.page(number))
    if page.data is None:
        raise BatchSealed("This batch takes no more pages here: it is sealed, ended or being created.", field="page")
    return check_same(page, number, units)


def follows(before: Snapshot | None, number: int, header: Header) -> int:
    """Say which unit a page begins with. Raises `PageOutOfOrder`, or `BatchSealed`."""
    if number < header.first_pages:
        raise PageOutOfOrder("This page belongs to the call that created the batch; repeat that call.", field="page")
    if before is None:
        return 0
    if before.data is None:
        raise PageOutOfOrder(f"Load page {number - 1} first.", field="page")
    if before.data.get("end"):
        raise BatchSealed(f"This batch was sealed at {number - 1} pages.", field="page")
    return int(before.data["first"] + before.data["size"])


def load(ports: Ports, life: Life, header: Header, number: int, first: int, units: Sequence[Any]) -> bool:
    """Commit a page with its counters and its expansion; False: the same page was there.

    Raises `OtherBody`, `BatchSealed` or `TooLarge`.
    """
    if number >= tree.pages_max():
        raise TooLarge(f"A batch has at most {tree.pages_max():,} pages of {LIMITS.page_units_max}.", field="page")
    effects = () if header.task is None else (life.ask("expand", number, page=number),)
    try:
        outbox.commit(ports, _records(life, header, number, first, units), effects)
    except AlreadyExists:
        return check_same(ports.store.read(life.page(number))[0], number, units)
    return True


def check_same(page: Snapshot, number: int, units: Sequence[Any]) -> bool:
    """Answer a page that is there already: False, or raise `OtherBody` or `BatchSealed`."""
    if page.data is not None and page.data.get("end"):
        raise BatchSealed(f"This batch was sealed at {number} pages.", field="page")
    if page.data is None or page.data["digest"] != rules.digest(list(units)):
        raise OtherBody(f"Page {number} holds other units.", field="page")
    return False


def _records(life: Life, header: Header, number: int, first: int, units: Sequence[Any]) -> list[Write]:
    size = len(units)
    page = {
        "first": first,
        "size": size,
        "units": json.dumps(list(units), separators=(",", ":")),
        "digest": rules.digest(list(units)),
        "task": header.task,
    }
    node = {PASSED: {}, "page": number, "first": first, "units": size, "failures_max": header.failures_max}
    counters = [life.counter(number, counter) for counter in range(tree.counters(size))]
    return [
        Put(life.page(number), page, Must.NOT_EXIST),
        Put(life.node(Node(1, number)), node, Must.NOT_EXIST),
        *(Put(life.node(above), {PASSED: {}}, Must.NOT_EXIST) for above in tree.begun_by(number)),
        *(Put(counter, {"units": 0, "failures": 0}, Must.NOT_EXIST) for counter in counters),
    ]


def task_of(header: Header) -> Call | None:
    """Give the call that does the units of a batch; None: they are completed from outside."""
    return None if header.task is None else Call.from_record(header.task)
