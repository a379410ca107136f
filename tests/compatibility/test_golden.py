"""Today's code reads what each release wrote, and writes no shape that the golden records do not show."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox.batches.model import pages, units
from signalbox.batches.model.groups import Group
from signalbox.batches.model.headers import Header
from signalbox.batches.model.tree import Counter, NodeRecord, PageNode
from signalbox.batches.tasks import run_batch_task
from signalbox.core import outbox
from signalbox.core.deliveries import Delivered
from signalbox.core.effects import Effect, TaskEnvelope
from signalbox.core.error_notes import ErrorNote
from signalbox.core.problems import Unavailable
from signalbox.core.records import formats
from signalbox.core.records.record_values import same
from signalbox.core.wake_ups import WakeUp
from signalbox.critical_sections.model import Grant, Section
from signalbox.critical_sections.tasks import TASKS as SECTION_TASKS
from signalbox.document_events.model import Begun
from signalbox.documents.model.stamped_contents import RESERVED, Document
from signalbox.flows.model import addresses, headers, log, messages
from signalbox.flows.tasks import archives
from signalbox.flows.tasks.steps import StepOfFlow, run_own_task
from signalbox.history import model as history
from signalbox.links.model import Verification
from signalbox.links.tasks import run_link_task, verify
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.objects.machine.deadly_calls import Mark
from signalbox.objects.model import CallRecord
from signalbox.rates.model import Rate, RateWait
from signalbox.rates.tasks import TASKS as RATE_TASKS
from signalbox.semaphores.model import leases, waiters
from signalbox.semaphores.model.semaphore import Semaphore
from signalbox.semaphores.problems import NoSemaphore
from signalbox.semaphores.tasks import TASKS as SEMAPHORE_TASKS
from signalbox.standings.model import aggregates, declarations, yokes
from signalbox.standings.tasks import run_task as run_standings_task
from signalbox.tasks.model.contexts import context_of, is_named, parsed
from signalbox.tasks.model.failures import Failure
from signalbox.testing.simulated_cloud import Platform
from signalbox.transforms.model import transform_from_record, transform_to_record
from tests.compatibility.golden_records import (
    SEEDS,
    UNRELEASED,
    Collection,
    Kind,
    files,
    from_text,
    read,
    to_text,
    write,
)
from tests.compatibility.record_shapes import pairs_of
from tests.simulation.__main__ import FORGED, WORLDS
from tests.simulation.test_versions import (
    Change,
    added_field,
    renamed_field,
    renamed_field_of_a_part,
    renamed_member_of_a_payload,
    renamed_member_of_the_envelope,
    renamed_task,
)

Data = Mapping[str, Any]

SEEDS_QUICK = 8

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = {"revision", "sweep_at"}
"""Fields that each write sets anew."""

HINT = (
    "If the last release can read and write this, run `python -m tests.compatibility` and commit the golden records; "
    "else see docs/simulation.md, Two releases at once."
)


# --- readers: each parses a record, and returns what today's code writes for it ---


def _semaphore(data: Data) -> Data:
    return Semaphore.from_record(data).to_record(NOW)


def _waiter(data: Data) -> Data:
    return waiters.Waiter.from_record("w", data, NOW, NOW).to_record()


def _page(data: Data) -> Data:
    found = pages.loaded(data)
    assert found is not None
    return found.to_record()


def _counter(data: Data) -> Data:
    """Read a page's node, a node above, or a counter: all three are in one collection."""
    if "units" in data and "page" not in data:
        return Counter(0, 0, 0, 100).with_record(data).to_record()
    kind: Any = PageNode if "page" in data else NodeRecord
    read_node: Data = kind.from_record(data).to_record()
    return read_node


def _attempts(data: Data) -> Data:
    note = ErrorNote.from_record(data)
    return {} if note is None else note.to_record()


def _document(data: Data) -> Data:
    document = Document.from_record(data)
    assert document is not None
    again = document.to_record() if document.stamp else {}
    return {RESERVED: again[RESERVED]} if again else {}


def _flow_header(data: Data) -> Data:
    return headers.FlowHeader.from_record(addresses.FlowAddress("work", "f"), data).to_record()


def _log(data: Data) -> Data:
    assert all(isinstance(entry.at, datetime) for entry in log.entries_from_text(data["entries"]))
    return {}


def _call(data: Data) -> Data:
    call = CallRecord.from_record(data)
    Mark.from_record(data)
    return call.message.to_record() | ({"outcome": call.outcome.to_text()} if call.outcome else {})


def _object_header(data: Data) -> Data:
    assert data["state"] is None or json.loads(data["state"]).keys() in ({"version", "fields"}, {"$payload"})
    return {}


def _failure(data: Data) -> Data:
    return {} if data["state"] == "deleted" else Failure.from_record("f", data).to_record()


def _version(data: Data) -> Data:
    """Read a version. The text of a long one is compressed, and that of a very long one is in records of its own."""
    if "parts" in data:
        return {}
    written = history.Entry.from_record("000001", data).to_records("p")["p"]
    return {name: value for name, value in written.items() if name != "patch" or "packed" not in data}


def _counted(data: Data) -> Data:
    counted = aggregates.Counted.from_record(data)
    assert counted is not None
    return counted.to_record(yokes.YokeKey(data["user"], data["item"]))


def _yoke(data: Data) -> Data:
    yoke = yokes.Yoke.from_record(yokes.YokeKey(data["user"], data["item"]), data)
    assert yoke is not None
    return yoke.to_record()


def _verification(data: Data) -> Data:
    found = Verification.from_record("run", data)
    assert found is not None
    return found.to_record()


def _begun(data: Data) -> Data:
    found = Begun.from_record(data)
    assert found is not None
    return found.to_record()


def _rate_wait(data: Data) -> Data:
    """Return what a wait begins with; its state and times are fields of their own."""
    return RateWait.from_record("w", data, NOW, NOW).to_record()


READERS: Mapping[str, Callable[[Data], Data]] = {
    "attempts/*": _attempts,
    "batches/*": lambda data: Header.from_record(data).to_record(),
    "batches/*/counters/*": _counter,
    "batches/*/pages/*": _page,
    "batches/*/units/*": lambda data: units.UnitRecord.from_record(data).to_record(),
    "completions/*": lambda data: {"task": Effect.from_record(data["task"]).to_record()},
    "counted/*": _counted,
    "critical_sections/*": lambda data: Section.from_record(data).to_record(NOW) | {"idle_since": None},
    "document_events/*": _begun,
    "documents/*": _document,
    "failures/*": _failure,
    "flows/*/log/*": _log,
    "flows/*/mailbox/!": _flow_header,
    "flows/*/mailbox/*": lambda data: messages.message_to_record(messages.message_from_record(data)),
    "histories/*/versions/*": _version,
    "objects/*/mailbox/!": _object_header,
    "objects/*/mailbox/*": _call,
    "outbox/*": lambda data: outbox.to_record(outbox.from_record(data)),
    "rates/*": lambda data: Rate.from_record(data).to_record(),
    "rates/*/rate_waits/*": _rate_wait,
    "semaphores/*": _semaphore,
    "semaphores/*/releases/*": lambda data: leases.Release.from_record(data, NOW).to_record(),
    "semaphores/*/waiters/*": _waiter,
    "standing_declarations/*": lambda data: declarations.Declarations.from_record(data).to_record(),
    "standings/*/entries/*": lambda data: aggregates.Standing.from_record(data).to_record(),
    "standings/*/entries/*/adjustments/*": lambda data: aggregates.Adjustment.from_record(data).to_record(),
    "transforms/*": lambda data: transform_to_record(transform_from_record(data)),
    "verifications/*": _verification,
    "yokes/*": _yoke,
}

READ_BY_NAME = {
    "flows/*",
    "histories/*",
    "histories/*/versions/*/versions/*",
    "objects/*",
    "payload_removals/*",
    "payload_walks/*",
    "receipts/*",
    "walks/*",
    "wanted/*",
}
"""Records without a codec: listings, notes, receipts, parts of a version. Only their shapes are compared."""

CONTEXTS: Mapping[str, Callable[[Any], object]] = {
    "backfill": lambda value: context_of({"backfill": value}),
    "batch": lambda value: context_of({"batch": value}),
    "format": int,
    "forwarded": tuple,
    "group": Group.from_record,
    "lease": lambda value: context_of({"lease": value}),
    "named": lambda value: is_named(context_of({"named": value})),
    "outcome": CallOutcome.from_json,
    "reason": str,
    "scheduled": datetime.fromisoformat,
    "section": Grant.from_context,
    "standing": str,
    "step": StepOfFlow.from_json,
    "unit": units.PlacedUnit.from_record,
    "turns": int,
}


def run_golden_task(name: str, body: Data) -> None:
    """Run a task on an empty store. What it is about is missing; its payload must be understood all the same."""
    ports = Platform().ports
    envelope = TaskEnvelope.from_json(dict(body))
    match name.split():
        case ["batch_expand", _]:
            run_batch_task(ports, envelope.name, envelope.payload)
        case ["link_refresh", _]:
            run_link_task(ports, envelope.name, envelope.payload)
        case ["link_verify", _]:
            verify(ports, envelope.payload)
        case ["semaphore_admit", _]:
            {**SEMAPHORE_TASKS, **SECTION_TASKS, **RATE_TASKS}[envelope.name](ports, envelope.payload)
        case ["standing_fold", _]:
            run_standings_task(ports, envelope.name, envelope.payload)
        case ["turn"]:
            WakeUp.from_payload(envelope.payload)
        case ["flow_command"] if archives.is_archive(envelope.payload):
            archives.archive(ports, envelope.payload, lambda _, rows: list(rows))
        case _:
            what = "shop", envelope.name, envelope.payload, "flows"
            run_own_task(ports, parsed(Delivered("o", envelope.context, 0, 0, *what)))


def examples(prefixes: tuple[str, ...], *, without: bool = False) -> list[Any]:
    """Return the kinds of all files whose names begin with one of the prefixes; or with none of them."""
    return [
        pytest.param(kind, id=f"{path.stem} {name}")
        for path in files()
        for name, kind in read(path).items()
        if name.startswith(prefixes) is not without
    ]


@pytest.mark.parametrize("kind", examples(("task ", "context "), without=True))
def test_each_golden_record_is_read_and_would_be_written_again(kind: Kind) -> None:
    if kind.name in READ_BY_NAME:
        return
    for example in kind.examples:
        again = READERS[kind.name](example)
        for name in again.keys() & example.keys() - LATER:
            if again[name] is not None or name != "idle_since":
                assert same(again[name], _held(example, name)), name


def _held(example: Data, name: str) -> Any:
    """Return a field of an example; of a document, what the kit writes with its content."""
    if name != RESERVED:
        return example[name]
    return {key: value for key, value in example[name].items() if key != "large"}


@pytest.mark.parametrize("kind", examples(("task ",)))
def test_each_golden_task_is_understood(kind: Kind) -> None:
    for example in kind.examples:
        with suppress(Unavailable, NoSemaphore):
            run_golden_task(kind.name.removeprefix("task "), example)


@pytest.mark.parametrize("kind", examples(("context ",)))
def test_each_golden_context_is_understood(kind: Kind) -> None:
    name = kind.name.removeprefix("context ")
    for example in kind.examples:
        assert CONTEXTS[name](example[name]) is not None


def test_no_golden_record_has_a_format_that_is_not_read() -> None:
    for path in files():
        for kind in read(path).values():
            for example in kind.examples:
                formats.check_record(kind.name, example)


# --- shapes ---


def differences(seeds: int, worlds: Iterable[str] = tuple(sorted(WORLDS.keys() - FORGED))) -> list[str]:
    """Return in what the records and tasks that worlds write differ from the golden records, as sentences."""
    kinds = read(UNRELEASED)
    found = Collection.of_worlds(seeds, worlds)
    different = {f"{name} is a new kind" for name in found.smallest.keys() - kinds.keys()}
    for name in found.smallest.keys() & kinds.keys():
        for text in found.smallest[name].values():
            different.update(kinds[name].differences(from_text(text)))
    return sorted(different)


@pytest.mark.slow
def test_no_shape_is_written_that_the_golden_records_do_not_show() -> None:
    assert differences(SEEDS_QUICK) == [], HINT


@pytest.mark.marathon
@pytest.mark.timeout(600)
def test_no_shape_is_written_in_more_worlds_that_the_golden_records_do_not_show() -> None:
    assert differences(SEEDS) == [], HINT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("world", "change", "difference"),
    [
        ("semaphores", renamed_field, "semaphores/* has lost its field next_token"),
        ("semaphores", added_field, "semaphores/* has a new field or type: colour (text)"),
        ("semaphores", renamed_member_of_a_payload, "task semaphore_admit admit has lost its field payload.at"),
        ("semaphores", renamed_task, "task semaphore_admit grant is a new kind"),
        ("outbox", renamed_field_of_a_part, "outbox/* has a new field or type: tasks[].channel (text)"),
        ("links", renamed_member_of_the_envelope, "task link_refresh page has lost its field payload"),
    ],
)
def test_a_changed_shape_needs_new_golden_records(world: str, change: Change, difference: str) -> None:
    with change():
        assert difference in differences(40, [world])


def test_a_difference_from_the_golden_records_names_the_field() -> None:
    kind = Kind("things/*", [{"a": 1, "b": "x"}, {"a": None}])
    assert kind.differences({"a": 2.5, "b": "y"}) == []
    assert kind.differences({"b": 1, "c": [{"d": NOW}]}) == [
        "things/* has a new field or type: b (number)",
        "things/* has a new field or type: c (list)",
        "things/* has a new field or type: c[] (map)",
        "things/* has a new field or type: c[].d (time)",
        "things/* has lost its field a",
    ]


def test_the_examples_show_every_field_every_type_and_every_absence(tmp_path: Path) -> None:
    collection = Collection()
    for data in ({"a": 1}, {"a": 1, "b": NOW}, {"a": None, "b": NOW}, {"a": 2, "b": NOW}):
        collection.add("things/*", data)
    chosen = collection.examples()["things/*"]
    assert chosen == [{"a": 1}, {"a": None, "b": NOW}]
    write(tmp_path / "g.json", {"things/*": chosen})
    assert read(tmp_path / "g.json")["things/*"].examples == chosen


def test_what_users_write_and_keys_that_are_data_are_no_part_of_a_shape() -> None:
    data = {"enqueued": {"n1": True}, "payload": '{"x": 1}', "entries": '[["a"]]', "text": "{}"}
    assert pairs_of("things/*", data) == {
        ("enqueued", "map"),
        ("enqueued.*", "bool"),
        ("entries", "json"),
        ("entries[]", "list"),
        ("entries[][]", "text"),
        ("payload", "json"),
        ("payload.x", "number"),
        ("text", "any"),
    }


def test_a_record_is_the_same_after_its_text() -> None:
    assert from_text(to_text({"at": NOW, "m": [{"n": None}]})) == {"at": NOW, "m": [{"n": None}]}
