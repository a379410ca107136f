"""For how long an ended run is kept, and its archive, without which it is not removed."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox import Function, Problem, flow, read_rows
from signalbox.adapters import settings
from signalbox.core.effects import Effect
from signalbox.core.ports import Put
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.model.retention import Keeping
from signalbox.flows.problems import NoFlow, NotArchived
from signalbox.flows.service import lists, messages, reads, starts
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import Shop, flows_of, step

DAY = 24 * 3600
ARCHIVE = "gs://shop/archive"
KEPT = FlowAddress("order", "1")


async def order(amount: int = 0) -> Any:
    paid = await step("charge", amount=amount)
    name = await flow.event("name")
    return [paid, name]


async def broken() -> Any:
    await step("charge")
    raise KeyError("a bug")


def shop_of(days: int | None = None, archive: str = "") -> Shop:
    return Shop(flows_of(order, broken, keeping=Keeping.checked(days, archive)))


def ended(shop: Shop, id_: str = "1") -> str:
    """Start and end a run; return the name of its archive."""
    shop.start("order", id_, amount=7)
    messages.post_event(shop.ports, FlowAddress("order", id_), "name", "ann", "e")
    shop.settle()
    return reads.get(shop.ports, FlowAddress("order", id_)).archive


def ended_and_not_archived(shop: Shop) -> Effect:
    """Start and end a run; return the task of its archive, which is lost."""
    shop.start("order", amount=7)
    shop.event("order", "name", "ann")
    while not reads.get(shop.ports, KEPT).end:
        shop.deliver(shop.world.tasks.pop(0))
    [task] = [each for each in shop.world.tasks if each.payload.get("act") == "archive"]
    shop.world.tasks.clear()
    return task


def swept(shop: Shop, seconds: float) -> None:
    shop.world.pass_time(seconds)
    sweep.sweep(shop.ports)
    shop.settle()


def is_there(shop: Shop, address: FlowAddress = KEPT) -> bool:
    try:
        reads.get(shop.ports, address)
    except NoFlow:
        return False
    return True


# --- retention ---


@pytest.mark.parametrize(("days", "kept"), [(None, 32), (32, 32), (90, 90), (3_650, 3_650)])
def test_an_ended_run_is_kept_for_its_retention(days: int | None, kept: int) -> None:
    shop = shop_of(days)
    ended(shop)
    swept(shop, kept * DAY - 10)
    assert is_there(shop)
    swept(shop, 20)
    assert not is_there(shop)


@pytest.mark.parametrize("days", [0, 31, 3_651, -1, 40.5, True, "90"])
def test_a_retention_that_breaks_a_promise_or_is_none_is_refused(days: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="retention_days must be"):
        Function("shop").flow(retention_days=days)(broken)


def test_the_code_of_the_last_turn_decides() -> None:
    shop = shop_of(90)
    shop.start("order")
    shop.flows = flows_of(order, keeping=Keeping(40))
    shop.event("order", "name", "ann")
    shop.settle()
    shop.flows = flows_of(order, keeping=Keeping(365))
    swept(shop, 40 * DAY + 10)
    assert not is_there(shop)


def test_a_run_that_is_terminated_has_the_retention_of_its_last_turn() -> None:
    shop = shop_of(90)
    shop.start("order")
    sweep.terminate(shop.ports, KEPT)
    shop.settle()
    swept(shop, 89 * DAY)
    assert is_there(shop)


def test_a_start_by_a_function_without_the_code_has_the_retention_of_its_first_turn() -> None:
    shop = shop_of(90)
    starts.start(shop.ports, flows_of(), "shop", KEPT, {})
    assert reads.get(shop.ports, KEPT).keeping == Keeping()
    shop.settle()
    assert reads.get(shop.ports, KEPT).keeping == Keeping(90)


def test_a_fork_has_the_retention_of_the_code_that_makes_it() -> None:
    shop = shop_of()
    ended(shop)
    shop.flows = flows_of(order, keeping=Keeping(90))
    starts.fork(shop.ports, shop.flows, KEPT, starts.Fork("2", 1))
    assert reads.get(shop.ports, FlowAddress("order", "2")).keeping == Keeping(90)


def test_a_repeated_start_under_another_retention_is_the_same_start() -> None:
    shop = shop_of(90)
    assert shop.start("order")
    shop.flows = flows_of(order, keeping=Keeping(365, ARCHIVE))
    assert not shop.start("order")


def test_a_header_without_the_fields_is_kept_for_the_usual_time() -> None:
    shop = shop_of()
    ended(shop)
    header = reads.get(shop.ports, KEPT)
    record = header.to_record()
    assert not {"kept_days", "archive"} & record.keys()
    assert FlowHeader.from_record(KEPT, record).keeping == Keeping()


# --- the archive ---


def test_a_run_is_archived_when_it_has_ended() -> None:
    shop = shop_of(archive=ARCHIVE)
    shop.start("order", "a b", amount=7)
    messages.post_event(shop.ports, FlowAddress("order", "a b"), "name", "ann", "e")
    shop.settle()
    header = reads.get(shop.ports, FlowAddress("order", "a b"))
    [(name, rows)] = shop.archives.items()
    assert header.end is not None
    assert name == f"{ARCHIVE}/flow=order/date={header.end.at:%Y-%m-%d}/a%20b~{header.incarnation}.ndjson"
    run, *entries = rows
    assert dict(run) | {"started_at": "", "ended_at": ""} == {
        "flow": "order",
        "id": "a b",
        "entry": "run",
        "number": 0,
        "incarnation": header.incarnation,
        "generation": 0,
        "arguments": {"amount": 7},
        "labels": {},
        "state": "completed",
        "result": ["charge", "ann"],
        "started_at": "",
        "ended_at": "",
        "log_length": 2,
    }
    assert datetime.fromisoformat(run["started_at"]) <= datetime.fromisoformat(run["ended_at"])
    assert [(each["number"], each["entry"], each.get("command"), each.get("name")) for each in entries] == [
        (1, "event", None, "name"),
        (2, "done", "step shop.charge", None),
    ]


def test_the_archive_of_a_long_log_has_all_chunks_in_order() -> None:
    async def long() -> Any:
        for _ in range(40):
            await flow.event("x")

    shop = Shop(flows_of(long, keeping=Keeping(None, ARCHIVE)))
    with replaced(flow_tail_bytes_max=300, flow_chunk_bytes_max=900):
        shop.start("long")
        for number in range(40):
            shop.event("long", "x", number, f"e{number}")
        shop.settle()
    [rows] = shop.archives.values()
    assert [each["value"] for each in rows[1:]] == list(range(40))
    assert reads.get(shop.ports, FlowAddress("long", "1")).log.chunks > 1


def test_a_failed_run_has_its_error_in_the_archive() -> None:
    shop = shop_of(archive=ARCHIVE)
    shop.start("order")
    messages.cancel(shop.ports, KEPT, "too late")
    shop.settle()
    [rows] = shop.archives.values()
    assert (rows[0]["state"], rows[0]["error"]["detail"]) == ("cancelled", "too late")


def test_a_run_whose_archive_fails_is_kept_and_archived_later() -> None:
    shop = shop_of(archive=ARCHIVE)
    shop.storage_fails = True
    ended(shop)
    assert [message for message, _ in shop.world.log.errors] == ["run not archived"]
    for _ in range(3):
        swept(shop, 40 * DAY)
        assert is_there(shop)
    assert len(shop.world.log.errors) == 4
    shop.storage_fails = False
    swept(shop, LIMITS.flow_archive_seconds + 1)
    assert shop.archives
    swept(shop, 1)
    assert not is_there(shop)


def test_an_archived_run_is_kept_for_its_retention_and_its_listing_says_when_it_was_archived() -> None:
    shop = shop_of(90, ARCHIVE)
    ended(shop)
    swept(shop, LIMITS.flow_archive_seconds + 1)
    swept(shop, 89 * DAY)
    assert is_there(shop)
    [listed] = lists.list_flows(shop.ports, lists.Runs("order")).flows
    assert listed.archived_at
    assert listed.ended_at
    assert listed.archived_at >= listed.ended_at
    swept(shop, DAY)
    assert not is_there(shop)


def test_a_lost_task_is_repeated_after_ten_minutes() -> None:
    shop = shop_of(archive=ARCHIVE)
    ended_and_not_archived(shop)
    swept(shop, LIMITS.flow_archive_seconds - 10)
    assert not shop.archives
    swept(shop, 20)
    assert len(shop.archives) == 1


def test_a_repeat_writes_the_same_content_under_the_same_name() -> None:
    shop = shop_of(archive=ARCHIVE)
    task = ended_and_not_archived(shop)
    shop.deliver(task)
    before = dict(shop.archives)
    shop.archives.clear()
    listing = shop.ports.store.read("flows/order~1")
    shop.ports.store.commit([Put("flows/order~1", {"due_at": shop.world.now})])  # its mark is lost
    shop.world.pass_time(60)
    shop.deliver(task)
    assert shop.archives == before
    assert "archived_at" in (listing[0].data or {})


def test_a_run_that_is_not_archived_is_not_deleted_by_hand_either() -> None:
    shop = shop_of(archive=ARCHIVE)
    shop.storage_fails = True
    ended(shop)
    with pytest.raises(NotArchived, match="The archive of '1' is not written yet: gs://shop/archive/flow=order/"):
        sweep.delete(shop.ports, KEPT)
    shop.storage_fails = False
    swept(shop, LIMITS.flow_archive_seconds + 1)
    sweep.delete(shop.ports, KEPT)
    assert not is_there(shop)


def test_a_stuck_run_that_is_deleted_ends_and_is_archived_before() -> None:
    shop = shop_of(archive=ARCHIVE)
    shop.start("broken")
    shop.settle()
    address = FlowAddress("broken", "1")
    assert reads.get(shop.ports, address).stuck
    with pytest.raises(NotArchived):
        sweep.delete(shop.ports, address)
    shop.settle()
    sweep.delete(shop.ports, address)
    assert not is_there(shop, address)
    assert [rows[0]["state"] for rows in shop.archives.values()] == ["cancelled"]


def test_two_runs_of_one_id_have_two_archives() -> None:
    shop = shop_of(archive=ARCHIVE)
    first = ended(shop)
    sweep.delete(shop.ports, KEPT)
    second = ended(shop)
    assert first != second
    assert set(shop.archives) == {first, second}


def test_a_late_task_of_a_removed_run_writes_nothing() -> None:
    shop = shop_of(archive=ARCHIVE)
    task = ended_and_not_archived(shop)
    shop.deliver(task)
    sweep.delete(shop.ports, KEPT)
    shop.archives.clear()
    shop.deliver(task)
    assert not shop.archives
    ended(shop)
    shop.deliver(task)
    assert len(shop.archives) == 1


def test_a_note_of_a_removed_run_does_not_count_for_the_next_one_under_the_id() -> None:
    shop = shop_of(archive=ARCHIVE)
    task, write = ended_and_not_archived(shop), shop.write

    def slow(name: str, rows: Any) -> None:
        shop.write = write  # type: ignore[method-assign]  # this write takes longer than the run exists
        shop.deliver(task)
        sweep.delete(shop.ports, KEPT)
        ended_and_not_archived(shop)
        write(name, rows)

    shop.write = slow  # type: ignore[method-assign]  # as above
    shop.deliver(task)
    with pytest.raises(NotArchived):
        sweep.delete(shop.ports, KEPT)


@pytest.mark.parametrize(
    "archive", ["gs://", "gs:///x", "gs://Shop/x", "gs://shop/a*", "gs://shop/a\nb", "gs://s", "/", "x" * 301, 7]
)
def test_a_place_that_cannot_be_is_refused(archive: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="archive must be"):
        Function("shop").flow(archive=archive)(broken)


def test_the_name_of_an_archive_fits_into_a_name_of_a_file() -> None:
    shop = shop_of(archive="gs://shop")
    shop.start("order", "ä" * 400)
    sweep.terminate(shop.ports, FlowAddress("order", "ä" * 400))
    header = reads.get(shop.ports, FlowAddress("order", "ä" * 400))
    assert len(header.archive.rpartition("/")[2]) + len(".part") + 33 < 255


def test_a_listing_of_another_release_is_archived_before_it_is_removed() -> None:
    """Its `due_at` may be that of the removal."""
    shop = shop_of(archive=ARCHIVE)
    shop.storage_fails = True
    ended(shop)
    [listing] = [shop.ports.store.read("flows/order~1")[0]]
    shop.ports.store.commit([Put(listing.path, {**dict(listing.data or {}), "due_at": shop.world.now})])
    swept(shop, 40 * DAY)
    assert is_there(shop)


# --- through the decorator ---


def test_a_function_writes_its_archive_to_a_folder(harness: Harness, tmp_path: Path) -> None:
    app = Function("kiosk")

    @app.flow(retention_days=90, archive=str(tmp_path))
    async def sale(item: str) -> str:
        if item == "tea":
            raise Problem("There is no tea.")
        return item

    harness.add(app)
    for item in ("tea", "cup"):
        sale.start(item, item=item)
    harness.run()
    rows = [row for file in sorted(tmp_path.rglob("*.ndjson")) for row in read_rows(file)]
    assert [(row["id"], row["state"]) for row in rows] == [("cup", "completed"), ("tea", "failed")]


def test_a_bucket_is_a_folder_outside_of_the_cloud(harness: Harness, tmp_path: Path) -> None:
    app = Function("kiosk")

    @app.flow(archive="gs://shop-archive/flows/")
    async def sale() -> None: ...

    harness.add(app)
    before = settings.bind(replace(settings.settings(), archives=str(tmp_path), storage_emulator=""))
    try:
        sale.start("1")
        harness.run()
    finally:
        settings.bind(before)
    [file] = tmp_path.rglob("*.ndjson")
    assert file.relative_to(tmp_path).parts[:3] == ("shop-archive", "flows", "flow=sale")
