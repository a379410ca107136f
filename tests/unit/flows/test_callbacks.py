"""Signed addresses that admit one event of one run, once: signed, served, refused."""

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from werkzeug.test import TestResponse

from signalbox import Function, documents, flow, flows
from signalbox.adapters import runtime, settings
from signalbox.core.ports import Ports
from signalbox.flows.limits import LIMITS
from signalbox.flows.machine.callbacks import Callback, keys_of
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader
from signalbox.flows.problems import BadFlow, NoCallback
from signalbox.flows.service import messages, reads
from signalbox.testing import Harness

OLD, NEW, OTHER = (f"the {name} key, which has enough characters" for name in ("old", "new", "other"))
FORM = {"Content-Type": "application/x-www-form-urlencoded"}

shop = Function("shop")
open_function = Function("approvals")
open_function.callbacks()
other_function = Function("other_approvals")
other_function.callbacks()


@shop.flow
async def order(seconds: float = 60, question: str = "", waits: bool = True, choices: list[str] | None = None) -> Any:
    address = await flow.callback(
        "approved", through="approvals", expires_seconds=seconds, question=question, choices=choices or ()
    )
    flow.progress(address)
    await remember.call(address=address)
    return await flow.event("approved") if waits else address


@shop.flow
async def two() -> Any:
    addresses = await flow.all(
        *[flow.callback("approved", through="approvals", expires_seconds=60) for _ in range(2)],
    )
    flow.progress(list(addresses))
    return [await flow.event("approved"), await flow.event("approved")]


@shop.flow
async def renewed(address: str = "") -> Any:
    if not address:
        return flow.continue_as_new(
            address=await flow.callback("approved", through="approvals", expires_seconds=60),
        )
    flow.progress(address)
    return await flow.event("approved")


@shop.task
def remember(address: str) -> None:
    documents.put("address", {"address": address})


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        for function in (shop, open_function, other_function):
            harness.add(function)
        yield harness


@pytest.fixture
def path(harness: Harness) -> str:
    """Return the path of a callback of a run that waits for it."""
    return started(harness, "7")


def started(harness: Harness, id_: str, **arguments: Any) -> str:
    flows("order", id_).start(**arguments)
    harness.travel(5)
    return path_of(flows("order", id_).status().progress)


def path_of(address: Any) -> str:
    base, found, token = str(address).partition("/approvals/callbacks/")
    assert base.startswith("http"), address
    return found.removeprefix("/approvals") + token


def post(harness: Harness, path: str, value: Any = "yes", **more: Any) -> TestResponse:
    return harness.call("approvals", path, **{"method": "POST", "json": value, **more})


def result(harness: Harness, name: str = "order", id_: str = "7") -> Any:
    harness.run()
    return flows(name, id_).status().result


def rewritten(path: str, **changes: Any) -> str:
    """Return the path of a token that says something else, with the signature of the first."""
    payload, key, signature = path.removeprefix("/callbacks/").split(".")
    said = Callback(*json.loads(base64.urlsafe_b64decode(payload + "==")))
    return f"/callbacks/{replace(said, **changes)._payload()}.{key}.{signature}"


def forged(path: str, key: str) -> str:
    """Return the path of the same callback, signed with another key."""
    said = Callback(*json.loads(base64.urlsafe_b64decode(path.removeprefix("/callbacks/").split(".")[0] + "==")))
    return f"/callbacks/{said.token(keys_of(key))}"


# --- admitted ---


def test_the_body_is_the_value_of_the_event(harness: Harness, path: str) -> None:
    answer = post(harness, path, {"by": "ann"})
    assert (answer.status_code, answer.json) == (202, {"event": "approved"})
    assert result(harness) == {"by": "ann"}


def test_a_repeat_is_answered_as_the_first_one_and_another_value_is_refused(harness: Harness, path: str) -> None:
    first, again, other = (post(harness, path, value) for value in ("yes", "yes", "no"))
    assert (again.status_code, again.json) == (first.status_code, first.json)
    assert other.status_code == 409
    assert result(harness) == "yes"
    assert post(harness, path, "yes").status_code == 202, "after the end, too"
    assert post(harness, path, "no").status_code == 409


@pytest.mark.parametrize("key", ["callback {}", "{}"])
def test_no_key_of_a_caller_takes_the_id_of_a_callbacks_event(harness: Harness, path: str, key: str) -> None:
    payload = path.removeprefix("/callbacks/").split(".")[0]
    operation = Callback(*json.loads(base64.urlsafe_b64decode(payload + "=="))).operation
    headers = {"Idempotency-Key": key.format(operation)}
    sent = harness.call("shop", "/flows/order/7/events/other", method="POST", json={"value": "no"}, headers=headers)
    assert (sent.status_code, post(harness, path, "yes").status_code) == (202, 202)
    assert result(harness) == "yes"


def test_each_callback_of_a_run_is_used_once(harness: Harness) -> None:
    flows("two", "7").start()
    harness.travel(5)
    for number, address in enumerate(flows("two", "7").status().progress):
        for _ in range(2):
            assert post(harness, path_of(address), number).status_code == 202
    assert result(harness, "two") == [0, 1]


def test_an_address_is_valid_after_continue_as_new(harness: Harness) -> None:
    flows("renewed", "7").start()
    harness.travel(5)
    assert reads.get(runtime.ports(), FlowAddress("renewed", "7")).generation == 1
    assert post(harness, path_of(flows("renewed", "7").status().progress), "yes").status_code == 202
    assert result(harness, "renewed") == "yes"


def test_the_page_asks_and_its_button_sends_the_event(harness: Harness) -> None:
    path = started(harness, "7", question="<b>Pay & ship?</b>")
    page = harness.call("approvals", path)
    assert page.status_code == 200
    assert "&lt;b&gt;Pay &amp; ship?&lt;/b&gt;" in page.text
    assert "<script" not in page.text
    policy = page.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "form-action 'self'; frame-ancestors 'none'" in policy
    assert page.headers["Cache-Control"] == "no-store"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    harness.travel(5)
    assert flows("order", "7").status().state == "running", "a GET sends nothing"
    sent = post(harness, path, json=None, headers=FORM)
    assert (sent.status_code, sent.mimetype) == (200, "text/html")
    assert result(harness) is None
    assert flows("order", "7").status().state == "completed"


def chosen(harness: Harness, path: str, choice: str) -> TestResponse:
    """Press the button of a choice."""
    return post(harness, f"{path}?choice={choice}", json=None, headers=FORM)


def test_the_button_of_a_choice_sends_it_and_the_page_then_shows_what_was_answered(harness: Harness) -> None:
    path = started(harness, "7", choices=["Yes", "No & <never>"])
    page = harness.call("approvals", path).text
    assert page.count("<button") == 2
    assert "No &amp; &lt;never&gt;</button>" in page
    assert "Answered: No &amp; &lt;never&gt;" in chosen(harness, path, "No%20%26%20%3Cnever%3E").text
    other = chosen(harness, path, "Yes")
    assert (other.status_code, "Answered: No" in other.text) == (409, True)
    assert result(harness) == "No & <never>"
    again = harness.call("approvals", path)
    assert ("Answered: No" in again.text, "<button" in again.text) == (True, False)


@pytest.mark.parametrize("choice", ["", "Maybe"])
def test_what_is_no_choice_is_refused_and_sends_nothing(harness: Harness, choice: str) -> None:
    path = started(harness, "7", choices=["Yes", "No"])
    refused = chosen(harness, path, choice)
    assert (refused.status_code, "one of Yes, No" in refused.text) == (400, True)
    assert chosen(harness, path, "No").status_code == 200
    assert result(harness) == "No"


def test_what_another_system_has_sent_is_not_shown(harness: Harness) -> None:
    path = started(harness, "7", choices=["Yes", "No"])
    post(harness, path, {"by": "ann"})
    assert "ann" not in (page := harness.call("approvals", path).text)
    assert "The answer was received" in page


@pytest.mark.parametrize("choices", ["Yes", ["Yes", "Yes"], [""], ["x" * 61], [1]])
def test_choices_are_different_short_texts(choices: Any) -> None:
    with pytest.raises(BadFlow, match="`choices` must be"):
        Callback.checked("approvals", ("order", "7", "i"), "approved", 1, "", choices)


def test_the_address_is_in_the_log_so_a_rotation_changes_no_replay(harness: Harness, path: str) -> None:
    with keys(f"{NEW}\n{OLD}"):
        flows("order", "7").event("approved", "by hand")
        assert result(harness) == "by hand"
    assert path_of(flows("order", "7").status().progress) == path


def test_an_old_key_is_valid_until_it_is_removed(harness: Harness) -> None:
    with keys(OLD):
        path = started(harness, "7")
    with keys(f"{NEW}\n{OLD}"):
        assert harness.call("approvals", path).status_code == 200
        assert path.split(".")[1] != started(harness, "8").split(".")[1]
    with keys(NEW):
        assert harness.call("approvals", path).status_code == 404


class keys:  # noqa: N801  used as a function
    """Use these keys."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __enter__(self) -> None:
        self._before = settings.settings()
        settings.bind(replace(self._before, callback_keys=self._text))

    def __exit__(self, *_: object) -> None:
        settings.bind(self._before)


# --- refused ---


def test_a_browser_sees_a_refusal_as_a_page_and_a_program_as_a_problem(harness: Harness) -> None:
    wrong = "/callbacks/a.b.c"
    shown = harness.call("approvals", wrong, headers={"Accept": "text/html,*/*"})
    assert (shown.status_code, shown.mimetype) == (404, "text/html")
    assert "This address is not valid" in shown.text
    assert post(harness, wrong, json=None, headers=FORM | {"Accept": "text/html"}).mimetype == "text/html"
    assert "urn:signalbox:problem:no-callback" in harness.call("approvals", wrong).text


def test_an_expired_address_is_refused(harness: Harness, path: str) -> None:
    harness.advance(50)
    assert harness.call("approvals", path).status_code == 200
    harness.advance(20)
    assert harness.call("approvals", path).status_code == 410
    assert post(harness, path).status_code == 410


def test_the_address_of_a_removed_run_does_not_admit_an_event_of_the_next_one(harness: Harness, path: str) -> None:
    flows("order", "7").terminate()
    harness.run()
    assert post(harness, path, "yes").status_code == 409, "it has ended"
    flows("order", "7").delete()
    assert post(harness, path, "yes").status_code == 404
    second = started(harness, "7")
    assert post(harness, path, "no").status_code == 404
    assert post(harness, second, "yes").status_code == 202
    assert result(harness) == "yes"


def test_an_event_that_was_posted_while_its_run_was_replaced_is_dropped(
    harness: Harness, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    get, address = messages.get_callback, FlowAddress("order", "7")

    def replaced(ports: Ports, callback: Callback) -> FlowHeader:
        header = get(ports, callback)
        flows("order", "7").terminate()
        harness.run()
        flows("order", "7").delete()
        started(harness, "7")
        return header

    monkeypatch.setattr(messages, "get_callback", replaced)
    assert post(harness, path, "late").status_code == 202
    harness.travel(10)
    assert reads.get(runtime.ports(), address).state == "running"
    flows("order", "7").event("approved", "right")
    assert result(harness) == "right"


@pytest.mark.parametrize(
    "change",
    [
        {"id": "8"},
        {"flow": "two"},
        {"event": "declined"},
        {"expires_at": 10**11},
        {"function": "other_approvals"},
        {"operation": "other"},
        {"incarnation": "other"},
        {"question": "Harmless?"},
    ],
)
def test_a_token_that_says_something_else_is_refused(harness: Harness, path: str, change: dict[str, Any]) -> None:
    started(harness, "8")
    changed = rewritten(path, **change)
    assert rewritten(path) == path
    assert harness.call("approvals", changed).status_code == 404
    assert post(harness, changed).status_code == 404


def test_a_token_of_another_function_or_another_key_is_refused(harness: Harness, path: str) -> None:
    assert harness.call("other_approvals", path).status_code == 404
    assert post(harness, forged(path, OTHER)).status_code == 404
    payload, _, signature = forged(path, OTHER).removeprefix("/callbacks/").split(".")
    key_id = path.split(".")[1]
    assert post(harness, f"/callbacks/{payload}.{key_id}.{signature}").status_code == 404


@pytest.mark.parametrize("method", ["HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
def test_other_methods_are_refused(harness: Harness, path: str, method: str) -> None:
    assert harness.call("approvals", path, method=method).status_code == 405


def test_wrong_bodies_are_refused(harness: Harness, path: str) -> None:
    assert post(harness, path, json=None, data=b"{", headers={"Content-Type": "application/json"}).status_code == 400
    assert post(harness, path, json=None, data=b"1", headers={"Content-Type": "text/plain"}).status_code == 415
    assert post(harness, path, json=None, data=b"a=1", headers=FORM).status_code == 415
    assert post(harness, path, "x" * 2_000_000).status_code == 413
    harness.travel(5)
    assert flows("order", "7").status().state == "running"


def test_a_path_around_the_token_is_refused(harness: Harness, path: str) -> None:
    token = path.removeprefix("/callbacks/")
    for around in ("/callbacks/", "/callbacks", f"{path}/", f"/{path}", f"/callbacks/../{token}", f"{path}/x"):
        assert harness.call("approvals", around).status_code == 404
    assert harness.call("approvals", f"{path}?a=1").status_code == 400


@given(st.text(max_size=200) | st.from_regex(r"[A-Za-z0-9_=-]*\.[0-9a-f]{8}\.[A-Za-z0-9_=-]*", fullmatch=True))
@example("")
@example("..")
@example("W10.a.b")
def test_no_made_up_token_is_valid(token: str) -> None:
    with pytest.raises(NoCallback):
        Callback.from_token(token, keys_of(f"{NEW}\n{OLD}"), "approvals")


@given(st.data())
def test_no_changed_token_is_valid(data: st.DataObject) -> None:
    made = Callback("approvals", "order", "7", "abc", "approved", 2_000_000_000, "Pay?", "op")
    token = made.token(keys_of(NEW))
    assert Callback.from_token(token, keys_of(f"{OLD}\n{NEW}"), "approvals") == made
    place = data.draw(st.integers(0, len(token) - 1))
    changed = token[:place] + data.draw(st.text(max_size=3)) + token[place + data.draw(st.integers(0, 3)) :]
    if changed != token:
        with pytest.raises(NoCallback):
            Callback.from_token(changed, keys_of(NEW), "approvals")


@pytest.mark.parametrize("text", ["", "\n", "short", f"{NEW}\nshort"])
def test_short_keys_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="one key a line"):
        keys_of(text)


def test_a_callback_that_does_not_fit_is_refused() -> None:
    run = ("order", "7", "abc")
    with pytest.raises(BadFlow, match="`question`"):
        Callback.checked("approvals", run, "approved", 1, "?" * (LIMITS.flow_callback_question_bytes_max + 1))
    with pytest.raises(BadFlow, match="`through`"):
        Callback.checked("", run, "approved", 1, "")
    with pytest.raises(BadFlow, match="too long"):
        Callback.checked("approvals", ("order", "\x01" * 800, "abc"), "approved", 1, "")
    with pytest.raises(BadFlow, match="name of an event"):
        Callback.checked("approvals", run, "", 1, "")
