"""Messages posted after the end of their run, by the times of Google's emulator and of the local store (flow-43)."""

import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from signalbox.adapters.firestore.store import FirestoreStore
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import Ports
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.service import messages, reads, sends
from signalbox.flows.service.sends import Starting
from tests.unit.flows.shops import FUNCTION, Shop, flows_of

ADDRESS = FlowAddress("waits", "1")


async def waits() -> Any:
    return await flow.event("end")


@pytest.fixture(params=["firestore", "sqlite"])
def shop(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Shop]:
    store: FirestoreStore | SqliteStore = SqliteStore(tmp_path / "store.sqlite")
    if request.param == "firestore":
        emulator = request.getfixturevalue("firestore_emulator")
        store = FirestoreStore(f"messages-{uuid.uuid4().hex[:8]}", "(default)", emulator)
    shop = Shop(flows_of(waits))
    shop.world.ports = replace(shop.world.ports, store=store)
    yield shop
    store.close()


def sent(shop: Shop, ports: Ports, id_: str) -> bool:
    new = Starting("waits", shop.flows, FUNCTION, if_exists="replace_ended")
    return sends.send_event(ports, ADDRESS, "note", id_, id_, new).started


def test_a_message_that_was_posted_after_the_end_starts_a_run_and_one_from_before_the_end_does_not(shop: Shop) -> None:
    assert sent(shop, shop.ports, "first")
    assert not sent(shop, shop.ports, "before")
    header = reads.get(shop.ports, ADDRESS)
    sweep.terminate(shop.ports, ADDRESS)
    assert not sent(shop, shop.ports, "before")
    assert not sent(shop, shop.ports, "first")
    messages.send(shop.ports, header, messages.checked_event("note", "late"), messages.event_id(ADDRESS, "late"))
    assert reads.get(shop.ports, ADDRESS).incarnation == header.incarnation
    assert sent(shop, shop.ports, "late")
    assert not sent(shop, shop.ports, "late")
    assert reads.get(shop.ports, ADDRESS).incarnation != header.incarnation
