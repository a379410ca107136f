"""The payload stores keep one contract: in memory, in files, and in a bucket of an emulator of Cloud Storage."""

import os
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from errno import ENOSPC
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from gcp_storage_emulator import server as emulator
from gcp_storage_emulator.handlers import objects
from gcp_storage_emulator.server import create_server

from signalbox.adapters.cost_meter import measure, metered
from signalbox.adapters.kept_payloads import STORED_SECONDS, KeptPayloads
from signalbox.adapters.payload_bucket import BucketPayloads
from signalbox.adapters.payload_files import FilePayloads
from signalbox.adapters.runtime import payload_store
from signalbox.adapters.settings import from_environment
from signalbox.core.ports import PayloadStore, Ports
from signalbox.core.problems import Unavailable
from signalbox.testing.memory_payloads import MemoryPayloads
from signalbox_tools.local.child_processes import free_ports

OWNER = "flows/shop~Grüße 7"
KEY = "flows/hash/inc/0/digest"


def _as_google(request: Any, response: Any, storage: Any) -> None:
    """Rewrite an object as Cloud Storage does: with the metadata of the request, which the emulator ignores."""
    objects.rewrite(request, response, storage)
    bucket, name = request.params["dest_bucket_name"], request.params["dest_object_id"]
    if response.status < 300:
        storage.get_file_obj(bucket, name)["metadata"] = request.data["metadata"]


@pytest.fixture(scope="module")
def emulated() -> Iterator[str]:
    [port] = free_ports(1)
    server = create_server("127.0.0.1", port, in_memory=True, default_bucket="payloads")
    server.start()
    with pytest.MonkeyPatch.context() as patch:
        for _, handlers in emulator.HANDLERS:
            if handlers.get("POST") is objects.rewrite:
                patch.setitem(handlers, "POST", _as_google)
        yield f"http://127.0.0.1:{port}"
    server.stop()


@pytest.fixture(params=["memory", "files", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path, emulated: str) -> PayloadStore:
    if request.param == "memory":
        return MemoryPayloads(lambda: datetime.now(UTC))
    if request.param == "files":
        return FilePayloads(tmp_path / "payloads")
    bucket = BucketPayloads("payloads", emulated)
    bucket.delete([each.key for each in bucket.list("", "", 100)])
    return bucket


def test_a_content_is_read_as_it_was_stored(store: PayloadStore) -> None:
    store.create(KEY, b'{"a": "line\\n"}\n--x\r\n', OWNER)
    store.create(KEY, b'{"a": "line\\n"}\n--x\r\n', OWNER)
    assert store.read(KEY) == b'{"a": "line\\n"}\n--x\r\n'
    assert store.read("flows/hash/inc/0/other") is None


def test_a_copy_has_another_owner_and_outlives_its_source(store: PayloadStore) -> None:
    store.create(KEY, b"1", OWNER)
    assert store.copy(KEY, "flows/other/inc/0/digest", "flows/shop~8")
    store.delete([KEY])
    assert store.read("flows/other/inc/0/digest") == b"1"
    assert [each.owner for each in store.list("flows/other", "", 10)] == ["flows/shop~8"]
    assert not store.copy(KEY, "flows/third/inc/0/digest", "flows/shop~9")


def test_lists_are_in_order_below_a_prefix_and_after_a_key(store: PayloadStore) -> None:
    for key in ("flows/a/1/0/x", "flows/a/1/0/y", "flows/a/10/0/z", "flows/b/1/0/x"):
        store.create(key, b"1", OWNER)
    assert [each.key for each in store.list("flows/a/1/", "", 10)] == ["flows/a/1/0/x", "flows/a/1/0/y"]
    assert [each.key for each in store.list("", "flows/a/1/0/x", 2)] == ["flows/a/1/0/y", "flows/a/10/0/z"]
    [first] = store.list("", "", 1)
    assert first.owner == OWNER
    assert abs(first.created_at - datetime.now(UTC)) < timedelta(minutes=5)


def test_what_is_deleted_is_gone_and_may_be_deleted_again(store: PayloadStore) -> None:
    for number in range(20):
        store.create(f"flows/a/1/0/{number}", b"1", OWNER)
    keys = [f"flows/a/1/0/{number}" for number in range(21)]
    store.delete(keys)
    store.delete(keys)
    assert list(store.list("", "", 10)) == []


def test_a_bucket_that_does_not_answer_is_unavailable() -> None:
    [port] = free_ports(1)
    with pytest.raises(Unavailable, match="failed"):
        BucketPayloads("payloads", f"http://127.0.0.1:{port}", lambda _: None).read(KEY)


def test_a_refusal_is_not_repeated(emulated: str) -> None:
    pauses: list[float] = []
    with pytest.raises(Unavailable, match="404"):
        BucketPayloads("another", emulated, pauses.append).create(KEY, b"1", OWNER)
    assert pauses == []


def test_the_settings_name_a_bucket_or_a_folder(tmp_path: Path) -> None:
    def of(value: str) -> PayloadStore | None:
        return payload_store(from_environment({"SIGNALBOX_PAYLOADS": value}))

    assert isinstance(of("gs://shop-payloads"), BucketPayloads)
    assert isinstance(of(str(tmp_path)), FilePayloads)
    assert of("") is None


def test_a_process_stores_and_reads_a_payload_once_and_only_that_is_counted() -> None:
    memory = MemoryPayloads(lambda: datetime.now(UTC))
    ports = metered(Ports(None, None, None, None, memory))  # type: ignore[arg-type]  # only payloads are used
    assert ports.payloads is not None
    with measure() as cost:
        for _ in range(2):
            ports.payloads.create(KEY, b"1", OWNER)
            ports.payloads.read(KEY)
            ports.payloads.copy(KEY, "flows/other/inc/0/digest", OWNER)
        ports.payloads.read("flows/other/inc/0/digest")
    assert (cost.stored, cost.opened, cost.copied, cost.round_trips) == (1, 1, 1, 3)


def test_a_payload_that_was_stored_long_ago_is_stored_again() -> None:
    memory, now = MemoryPayloads(lambda: datetime.now(UTC)), [0.0]
    counts: list[str] = []
    kept = KeptPayloads(memory, counts.append, lambda: now[0])
    kept.create(KEY, b"1", OWNER)
    now[0] = STORED_SECONDS + 1
    kept.create(KEY, b"1", OWNER)
    assert counts == ["stored", "stored"]


def test_only_the_last_payloads_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbox.adapters.kept_payloads.KEPT_BYTES_MAX", 10)
    counts: list[str] = []
    kept = KeptPayloads(MemoryPayloads(lambda: datetime.now(UTC)), counts.append)
    for key in ("a", "b", "c"):
        kept.create(key, b"12345", OWNER)
    assert [kept.read(key) for key in ("c", "b", "a")] == [b"12345"] * 3
    assert counts == ["stored"] * 3 + ["opened"]


def test_other_users_of_the_machine_cannot_read_the_files(tmp_path: Path) -> None:
    FilePayloads(tmp_path / "payloads").create(KEY, b"1", OWNER)
    assert (tmp_path / "payloads").stat().st_mode & 0o777 == 0o700


def test_files_are_listed_although_a_folder_is_removed_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FilePayloads(tmp_path)
    for key in ("flows/a/x", "flows/b/y"):
        store.create(key, b"1", OWNER)
    scandir = os.scandir

    def removed_meanwhile(folder: Any) -> Any:
        if str(folder).endswith("b"):
            shutil.rmtree(folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", removed_meanwhile)
    monkeypatch.setattr(os, "listdir", lambda folder: [each.name for each in os.scandir(folder)])
    assert [found.key for found in store.list("flows/", "", 10)] == ["flows/a/x"]


def test_a_damaged_payload_is_read_again_once_it_is_restored(tmp_path: Path) -> None:
    key = f"flows/hash/inc/0/{sha256(b'whole').hexdigest()}"
    files, counts = FilePayloads(tmp_path), list[str]()
    kept = KeptPayloads(files, counts.append)
    files.create(key, b"wh", OWNER)
    assert kept.read(key) == b"wh"
    files.delete([key])
    files.create(key, b"whole", OWNER)
    assert [kept.read(key), kept.read(key)] == [b"whole", b"whole"]
    assert counts == ["opened", "opened"]


def test_a_full_disk_makes_a_write_unavailable_and_leaves_no_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr("signalbox.adapters.payload_files.fsync", full)
    with pytest.raises(Unavailable, match="No space left on device"):
        FilePayloads(tmp_path).create(KEY, b"1", OWNER)
    assert [each for each in tmp_path.rglob("*") if each.is_file()] == []
