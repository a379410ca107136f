"""The page of limits names, for one record or queue, what the rules and the catalogue give it at a write a second."""

import re
from pathlib import Path

import pytest

from signalbox.catalogue.reading import load
from signalbox.core.kit_names import FLOWS_QUEUE, LINKS_QUEUE, OBJECTS_QUEUE
from signalbox.mailboxes.limits import LIMITS as MAILBOXES
from signalbox.rates.limits import LIMITS as RATES
from signalbox.semaphores.limits import LIMITS as SEMAPHORES

PAGE = (Path(__file__).parents[3] / "docs" / "limits.md").read_text("utf-8")
TABLE = PAGE.partition("## What one record, queue and index sustain")[2].partition("### Shards")[0]
ROWS = {
    cells[0]: cells[1:] for line in TABLE.splitlines() if (cells := [each.strip() for each in line.split("|")[1:-1]])
}
TURNS_PEAK = 5
"""Writes of a header in a second, for a few seconds."""


def test_a_write_a_second_grants_what_one_commit_grants() -> None:
    waits, rate = ROWS["semaphore, with waits through the queue"], ROWS["rate"]
    assert f"fewer than {SEMAPHORES.grants_page_max} grants a second" in waits[0]
    assert rate[0].startswith(f"{RATES.rate_grants_page_max} permits a second")
    assert rate[1].startswith(f"{RATES.per_minute_max // 60} a second")


def test_a_write_a_second_applies_the_calls_of_one_turn() -> None:
    calls, peak, _ = ROWS["object"]
    assert calls == f"{MAILBOXES.mailbox_page} calls a second: one turn applies up to {MAILBOXES.mailbox_page}"
    assert peak.startswith(f"{TURNS_PEAK * MAILBOXES.mailbox_page} a second")


def test_all_flows_and_all_objects_have_what_their_queues_dispatch() -> None:
    queues = load().queues
    flows = queues[FLOWS_QUEUE]
    turns = f"{flows.concurrent_max} turns at once, {flows.dispatches_per_second} turns a second"
    assert ROWS["all flows together"][0] == turns
    assert f"four of them dispatch {4 * flows.dispatches_per_second:,}" in ROWS["all flows together"][2]
    assert (queues[OBJECTS_QUEUE].concurrent_max, queues[OBJECTS_QUEUE].dispatches_per_second) == (160, 500)
    assert f"{queues[LINKS_QUEUE].concurrent_max} tasks at once" in TABLE


@pytest.mark.parametrize("row", ["semaphore, with plain acquires", "critical section", "flow, one run"])
def test_a_record_that_each_call_writes_sustains_at_most_a_call_a_second(row: str) -> None:
    assert re.match(r"(a pair of acquire and release every 2 s|one call a second|about a step a second)", ROWS[row][0])


def test_a_million_copies_take_as_long_as_their_rate_says() -> None:
    slowest, fastest, copies = map(
        int, re.findall(r"(\d+) to (\d+) copies a second: a million take about (\d+)", TABLE)[0]
    )
    assert 1e6 / fastest / 60 < copies + 1
    assert copies - 4 < 1e6 / slowest / 60
