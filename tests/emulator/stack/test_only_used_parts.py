"""A project is served with the parts of the kit that its code uses, and a flow with locks and batches runs on them."""

from functools import partial
from pathlib import Path

import httpx
import pytest

from signalbox.catalogue.project import Project
from signalbox_tools.local.stack import Stack
from signalbox_tools.setup import new_function_templates
from tests.emulator.polling_until import eventually

pytestmark = pytest.mark.slow

SHOP = """from signalbox import Function, flow, semaphore

app = Function("shop")


@app.task
def pack(item: int) -> int:
    return item


@app.flow
async def order() -> int:
    semaphores = await flow.run(till)
    async with flow.lock(semaphores, lease_seconds=60):
        return (await flow.batch([pack.call(item=n) for n in range(3)]))["succeeded"]


def till() -> str:
    semaphore("till").ensure(permits=1, lease_seconds=60)
    return "till"


shop = app.entry_point()
"""


def results(client: httpx.Client, runs: list[str]) -> list[object] | None:
    """Return the results of runs, or None while one has not ended."""
    found = [client.get(run).json() for run in runs]
    return [each["result"] for each in found] if all(each["state"] == "completed" for each in found) else None


def test_a_project_runs_on_the_parts_that_follow_from_its_code_and_grows_by_a_reload(tmp_path: Path) -> None:
    for file, text in new_function_templates.files("orders", Project(tmp_path, own=True)).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (tmp_path / "functions" / "shop").mkdir()
    (tmp_path / "functions" / "shop" / "main.py").write_text(SHOP)
    (tmp_path / "signalbox.yaml").write_text("api: []\nfunctions: {orders: {}, shop: {}}\n")
    with (
        Stack(folder=tmp_path / ".signalbox", catalogue=tmp_path / "signalbox.yaml") as stack,
        httpx.Client(base_url=stack.base_url, timeout=30) as client,
    ):
        assert set(client.get("").json()["functions"]) == {"orders", "shop"}
        assert client.post("orders/a").status_code == 202
        runs = ["shop/flows/order/1", "shop/flows/order/2"]
        assert [client.post(run, json={}).is_success for run in runs] == [True, True]
        ended = partial(results, client, runs)
        assert eventually(ended) == [3, 3]
        eventually(lambda: client.get("orders/a").json()["state"] == "completed")
        missing = client.get("semaphores/till")
        assert (missing.status_code, missing.json()["detail"]) == (
            404,
            "semaphores is not deployed for callers: add `api: [semaphores]` to the catalogue",
        )
        assert stack.pid("events-deliver") is None
        described = client.get("openapi.yaml").text
        assert "/orders/{key}:" in described
        assert "/documents/{key}:" not in described
        (tmp_path / "signalbox.yaml").write_text("api: [documents]\nfunctions: {orders: {}, shop: {}}\n")
        stack.reload()
        assert client.get("orders/a").json()["state"] == "completed", "what was stored is kept"
        for key, content in (("town", {"name": "a"}), ("fred", {"home": {"key": "town"}}), ("town", {"name": "b"})):
            assert client.put(f"documents/{key}", json=content).is_success
        eventually(lambda: client.get("documents/fred").json()["home"]["name"] == "b")
