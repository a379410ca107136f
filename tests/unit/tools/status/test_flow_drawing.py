"""`signalbox flow`: a run of a flow in text."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from signalbox import Function, flow, flows
from signalbox.catalogue.reading import Catalogue, parse
from signalbox.testing import Harness
from signalbox_tools.cli.main import main
from signalbox_tools.status.flow_drawing import drawn
from signalbox_tools.status.show_flow import NoRun, lines_of

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LOG: list[dict[str, Any]] = [
    {"at": "2026-01-01T09:00:00Z", "entry": "done", "path": "0", "command": "step shop.charge", "result": "receipt"},
    {"at": "2026-01-01T09:00:10Z", "entry": "event", "name": "approved", "value": {"by": "ann"}},
    {
        "at": "2026-01-01T11:00:10Z",
        "entry": "done",
        "path": "1.0",
        "command": "step shop.pack",
        "error": {"type": "torn", "title": "Torn", "detail": "The box is torn.", "status": 400},
    },
    {"at": "2026-01-01T11:00:10Z", "entry": "cancel", "reason": "too late"},
]
STATUS = {
    "flow": "checkout",
    "id": "order-7",
    "state": "running",
    "log_length": 4,
    "progress": {"paid": True},
    "waiting_for": [
        {
            "path": "2",
            "command": "step shop.refund",
            "attempt": 2,
            "asked_at": "2026-01-01T11:00:10Z",
            "last_error": "OSError: the bank is away",
        }
    ],
}


def test_a_run_is_drawn_with_its_log_and_its_pending_commands() -> None:
    assert list(drawn(STATUS, LOG, NOW)) == [
        "checkout/order-7: running, 4 log entries",
        '  progress  {"paid": true}',
        '  2026-01-01 09:00:00            step shop.charge  "receipt"',
        '  2026-01-01 09:00:10     +10 s  event approved came  {"by": "ann"}',
        "  2026-01-01 11:00:10      +2 h    step shop.pack  failed: The box is torn.",
        "  2026-01-01 11:00:10      +0 s  cancelled  too late",
        "  waits for 60 min: step shop.refund, attempt 2, last error: OSError: the bank is away",
    ]


def test_the_events_that_nothing_waits_for_are_named() -> None:
    status = STATUS | {"unawaited": {"events": 2, "names": ["payed"]}}
    assert list(drawn(status, [], NOW))[-1] == "  2 events that nothing waits for: payed"


def test_updates_are_shown_and_those_without_an_answer_are_named() -> None:
    status = STATUS | {"unanswered": {"updates": 1, "names": ["add"]}}
    update = {"at": "2026-01-01T09:00:00Z", "entry": "update", "name": "add", "value": "tea", "update": "u1"}
    lines = list(drawn(status, [update], NOW))
    assert (lines[2].split("  ")[-2:], lines[-1]) == (["update add came", '"tea"'], "  1 update without an answer: add")


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ({"state": "completed", "result": "x" * 100}, f'  result  "{"x" * 58}…'),
        ({"state": "failed", "error": {"title": "Torn", "detail": ""}}, "  failed: Torn"),
        (
            {
                "state": "stuck",
                "problem": {"detail": "KeyError: 1 (main.py:7 in checkout)", "place": "main.py:7 in checkout"},
            },
            "  stuck: KeyError: 1 (main.py:7 in checkout)",
        ),
    ],
)
def test_how_a_run_ended_or_why_it_is_stuck_is_the_last_line(state: dict[str, Any], line: str) -> None:
    assert list(drawn({"flow": "f", "id": "1", **state}, [], NOW))[-1] == line


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/main.py").write_text("shop = None\n")
    queue = {"dispatches_per_second": 1, "concurrent_max": 1, "attempts_max": -1}
    queue |= {"backoff_min_seconds": 1, "backoff_max_seconds": 1, "doublings_max": 1}
    shop = {"folder": "shop", "invoked_by": ["people", "queue"], "flows": ["checkout"]}
    return parse({"functions": {"shop": shop}, "queues": {"flows": queue, "tasks": queue}}, tmp_path)


def test_all_pages_of_the_log_are_read(catalogue: Catalogue) -> None:
    pages: dict[str, Mapping[str, Any]] = {
        "shop/flows/checkout/order%2F7": STATUS,
        "shop/flows/checkout/order%2F7/log": {"entries": LOG[:1], "next_page_token": "1"},
        "shop/flows/checkout/order%2F7/log?page_token=1": {"entries": LOG[1:]},
    }
    assert len(list(lines_of(("checkout/order/7",), catalogue, pages.__getitem__, NOW))) == 7
    assert len(list(lines_of(("shop", "checkout", "order/7"), catalogue, pages.__getitem__, NOW))) == 7


@pytest.mark.parametrize("run", [("checkin/order-7",), ("checkout",), ("checkout/",), ("shop", "checkin", "order-7")])
def test_a_flow_that_the_catalogue_does_not_have_is_named_with_those_it_has(
    catalogue: Catalogue, run: tuple[str, ...]
) -> None:
    with pytest.raises(NoRun, match=r"FLOW/ID, or FUNCTION FLOW ID\. Its flows: checkout"):
        list(lines_of(run, catalogue, lambda _: {}, NOW))


def test_a_run_is_named_in_one_of_two_forms(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["flow", "checkout", "order-7"]) == 2
    assert "Name one run as FLOW/ID, or as FUNCTION FLOW ID." in capsys.readouterr().err


def test_the_log_has_the_number_of_attempts_and_the_error_of_the_one_before() -> None:
    entry = LOG[0] | {"attempt": 3, "last_error": "Busy: the bank is away"}
    assert list(drawn(STATUS | {"progress": None}, [entry], NOW))[1] == (
        '  2026-01-01 09:00:00            step shop.charge  "receipt"  (attempt 3, last error: Busy: the bank is away)'
    )


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def _dry() -> int:
    raise RuntimeError("no soap")


@pytest.mark.parametrize("command", ["step desk.wash", "run _dry"])
def test_a_step_that_is_retried_is_drawn_with_its_starts_and_its_last_error(harness: Harness, command: str) -> None:
    """As the queue retries the task of a step, and as the flow starts an inline step again."""
    desk = Function("desk")

    @desk.task
    def wash() -> int:
        raise RuntimeError("no soap")

    @desk.flow
    async def clean() -> int:
        return await (flow.run(_dry) if command == "run _dry" else wash.call())

    harness.add(desk)
    clean.start("1")
    harness.deliver_task(next(task for task in harness.queue.due()))
    status = harness.get("desk/flows/clean/1").json
    again = datetime.fromisoformat(status["waiting_for"][0]["next_at"])
    assert list(drawn(status, [], harness.clock.now))[-1] == (
        f"  waits: {command}, 1 start, last error: RuntimeError: no soap, again at {again:%H:%M:%S}"
    )
    assert flows("clean", "1").status().waiting_for[0]["starts"] == 1


def test_a_large_value_is_drawn_with_the_whole_hash_by_which_it_is_loaded() -> None:
    large = {"$payload": {"bytes": 5_242_880, "sha256": "9f86d081" * 8}}
    status = {"flow": "reports", "id": "7", "state": "completed", "result": large}
    lines = list(drawn(status, [{**LOG[0], "result": large}], NOW))
    assert all(line.endswith(f"  large value, 5,242,880 bytes, {'9f86d081' * 8}") for line in lines[1:])
