"""A checkout whose third step has a bug: fixed, and retried in place by clicks, while its parent waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware

from signalbox import Function, Problem
from signalbox.testing import Harness
from tests.browser.console.console_page import Console
from tests.serving import serving

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

pytestmark = pytest.mark.slow

ADDRESSES: dict[str, str] = {}
"""The addresses of customers, which the bug is about."""

till = Function("till")
did: list[str] = []


@till.task
def reserve(order: str) -> str:
    did.append("reserve")
    return f"{order} is reserved"


@till.task
def charge(order: str) -> str:
    did.append("charge")
    return f"receipt of {order}"


@till.task
def ship(order: str, to: str) -> str:
    did.append("ship")
    if not to:
        raise Problem("A parcel without an address.")
    return f"{order} to {to}"


@till.flow
async def checkout(order: str, customer: str) -> dict[str, str]:
    reserved = await reserve.call(order)
    paid = await charge.call(order)
    shipped = await ship.call(order, ADDRESSES[customer] if customer == "bob" else ADDRESSES.get(customer, ""))
    return {"reserved": reserved, "paid": paid, "shipped": shipped}


@till.flow
async def check(order: str) -> str:
    if not ADDRESSES:
        raise Problem("Nobody has an address.")
    return await reserve.call(order)


@till.flow
async def sale(order: str, customer: str) -> dict[str, str]:
    return await checkout.call_as(f"checkout-{order}", order=order, customer=customer)


@pytest.fixture
def base(app: WSGIApplication, harness: Harness) -> Iterator[str]:
    """Serve the project's functions, and the till next to them."""
    ADDRESSES.clear()
    did.clear()
    harness.add(till)
    with serving(DispatcherMiddleware(app, {"/till": harness.functions.app("till")})) as base:
        yield base


def started(harness: Harness, order: str, customer: str) -> None:
    arguments = {"order": order, "customer": customer}
    assert harness.post(f"till/flows/sale/{order}", json={"arguments": arguments}).status == 201
    harness.travel(2, raise_errors=False)


def run_of(harness: Harness, flow: str, id_: str) -> dict[str, Any]:
    shown: dict[str, Any] = harness.get(f"till/flows/{flow}/{id_}").json
    return shown


def states(harness: Harness, order: str) -> tuple[str, str]:
    """Return the states of the checkout and of its parent."""
    return run_of(harness, "checkout", f"checkout-{order}")["state"], run_of(harness, "sale", order)["state"]


def to_the_child(console: Console, order: str) -> None:
    """Follow the link of the sub-flow, for which the row of a command may have to be opened."""
    link = f"a[href$='flows/till/checkout/checkout-{order}']"
    console.page.wait_for_selector(link, state="attached")
    if not console.page.is_visible(link):
        console.page.click(f"details:has({link}) > summary")
    console.page.click(link)
    heading = f"checkout/checkout-{order}"
    console.page.wait_for_function("text => document.querySelector('h1')?.textContent === text", arg=heading)


def retry(console: Console, action: str, dropped: str) -> None:
    """Press a button of retry, look at its preview, give a reason, and confirm."""
    page = console.page
    page.click(f"button[data-action={action}]")
    page.wait_for_selector("#action-preview li")
    assert dropped in page.inner_text("#action-preview")
    page.fill("dialog [name=reason]", "the address was missing")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")


def resume(console: Console) -> None:
    console.page.click("button[data-action=resume]")
    console.page.wait_for_selector("dialog[open]")
    console.page.fill("dialog [name=reason]", "the address is there")
    console.page.click("dialog [name=confirm]")
    console.page.wait_for_selector("#action:not([open])", state="attached")


def completed(console: Console, harness: Harness, order: str, address: str) -> None:
    """Check that the page shows the end, that the parent has the result, and that earlier steps ran once."""
    harness.run()
    console.page.wait_for_function("() => document.querySelector('dd')?.textContent === 'completed'")
    child, parent = run_of(harness, "checkout", f"checkout-{order}"), run_of(harness, "sale", order)
    shipped = {"reserved": f"{order} is reserved", "paid": f"receipt of {order}", "shipped": f"{order} to {address}"}
    assert child["result"] == parent["result"] == shipped
    assert (did.count("reserve"), did.count("charge")) == (1, 1)


def test_a_checkout_whose_third_step_has_failed_is_retried_in_place_while_its_parent_waits(
    console: Console, harness: Harness
) -> None:
    assert harness.post("till/flows/sale/o-1", json={"arguments": {"order": "o-1", "customer": "ann"}}).status == 201
    harness.advance(1)
    harness.deliver_task(harness.take("turn"))  # the parent begins its sub-flow
    harness.post("till/flows/sale/o-1/suspend", json={"reason": "an inventory"})
    harness.travel(2, raise_errors=False)
    assert states(harness, "o-1") == ("failed", "suspended")
    ADDRESSES["ann"] = "York"
    console.open("flows/till/sale/o-1", "sale/o-1")
    to_the_child(console, "o-1")
    retry(console, "retry", "till.ship")
    harness.run()
    assert states(harness, "o-1") == ("completed", "suspended")
    assert run_of(harness, "checkout", "checkout-o-1")["retried"]["reason"] == "the address was missing"
    console.open("flows/till/sale/o-1", "sale/o-1")
    resume(console)
    completed(console, harness, "o-1", "York")


def test_a_checkout_that_a_bug_has_stopped_at_its_third_step_goes_on_while_its_parent_waits(
    console: Console, harness: Harness
) -> None:
    started(harness, "o-2", "bob")
    assert states(harness, "o-2") == ("stuck", "running")
    ADDRESSES["bob"] = "Bath"
    console.open("flows/till/sale/o-2", "sale/o-2")
    to_the_child(console, "o-2")
    assert {"retry", "retry-from"} & {*console.attributes("button[data-action]", "action")} == {"retry-from"}
    page = console.page
    page.locator("button[data-action=retry-from]").first.dispatch_event("click")
    page.wait_for_selector("#action-preview li")
    previewed = page.inner_text("#action-preview")
    assert "run a second time" in previewed
    assert previewed.rstrip().endswith("step till.charge")
    page.keyboard.press("Escape")
    page.wait_for_selector("#action:not([open])", state="attached")
    resume(console)
    completed(console, harness, "o-2", "Bath")


def test_a_checkout_whose_parent_has_failed_with_it_goes_on_under_its_id_when_the_parent_is_retried(
    console: Console, harness: Harness
) -> None:
    started(harness, "o-3", "ann")
    assert states(harness, "o-3") == ("failed", "failed")
    ADDRESSES["ann"] = "York"
    console.open("flows/till/sale/o-3", "sale/o-3")
    page = console.page
    page.click("button[data-action=retry]")
    page.wait_for_selector("#action-preview li")
    assert "flow checkout\nRuns again in the sub-flows" in page.inner_text("#action-preview").replace("\n\n", "\n")
    page.keyboard.press("Escape")
    retry(console, "retry", "checkout/checkout-o-3, 3: step till.ship")
    completed(console, harness, "o-3", "York")


def test_a_run_whose_code_has_failed_by_itself_is_retried_with_all_its_entries(
    console: Console, harness: Harness
) -> None:
    harness.post("till/flows/check/o-4", json={"arguments": {"order": "o-4"}})
    harness.travel(2, raise_errors=False)
    assert run_of(harness, "check", "o-4")["state"] == "failed"
    ADDRESSES["ann"] = "York"
    console.open("flows/till/check/o-4", "check/o-4")
    page = console.page
    assert "retry" not in console.attributes("button[data-action]", "action")
    page.click("button[data-action=retry-from]")
    page.wait_for_selector("#action-preview p")
    page.fill("dialog [name=reason]", "the address is there")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert run_of(harness, "check", "o-4")["state"] == "completed"
