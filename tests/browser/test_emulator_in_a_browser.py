"""Google's emulator answers every web page. Its address is one that a page cannot find."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from signalbox_tools.local.store.firestore_emulator import Running, find_installed
from tests.required_programs import EMULATOR
from tests.serving import page_of, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers at all addresses of 127.0.0.0/8"),
]

if TYPE_CHECKING:
    from playwright.sync_api import Page

WRITE = """async ([host, body]) => {
    const parent = "projects/p/databases/(default)/documents";
    try {
        const answer = await fetch(`http://${host}/v1/${parent}/outbox?documentId=forged`, {method: "POST", body});
        return [answer.status, (await answer.json()).name];
    } catch (error) {
        return error.name;
    }
}"""
RECORD = '{"fields": {"tasks": {"arrayValue": {}}}}'


@pytest.fixture(scope="module")
def emulator() -> Iterator[Running]:
    EMULATOR.require()
    installed = find_installed()
    assert installed
    with installed.start() as running:
        yield running


def write(page: Page, host: str) -> Any:
    return page.evaluate(WRITE, [host, RECORD])


def test_a_page_that_tries_all_ports_does_not_find_the_emulator(page: Page, emulator: Running) -> None:
    port = emulator.host.rpartition(":")[2]
    with serving(page_of("<!doctype html><title>a page</title>")) as origin:
        page.goto(origin)
        assert [write(page, f"{name}:{port}") for name in ("127.0.0.1", "localhost", "127.1.1.1")] == ["TypeError"] * 3
        # The address is what protects it: a page that had it could write any record.
        assert write(page, emulator.host) == [200, "projects/p/databases/(default)/documents/outbox/forged"]
