"""The harness refuses what `signalbox dev` and the cloud refuse, and has what they have: variables, indexes, queues."""

import os
import warnings
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from signalbox import Function, TaskContext, documents, flow, flows
from signalbox.adapters.wall_clock import now
from signalbox.core.problems import NeedsIndex
from signalbox.testing import Harness
from signalbox.testing.clock_warnings import ClockWarning
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.manual_clock import EPOCH

CATALOGUE = """
functions:
  shop:
    folder: shop
    invoked_by: [people, queue]
    tasks: [sell]
    enqueues: [tasks]
    env: {SHOP: corner}
    secrets: {MAIL_KEY: mail-key}
queues:
  tasks: &queue {dispatches_per_second: 100, concurrent_max: 4, attempts_max: -1, backoff_min_seconds: 0.1,
    backoff_max_seconds: 1, doublings_max: 4}
  slow: *queue
"""
SHOP = """
import os
from dataclasses import replace

from signalbox import Function, Request

app = Function("shop")
LOADED = os.environ["SHOP"], os.environ["MAIL_KEY"]


@app.http("GET")
def show(request: Request) -> dict[str, object]:
    return {"loaded": LOADED, "now": [os.environ["SHOP"], os.environ["MAIL_KEY"]]}


@app.http("POST", "/{queue}")
def start(request: Request, queue: str) -> None:
    replace(sell.call(), queue=queue).enqueue()


@app.task
def sell() -> None: ...


shop = app.entry_point()
"""


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "main.py").write_text(SHOP)
    (tmp_path / "signalbox.yaml").write_text(CATALOGUE)
    return tmp_path / "signalbox.yaml"


def test_a_query_without_an_index_is_refused_with_the_entry_to_add() -> None:
    with Harness() as harness:
        documents.put("a", {"type": "X", "n": 1})
        with pytest.raises(NeedsIndex, match=r"documents-type-n: \{collection: documents, fields:"):
            documents.query(("type", "==", "X"), order_by=["n"])
        assert [each["key"] for each in documents.query(("type", "==", "X")).documents] == ["a"]
        assert harness.ids("documents") == ["a"]


def test_an_index_of_the_catalogue_serves_its_query(catalogue: Path) -> None:
    index = "indexes:\n  a: {collection: documents, fields: [type, n]}\n"
    catalogue.write_text(CATALOGUE + index)
    with Harness(catalogue):
        documents.put("a", {"type": "X", "n": 1})
        assert [each["key"] for each in documents.query(("type", "==", "X"), order_by=["n"]).documents] == ["a"]


def test_variables_and_placeholders_of_secrets_are_set_while_the_harness_is_entered(
    catalogue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Harness(catalogue) as harness:
        known = ["corner", "placeholder-of-mail-key"]
        assert harness.get("shop").json == {"loaded": known, "now": known}
        monkeypatch.setenv("SHOP", "other")
        assert harness.get("shop").json["now"] == ["other", "placeholder-of-mail-key"]
    assert "MAIL_KEY" not in os.environ


def test_a_queue_that_does_not_call_the_function_is_refused(catalogue: Path) -> None:
    with Harness(catalogue) as harness:
        assert harness.post("shop/tasks").status == 204
        refused = harness.post("shop/nowhere")
        assert (refused.status, refused.json["field"]) == (400, "call.queue")


def test_a_task_reads_the_time_of_the_harness() -> None:
    app, seen = Function("nightly"), list[datetime]()

    @app.task
    def remind(context: TaskContext) -> None:
        seen.append(context.now())

    with Harness() as harness:
        harness.add(app)
        remind.call().enqueue()
        harness.run()
        harness.travel(30 * 86_400)
        remind.call().enqueue()
        harness.run()
    assert [time - EPOCH for time in seen] == [seen[0] - EPOCH, seen[1] - EPOCH]
    assert (seen[1] - seen[0]).days == 30
    assert abs((now() - datetime.now(UTC)).total_seconds()) < 60


def test_an_inline_step_reads_the_time_of_the_harness(harness: Harness) -> None:
    app, seen = Function("nightly"), list[datetime]()

    def noted(context: TaskContext) -> None:
        seen.append(context.now())

    @app.flow
    async def wait_and_note() -> None:
        await flow.sleep(86_400)
        await flow.run(noted)

    harness.add(app)
    flows("wait_and_note", "1").start()
    harness.run()
    assert [(time - EPOCH).days for time in seen] == [1]


def test_code_that_reads_the_machines_clock_is_warned_about_after_a_travel() -> None:
    app = Function("nightly")

    @app.task
    def remind() -> None:
        documents.put(f"night-{datetime.now(UTC):%Y}", {})
        documents.put(f"day-{date.today().year}", {})  # noqa: DTZ011 (the mistake)

    @app.task
    def patient(context: TaskContext) -> None:
        documents.put("night", {"on": str(context.now())})

    with Harness() as harness:
        harness.add(app)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            remind.call().enqueue()
            harness.run()
        harness.travel(86_400)
        remind.call().enqueue()
        patient.call().enqueue()
        with pytest.warns(ClockWarning) as caught:
            harness.run()
    assert [str(each.message).partition(" returns")[0] for each in caught] == ["datetime.now()", "date.today()"]
    assert caught[0].filename == __file__
