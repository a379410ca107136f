"""The console's buttons in Chromium: of one or of all that match, locally and through the relay."""

from __future__ import annotations

import getpass
import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from signalbox.testing import Harness
from tests.browser.console.console_page import Console, HeldRequests, relaying

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.slow


def confirm(page: Page, button: str, **fields: str) -> None:
    """Press a button, fill its dialog, and confirm it."""
    page.click(f"button[data-action={button}]")
    page.wait_for_selector("dialog[open]")
    for name, value in fields.items():
        page.fill(f"dialog [name='{name}']", value)
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")


def stuck_at_the_dock(harness: Harness, *ids: str) -> None:
    """Start shipments that are stuck, as there is no semaphore `dock`; then create it."""
    for id_ in ids:
        harness.post(f"shop/flows/ship/{id_}", json={"arguments": {"order": id_, "item": "cup"}})
    harness.travel(2, raise_errors=False)
    assert {state_of(harness, id_) for id_ in ids} == {"stuck"}
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60})


def state_of(harness: Harness, run: str, flow: str = "ship") -> str:
    return str(harness.get(f"shop/flows/{flow}/{run}").json["state"])


def test_a_stuck_run_is_resumed_by_clicks(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    assert console.facts()["state"] == "stuck"
    confirm(console.page, "resume", reason="the dock is there")
    harness.run()
    console.page.wait_for_function("() => document.querySelector('dd')?.textContent === 'completed'")
    assert console.attributes("button[data-action]", "action") == ["fork", "delete-run"]


def test_a_run_is_suspended_and_resumed_by_clicks(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    confirm(console.page, "suspend", reason="an inventory")
    console.page.wait_for_function("() => document.querySelector('dd')?.textContent === 'suspended'")
    assert console.facts()["suspended"].endswith(", an inventory")
    assert "suspend" not in console.attributes("button[data-action]", "action")
    harness.run()
    assert state_of(harness, "o-1") == "suspended"
    confirm(console.page, "resume", reason="it is over")
    harness.run()
    console.page.wait_for_function("() => document.querySelector('dd')?.textContent === 'completed'")


def test_a_run_is_forked_by_clicks_and_the_fork_names_its_origin(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    confirm(console.page, "fork", **{"body id": "o-2", "body from_entry": "0"}, reason="the dock is there")
    harness.run()
    assert state_of(harness, "o-2") == "completed"
    console.open("flows/shop/ship/o-2", "ship/o-2")
    assert console.facts()["forked from"] == "o-1, 0 entries"
    confirm(console.page, "fork", **{"body from_entry": "0"}, reason="the same again")
    harness.run()
    assert state_of(harness, "o-2-2") == "completed"


def test_a_failed_run_is_retried_from_the_row_of_its_failed_step_by_clicks(console: Console, harness: Harness) -> None:
    order = {"order": "o-1", "item": "cup", "count": 1, "amount": 0}
    harness.post("shop/flows/checkout/o-1", json={"arguments": order})
    harness.travel(60, raise_errors=False)
    assert state_of(harness, "o-1", "checkout") == "failed"
    console.open("flows/shop/checkout/o-1", "checkout/o-1")
    console.page.click("details.failed summary")
    console.page.click("button[data-action=retry-from]")
    console.page.wait_for_selector("#action-preview li")
    assert "1: step shop.charge" in console.page.inner_text("#action-preview")
    console.page.fill("dialog [name=reason]", "another try")
    console.page.click("dialog [name=confirm]")
    console.page.wait_for_selector("#action:not([open])", state="attached")
    assert harness.get("shop/flows/checkout/o-1").json["retried"]["reason"] == "another try"


def confirm_all(page: Page, button: str, count: int, reason: str) -> None:
    """Press a button for all that match, wait for their number, and confirm it."""
    page.click(f"button[data-action={button}]")
    page.wait_for_function(
        "text => document.querySelector('#action-what')?.textContent === text", arg=f"{count} match."
    )
    page.fill("dialog [name=reason]", reason)
    page.keyboard.press("Enter")


def posts(page: Page) -> list[str]:
    """Return the addresses to which the page posts from now on."""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(urlsplit(request.url).path) if request.method == "POST" else None)
    return sent


def test_all_runs_that_match_are_counted_and_then_resumed_by_one_batch(console: Console, harness: Harness) -> None:
    ids = [f"o-{n}" for n in range(6)]
    stuck_at_the_dock(harness, *ids)
    console.open("flows/shop/ship?state=stuck", "Runs of ship")
    page, sent = console.page, posts(console.page)
    confirm_all(page, "resume", 6, "the dock is there")
    page.wait_for_selector("dialog[open] progress[max='6'][value='0']", state="attached")
    batch = (page.get_attribute("#action-what a", "href") or "").removeprefix("#/")
    harness.run()
    page.wait_for_selector("#action:not([open])", state="attached")
    assert sent == ["/shop/flows/ship/:act"]
    assert {state_of(harness, id_) for id_ in ids} == {"completed"}
    assert harness.get(batch).json["succeeded"] == 6
    [line] = [values for message, values in harness.log.infos if message == "console action"]
    asked = {"action": "resume", "state": "stuck"}
    done = {"action": "act-on-runs", "call": "POST /shop/flows/ship/:act", "status": 202, "asked": asked}
    assert line == {**done, "account": getpass.getuser(), "reason": "the dock is there"}


def waiting_for_approval(harness: Harness, *ids: str) -> None:
    """Start orders whose runs wait for an event."""
    harness.post("shop/objects/Stock/cup/put", json={"count": 9})
    for id_ in ids:
        order = {"order": id_, "item": "cup", "count": 1, "amount": 90_000}
        harness.post(f"shop/flows/checkout/{id_}", json={"arguments": order})
    harness.travel(2)


def test_runs_that_refuse_an_action_on_all_that_match_are_counted(page: Page, base: str, harness: Harness) -> None:
    console = Console(page, base)
    waiting_for_approval(harness, "o-1", "o-2")
    harness.post("shop/flows/checkout/o-2/terminate", json={})
    console.open("flows/shop/checkout?prefix=o-", "Runs of checkout")
    refused = json.dumps({"action": "delete", "prefix": "o-"})  # by the run that has not ended
    page.route("**/:act", lambda route: route.continue_(post_data=refused))
    confirm_all(page, "terminate", 2, "a test")
    page.wait_for_selector("#action-what a")
    harness.run(due_only=True, raise_errors=False)
    page.wait_for_selector("dialog[open] >> text=1 were refused. o-1: A running flow cannot be deleted")
    page.click("#action-what a")
    page.wait_for_selector("#action:not([open])", state="attached")
    page.wait_for_function("() => document.querySelector('dd')?.textContent === 'completed'")


def test_all_runs_that_match_are_suspended_one_by_one(console: Console, harness: Harness) -> None:
    waiting_for_approval(harness, "o-1", "o-2")
    console.open("flows/shop/checkout?state=running", "Runs of checkout")
    sent = posts(console.page)
    confirm_all(console.page, "suspend", 2, "an inventory")
    console.page.wait_for_selector("#action:not([open])", state="attached")
    assert sorted(sent) == [f"/shop/flows/checkout/{id_}/suspend" for id_ in ("o-1", "o-2")]


def test_all_runs_that_have_ended_are_counted_and_then_deleted(console: Console, harness: Harness) -> None:
    harness.put("semaphores/dock", json={"permits": 1, "lease_seconds": 60})
    for number in range(5):
        harness.post(f"shop/flows/ship/o-{number}", json={"arguments": {"order": str(number), "item": "cup"}})
    harness.run()
    console.open("flows/shop/ship?state=completed", "Runs of ship")
    confirm_all(console.page, "delete-run", 5, "last year's")
    console.page.wait_for_selector("#action-what a")
    harness.run()
    console.page.wait_for_selector("#action:not([open])", state="attached")
    assert harness.get("shop/flows/ship?count=true").json == {"count": 0}


def test_each_local_action_is_a_line_of_the_log_with_who_and_why(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    confirm(console.page, "resume", reason="die Tür ist auf")
    [line] = [values for message, values in harness.log.infos if message == "console action"]
    done = {"action": "resume", "call": "POST /shop/flows/ship/o-1/resume", "status": 202}
    assert line == {**done, "account": getpass.getuser(), "reason": "die Tür ist auf"}


def test_all_failures_are_counted_and_then_retried(console: Console, harness: Harness) -> None:
    for order in range(5):
        payload = {"order": str(order), "amount": 0}
        harness.post("tasks", json={"function": "shop", "task": "charge", "payload": payload})
    harness.run(due_only=True)
    console.open("failures?state=failed", "Failures")
    confirm_all(console.page, "retry-failure", 5, "the price is right now")
    console.page.wait_for_selector("#action:not([open])", state="attached")
    assert harness.get("failures?count=true").json == {"count": 0}


def test_an_update_shows_that_no_command_waits_for_it_and_then_the_error_of_its_end(
    page: Page, base: str, harness: Harness
) -> None:
    console = Console(page, base)  # the browser logs the 409
    waiting_for_approval(harness, "o-1")
    console.open("flows/shop/checkout/o-1", "checkout/o-1")
    page.click("button[data-action=update]")
    for name, value in {"name": "rename", "value": '"b"', "reason": "a test"}.items():
        page.fill(f"dialog [name={name}]", value)
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action-answer >> text=There is no answer yet. The code does not wait for the update")
    assert "It waits for no update, but for the event `approval`." in page.inner_text("#action-answer")
    harness.post("shop/flows/checkout/o-1/terminate", json={})
    page.click("dialog [name=confirm]")
    page.wait_for_selector("dialog >> text=The flow has ended")


def test_an_event_a_failure_a_batch_and_a_lease(page: Page, base: str, harness: Harness) -> None:
    console = Console(page, base)  # a page that has lost its failure logs the 410
    waiting_for_approval(harness, "o-1")
    console.open("flows/shop/checkout/o-1", "checkout/o-1")
    page.click("button[data-action=send]")
    page.fill("dialog [name=name]", "approval")
    page.fill("dialog [name=value]", "{approved}")
    page.fill("dialog [name=reason]", "Ann said so")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("dialog >> text=The value is not JSON")
    page.fill("dialog [name=value]", '{"approved": false, "by": "Ann"}')
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert state_of(harness, "o-1", "checkout") == "failed"

    harness.post("tasks", json={"function": "shop", "task": "charge", "payload": {"order": "1", "amount": 0}})
    harness.run(due_only=True)
    [failure] = harness.get("failures").json["failures"]
    console.page.goto(f"{console.base}console#/failures/{failure['id']}")
    page.wait_for_selector("button[data-action=retry-failure]")
    confirm(page, "delete-failure", reason="a test")
    assert harness.get("failures").json["failures"] == []

    harness.post("batches", json={"id": "b", "units": [0, 1], "sealed": True})
    console.open("batches/b", "b")
    confirm(page, "cancel-batch", reason="too late")
    assert harness.get("batches/b").json["state"] == "cancelled"

    harness.put("semaphores/printer", json={"permits": 1, "lease_seconds": 60})
    harness.post("semaphore-wait/printer", json={"id": "mine"})
    console.open("semaphores/printer", "printer")
    confirm(page, "end-lease", reason="its holder is gone")
    assert harness.get("semaphores/printer").json["leases"] == []
    assert "its holder is gone" in str(harness.log.infos)


def test_failed_units_are_retried_by_clicks_if_a_task_runs_them(console: Console, harness: Harness) -> None:
    harness.post("batches", json={"id": "b", "units": [0], "sealed": True})
    harness.post("batch-complete/b/0", json={"error": "no paper"})
    console.open("batches/b", "b")
    assert console.facts()["failed"] == "1"
    assert console.attributes("button[data-action]", "action") == []

    harness.post("quilt", json={"quilt": "q", "side": 2, "torn": 1})
    harness.run()
    console.open("batches/q", "q")
    assert console.facts()["task"] == "quilt.paint"
    confirm(console.page, "retry-batch", reason="there is paper")
    harness.run(raise_errors=False)
    [unit] = harness.get("batches/q/units?state=failed").json["units"]
    assert unit["attempt"] == 1


def test_a_semaphore_and_a_rate_are_paused_and_resumed_by_clicks(console: Console, harness: Harness) -> None:
    page = console.page
    harness.put("semaphores/printer", json={"permits": 1, "lease_seconds": 60})
    harness.put("rates/mails", json={"per_minute": 60, "burst": 5})
    console.open("semaphores/printer", "printer")
    assert "state" not in console.facts()
    confirm(page, "pause-semaphore", reason="out of paper")
    page.wait_for_selector("button[data-action=resume-semaphore]")
    assert console.facts()["state"].startswith("paused ")
    assert harness.post("semaphore-wait/printer", json={}).json == {"acquired": False, "paused": True}
    console.open("semaphores", "Semaphores")
    assert [row[0] for row in console.rows("By name")] == ["printer paused"]
    confirm(page, "pause-rate", reason="the provider is down")
    page.wait_for_selector("button[data-action=resume-rate]")
    assert [row[0] for row in console.rows("Rates, by name")] == ["mails paused"]
    confirm(page, "resume-rate", reason="it is back")
    page.wait_for_selector("button[data-action=pause-rate]")
    console.open("semaphores/printer", "printer")
    confirm(page, "resume-semaphore", reason="new paper")
    page.wait_for_selector("button[data-action=pause-semaphore]")
    done = [values["call"] for message, values in harness.log.infos if message == "console action"]
    assert done == [
        f"POST /{path}"
        for path in ("semaphores/printer/pause", "rates/mails/pause", "rates/mails/resume", "semaphores/printer/resume")
    ]


def test_a_document_is_edited_unless_it_has_changed_and_deleted_and_so_are_a_run_and_an_object(
    page: Page, base: str, harness: Harness
) -> None:
    console = Console(page, base)  # a refused edit and a page whose subject is deleted are logged by the browser
    harness.put("documents/ann", json={"name": "Ann", "age": 7})
    console.open("documents/ann", "ann")
    page.click("button[data-action=edit-document]")
    assert json.loads(page.input_value("dialog [name=value]")) == {"name": "Ann", "age": 7}
    harness.put("documents/ann", json={"name": "Ann", "age": 8})
    page.fill("dialog [name=value]", '{"name": "Anna"}')
    page.fill("dialog [name=reason]", "her full name")
    with page.expect_response(
        lambda response: response.url.endswith("/documents/ann") and response.request.method != "GET"
    ) as refused:
        page.click("dialog [name=confirm]")
    assert refused.value.status == 412
    page.wait_for_function("() => document.querySelector('dialog[open] [role=alert]')?.textContent")
    assert page.input_value("dialog [name=value]") == '{"name": "Anna"}'
    page.click("dialog [name=close]")
    page.reload()
    page.wait_for_selector("button[data-action=edit-document]")
    confirm(page, "edit-document", value='{"name": "Anna"}', reason="her full name")
    assert harness.get("documents/ann").json == {"key": "ann", "name": "Anna"}
    page.wait_for_function("() => document.querySelector('pre')?.textContent.includes('Anna')")
    confirm(page, "delete-document", reason="a test")
    assert harness.get("documents/ann").status == 404

    harness.post("shop/stock", json={"item": "tea", "count": 10})
    harness.run()
    console.open("objects/shop/Stock/tea", "Stock/tea")
    confirm(page, "delete-object", reason="a test")
    harness.run()
    page.wait_for_function("() => document.querySelector('dd')?.textContent === 'no'")

    harness.post("shop/flows/ship/s", json={"arguments": {"order": "s", "item": "cup"}})
    harness.post("shop/flows/ship/s/terminate", json={})
    console.open("flows/shop/ship/s", "ship/s")
    confirm(page, "delete-run", reason="a test")
    assert harness.get("shop/flows/ship/s").status == 404


def test_a_stuck_run_of_a_deployment_is_resumed_through_the_relay(
    page: Page, base: str, harness: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    stuck_at_the_dock(harness, "o-1")
    with relaying(base, acts=True) as opened:
        page.goto(opened)
        page.wait_for_selector("text=demo-project, dev, us-central1")
        page.goto(f"{opened.partition('#')[0]}#/flows/shop/ship/o-1")
        confirm(page, "resume", reason="die Tür ist auf")
        harness.run()
        assert state_of(harness, "o-1") == "completed"
        sent = page.evaluate("() => fetch('/batches', {method: 'POST', body: '{}'}).then((answer) => answer.status)")
        assert sent == 403
    [line] = [json.loads(line) for line in capsys.readouterr().out.splitlines() if line.startswith("{")]
    assert line == {
        "message": "console action",
        "action": "resume",
        "account": "a-token",
        "reason": "die Tür ist auf",
        "call": "POST /shop/flows/ship/o-1/resume",
        "status": 202,
    }


def test_all_that_match_are_not_confirmed_before_they_are_counted_nor_if_more_match_by_then(
    console: Console, harness: Harness
) -> None:
    stuck_at_the_dock(harness, "o-1")
    page = console.page
    held = HeldRequests(page, "**/shop/flows/ship?*count=true*")
    console.open("flows/shop/ship?state=stuck", "Runs of ship")
    page.click("button[data-action=resume]")
    page.fill("dialog [name=reason]", "the dock is there")
    assert page.is_disabled("dialog [name=confirm]")
    page.wait_for_function("() => document.querySelector('#action-what')?.textContent === 'Counting …'")
    held.continue_next()
    page.wait_for_function("() => document.querySelector('#action-what')?.textContent === '1 match.'")
    harness.delete("semaphores/dock")
    stuck_at_the_dock(harness, "o-2")
    page.click("dialog [name=confirm]")
    held.continue_next()
    page.wait_for_selector("dialog >> text=More match now")
    assert page.inner_text("#action-what") == "2 match."
    harness.run(due_only=True)
    assert {state_of(harness, id_) for id_ in ("o-1", "o-2")} == {"stuck"}
    page.unroute("**/shop/flows/ship?*count=true*")
    page.click("dialog [name=confirm]")
    page.wait_for_selector("#action-what a")
    harness.run()
    page.wait_for_selector("#action:not([open])", state="attached")
    harness.run()
    assert {state_of(harness, id_) for id_ in ("o-1", "o-2")} == {"completed"}


def test_an_answer_that_comes_late_leaves_the_next_dialog_as_it_is(console: Console, harness: Harness) -> None:
    stuck_at_the_dock(harness, "o-1")
    page = console.page
    held = HeldRequests(page, "**/o-1/resume")
    console.open("flows/shop/ship/o-1", "ship/o-1")
    page.click("button[data-action=resume]")
    page.fill("dialog [name=reason]", "the dock is there")
    page.click("dialog [name=confirm]")
    page.click("dialog [name=close]")
    page.click("button[data-action=terminate]")
    page.fill("dialog [name=reason]", "or not")
    with page.expect_response("**/o-1/resume"):
        held.continue_next()
    page.wait_for_timeout(100)
    assert page.input_value("dialog[open] [name=reason]") == "or not"
