"""The end of a log moves into chunks: when, what each chunk has, and what is counted."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signalbox import flow
from signalbox.core.user_code import ProcessEnded
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.headers import FlowHeader, new_header
from signalbox.flows.model.messages import Result
from signalbox.flows.model.waits import Wait
from signalbox.flows.service import reads
from signalbox.flows.storage.log import ENTRIES, LoadedLog, chunk_paths, extended, read_log
from signalbox.mailboxes.model.outcomes import CallOutcome
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import Shop, Workers, flows_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(number: int, size: int, turn: int) -> Result:
    at = NOW + timedelta(microseconds=turn)
    return Result(Wait("", str(number), 1, "run f"), CallOutcome("x" * size), at)


def written(sizes: Sequence[int], *, live: bool, of_a_turn: int = 1) -> tuple[FlowHeader, list[int], list[int]]:
    """Append entries; return the header, and the bytes of the tails and of the chunks that each turn wrote."""
    header, last = new_header(FlowAddress("chain", "1"), "shop", {}, "i"), "[]"
    tails, chunks = [], []
    entries = [entry(number, size, number // of_a_turn) for number, size in enumerate(sizes)]
    for first in range(0, len(entries), of_a_turn):
        new = entries[first : first + of_a_turn]
        header, puts = extended(header, LoadedLog(last_chunk=last), new, live=live)
        last = str(puts[-1].data[ENTRIES]) if puts else last
        tails.append(len(header.log.tail_text))
        chunks.append(sum(len(str(put.data[ENTRIES])) for put in puts))
    return header, tails, chunks


@pytest.mark.parametrize("size", [100, 500, 2_000])
def test_the_moves_of_a_chain_write_no_more_than_its_tails(size: int) -> None:
    _, tails, chunks = written([size] * 1_000, live=True)
    assert sum(chunks) <= 1.1 * (sum(tails) + LIMITS.flow_live_tail_bytes_max)


@pytest.mark.parametrize("size", [500, 2_000, 10_000])
def test_steps_that_end_together_write_no_more_bytes_than_with_late_moves(size: int) -> None:
    _, *early = written([size] * 1_000, live=True, of_a_turn=8)
    _, *late = written([size] * 1_000, live=False, of_a_turn=8)
    assert sum(map(sum, early)) <= 1.05 * sum(map(sum, late))


def test_a_chain_whose_chunk_is_short_moves_its_tail_soon() -> None:
    _, tails, _ = written([100] * 1_000, live=True)
    assert max(tails) <= LIMITS.flow_live_tail_bytes_max + 200
    _, tails, _ = written([500] * 1_000, live=True)
    assert max(tails) <= LIMITS.flow_tail_bytes_max / 2


def test_a_turn_that_has_read_moves_no_tail_early() -> None:
    _, tails, chunks = written([500] * 100, live=False)
    assert max(tails) > 2 * LIMITS.flow_live_tail_bytes_max
    assert not any(chunks)


def test_no_tail_and_no_chunk_is_longer_than_its_limit() -> None:
    for live in (True, False):
        for size in (3_000, 30_000, 70_000):
            header, tails, chunks = written([size] * (2_000_000 // size), live=live)
            assert max(tails) <= LIMITS.flow_tail_bytes_max
            assert max(chunks) <= 2 * LIMITS.flow_chunk_bytes_max
            assert header.log.chunks >= 3


def letters(size: int) -> str:
    return "x" * size


def code(sizes: Sequence[int]) -> Callable[..., Any]:
    async def chain() -> int:
        total = 0
        for size in sizes:
            total += len(await flow.run(letters, size))
        return total

    return chain


@pytest.mark.parametrize("tail", [60, 2_000])
@pytest.mark.parametrize("live", [30, 1_000])
@pytest.mark.parametrize("chunk", [200, 5_000])
def test_a_chunk_has_the_most_bytes_that_it_may_have_unless_it_has_one_entry(tail: int, live: int, chunk: int) -> None:
    sizes = [1, 1, 70, 1, 500, 1, 1, 1] * 10
    shop = Shop(flows_of(code(sizes)))
    with replaced(flow_tail_bytes_max=tail, flow_live_tail_bytes_max=live, flow_chunk_bytes_max=chunk):
        shop.start("chain")
        shop.deliver(shop.take("turn"))
    header = reads.get(shop.ports, FlowAddress("chain", "1"))
    texts = [str((read.data or {})[ENTRIES]) for read in shop.ports.store.read(*chunk_paths(header))]
    assert [text for text in texts if len(text) > chunk and text.count('["done"') > 1] == []
    log = read_log(shop.ports.store, header)
    outcomes = [entry.outcome.result for entry in log.entries if isinstance(entry, Result)]
    assert [len(outcome) for outcome in outcomes] == sizes
    assert log.last_chunk == texts[-1]
    assert header.log.held_bytes == pytest.approx(sum(map(len, texts)), abs=2 * len(sizes))


def test_a_log_of_too_many_bytes_is_stuck_though_they_are_in_chunks() -> None:
    shop = Shop(flows_of(code([200] * 40)))
    with replaced(flow_tail_bytes_max=500, flow_chunk_bytes_max=1_000, flow_log_bytes_max=4_000):
        shop.start("chain")
        shop.settle()
    assert "flow.continue_as_new" in shop.status("chain")["problem"]["detail"]


def test_the_events_that_a_new_execution_begins_with_are_all_that_its_chunk_has() -> None:
    async def again(last: bool = False) -> Any:
        if last:
            return [await flow.event("kept") for _ in range(3)]
        for _ in range(10):
            await flow.run(lambda: "x" * 50)
        await flow.event("go")
        return flow.continue_as_new(last=True)

    shop = Shop(flows_of(again))
    with replaced(flow_tail_bytes_max=150, flow_chunk_bytes_max=20_000):
        shop.start("again")
        shop.settle()
        for number in range(3):
            shop.event("again", "kept", f"{number}" * 50, id_=f"e{number}")
        shop.settle()
        shop.event("again", "go", id_="go")
        shop.settle()
    header = reads.get(shop.ports, FlowAddress("again", "1"))
    assert (header.generation, header.log.chunks) == (1, 1)
    assert read_log(shop.ports.store, replace(header, log=replace(header.log, held=99, tail=()))).entries == (
        *read_log(shop.ports.store, header).entries,
    )
    assert shop.status("again")["result"] == ["0" * 50, "1" * 50, "2" * 50]


def test_a_turn_that_has_read_passes_on_the_chunk_that_it_has_written() -> None:
    async def sale() -> int:
        total = 0
        for _ in range(4):
            total += len(await flow.event("paid"))
            for _ in range(2):
                total += len(await flow.run(lambda: "x" * 50))
        return total

    shop = Shop(flows_of(sale))
    with replaced(flow_tail_bytes_max=60, flow_chunk_bytes_max=50_000):
        shop.start("sale")
        for number in range(4):
            shop.event("sale", "paid", "y" * 50, id_=str(number))
            shop.settle()
    assert shop.status("sale")["result"] == 600
    header = reads.get(shop.ports, FlowAddress("sale", "1"))
    assert (header.log.chunks, len(read_log(shop.ports.store, header).entries)) == (1, 12)


def test_a_delivery_that_reads_and_commits_nothing_keeps_the_chunk_it_has_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim of running code is over, and another delivery claims its step. The first one reads, changes nothing."""
    shop = Shop(flows_of())
    began: list[int] = []

    class Late(Workers):
        """Workers whose claims are over before the code of the fourth step ends."""

        def wait(self, seconds: float) -> dict[str, CallOutcome]:
            if len(began) != 3:
                return super().wait(seconds)
            began.append(3)
            shop.world.pass_time(LIMITS.inline_claim_seconds + 1)
            with pytest.raises(ProcessEnded):
                shop.deliver(wake, deliveries=1)  # another process, which dies
            return {}

    def charge(number: int) -> str:
        if len(began) == 4:
            began.append(4)
            raise ProcessEnded
        began.append(number)
        return "x" * 50

    async def sale() -> None:
        for number in range(6):
            await flow.step(flow.run(charge, number), timeout_seconds=300)

    monkeypatch.setattr("tests.unit.flows.shops.Workers", Late)
    shop.flows = flows_of(sale)
    with replaced(flow_tail_bytes_max=60, flow_chunk_bytes_max=50_000):
        shop.start("sale")
        wake = shop.take("turn")
        shop.deliver(wake)
        shop.settle()
    assert began == [0, 1, 2, 3, 4, 3, 4, 5]  # the first 4 is of the other process
    header = reads.get(shop.ports, FlowAddress("sale", "1"))
    assert len(read_log(shop.ports.store, header).entries) == header.log.length == 6
