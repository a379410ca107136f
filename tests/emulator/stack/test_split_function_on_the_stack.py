"""Functions with `auth: firebase` on the local stack: users start batches and flows, which run at private addresses."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from signalbox.catalogue import reading as catalogues
from signalbox.testing import user_token
from signalbox_tools.local.stack import Stack

pytestmark = pytest.mark.slow

PAGE = "https://app.example.com"
BOOTH = """
from signalbox import Access, Function, flow

app = Function("booth")


@app.object
class Till:
    sum: int = 0

    def add(self, amount: int) -> int:
        self.sum += amount
        return self.sum


@app.task
def charge(amount: int) -> int:
    return amount


@app.flow
async def order(amount: int):
    await flow.event("approved")
    return await charge.call(amount=amount)


@app.access("Till", "order")
def own(access: Access) -> bool:
    return access.id == access.request.user.id


booth = app.entry_point()
"""
ENTRY = {
    "invoked_by": ["people", "queue"],
    "enqueues": ["batches", "flows", "objects", "tasks"],
    "tasks": ["charge"],
    "objects": ["Till"],
    "flows": ["order"],
    "auth": "firebase",
    "exposes": ["Till", "order"],
}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("split")
    content: dict[str, Any] = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    content["functions"]["quilt"].update(auth="firebase", cors=[PAGE])
    (folder / "booth").mkdir()
    (folder / "booth" / "main.py").write_text(BOOTH)
    content["functions"]["booth"] = {"folder": str(folder / "booth"), **ENTRY}
    (folder / "infra").mkdir()
    (folder / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with Stack(folder=folder / "state", catalogue=folder / "infra" / "catalogue.yaml") as running:
        yield running


def test_a_users_batch_completes_by_tasks_that_no_other_caller_can_call(stack: Stack) -> None:
    ann = {"Authorization": f"Bearer {user_token('ann')}", "Origin": PAGE}
    body = {"quilt": "q1", "side": 3}
    anybody = httpx.post(f"{stack.base_url}quilt", json=body)
    assert (anybody.status_code, anybody.headers["WWW-Authenticate"]) == (401, "Bearer")
    answer = httpx.post(f"{stack.base_url}quilt", json=body, headers=ann)
    assert (answer.status_code, answer.headers["Access-Control-Allow-Origin"]) == (202, PAGE)
    stack.wait_until_idle(30)
    assert httpx.get(f"{stack.base_url}batches/q1").json()["succeeded"] == 9
    task = {"operation": "o", "task": "paint", "payload": {}}
    for address, status in (("quilt/tasks/paint", 404), ("quilt-tasks/tasks/paint", 403)):
        assert httpx.post(stack.base_url + address, json=task, headers=ann).status_code == status
    forged = {"X-CloudTasks-QueueName": "tasks", "Authorization": ann["Authorization"]}
    assert httpx.post(f"{stack.base_url}quilt-tasks/tasks/paint", json=task, headers=forged).status_code == 401


def test_users_run_their_own_flows_and_objects_of_an_open_function(stack: Stack) -> None:
    ann, bob = ({"Authorization": f"Bearer {user_token(name)}"} for name in ("ann", "bob"))
    url = f"{stack.base_url}booth"
    begin = {"arguments": {"amount": 3}}
    statuses = [httpx.post(f"{url}/flows/order/ann", json=begin, headers=who).status_code for who in ({}, bob, ann)]
    assert statuses == [401, 403, 201]
    approval = {"value": "yes"}
    approved = [httpx.post(f"{url}/flows/order/ann/events/approved", json=approval, headers=who) for who in (bob, ann)]
    assert [answer.status_code for answer in approved] == [403, 202]
    ended = httpx.get(f"{url}/flows/order/ann?wait_seconds=20", headers=ann, timeout=30).json()
    assert (ended["state"], ended["result"]) == ("completed", 3)
    added = [httpx.post(f"{url}/objects/Till/ann/add", json={"amount": 2}, headers=who) for who in (bob, ann)]
    assert [answer.status_code for answer in added] == [403, 200]
    follow = {"on_complete": {"function": "quilt", "task": "paint", "payload": {}}, **begin}
    assert httpx.post(f"{url}/flows/order/ann", json=follow, headers=ann).status_code == 403
