"""A page of another origin calls a function from Chromium: only a page whose origin the catalogue permits may."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox.adapters import settings
from signalbox.adapters.settings import from_environment
from signalbox.testing import Harness
from tests.serving import page_of, serving

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Page

CALL = """async ([url, options]) => {
    try {
        const answer = await fetch(url, options);
        return [answer.status, await answer.json(), answer.headers.get("ETag") !== null];
    } catch (error) {
        return error.name;
    }
}"""
PUT = {"method": "PUT", "body": '{"n": 1}', "headers": {"Content-Type": "application/json", "If-None-Match": "*"}}


@pytest.fixture
def origin() -> Iterator[str]:
    """Return the origin of a page."""
    with serving(page_of("<!doctype html><title>a page</title>")) as base:
        yield base.rstrip("/")


@pytest.fixture
def documents() -> Iterator[str]:
    """Return the address of the function `documents`."""
    with Harness() as harness:
        app = DispatcherMiddleware(page_of(""), {"/documents": harness.functions.app("documents")})
        with serving(app) as base:
            yield f"{base}documents"
    settings.bind(None)


def permit(*origins: str) -> None:
    settings.bind(replace(from_environment({}), origins={"documents": frozenset(origins)}))


def call(page: Page, url: str, options: dict[str, Any] | None = None) -> Any:
    return page.evaluate(CALL, [url, options or {}])


@pytest.mark.parametrize("permitted", ["this one", "*"])
def test_a_page_of_a_permitted_origin_writes_and_reads(page: Page, origin: str, documents: str, permitted: str) -> None:
    permit(origin if permitted == "this one" else "*", *([] if permitted == "*" else ["https://app.example.com"]))
    page.goto(origin)
    assert call(page, f"{documents}/a", PUT) == [201, {"key": "a", "n": 1}, True]
    assert call(page, f"{documents}/a") == [200, {"key": "a", "n": 1}, True]
    status, problem, _ = call(page, f"{documents}/a", PUT)
    assert (status, problem["type"]) == (412, "urn:signalbox:problem:precondition-failed")
    assert call(page, f"{documents}/nobody")[0] == 404


def test_a_page_of_another_origin_can_neither_write_nor_read(page: Page, origin: str, documents: str) -> None:
    permit(origin)
    page.goto(origin)
    call(page, f"{documents}/a", PUT)
    permit("https://app.example.com")
    assert call(page, f"{documents}/a") == "TypeError"
    assert call(page, f"{documents}/b", PUT) == "TypeError"
    permit(origin)
    assert call(page, f"{documents}/b")[0] == 404
