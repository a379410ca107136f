"""The quilt with `auth: firebase` on the local stack: a user starts it, and its units run at its private address."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import yaml

from signalbox.catalogue import reading as catalogues
from signalbox.testing import user_token
from signalbox_infra.local.stack import Stack

pytestmark = pytest.mark.slow

PAGE = "https://app.example.com"


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("split")
    content: dict[str, Any] = yaml.safe_load(catalogues.CATALOGUE.read_text("utf-8"))
    for name, function in catalogues.load().functions.items():
        content["functions"][name]["folder"] = str(function.folder)
    content["functions"]["quilt"].update(auth="firebase", cors=[PAGE])
    (folder / "infra").mkdir()
    (folder / "infra" / "catalogue.yaml").write_text(yaml.safe_dump(content), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SIGNALBOX_STORE", "embedded")
        with Stack(folder=folder / "state", catalogue=folder / "infra" / "catalogue.yaml") as running:
            yield running


def test_a_users_batch_completes_by_tasks_that_nobody_else_can_call(stack: Stack) -> None:
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
