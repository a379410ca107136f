"""Messages posted while their run is removed: each is received once by another run, or its id is free again."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pytest

from signalbox.core.ports import Change, Committed, Delete, Ports, Put, Query, Write
from signalbox.core.problems import Problem, Unavailable
from signalbox.flows import sweep
from signalbox.flows.api import flow
from signalbox.flows.machine.commands import SubFlow
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.messages import update_id
from signalbox.flows.model.retention import Keeping
from signalbox.flows.problems import FlowRunning, NoFlow, NotAnswered, NoUpdate
from signalbox.flows.requests import IF_EXISTS
from signalbox.flows.service import messages, reads, retries, sends
from signalbox.flows.service.sends import Starting
from signalbox.flows.storage.listings import ARCHIVED_AT
from signalbox.mailboxes.model.messages import collection_of, header_path
from signalbox.testing.replaced_limits import replaced
from tests.unit.flows.shops import FUNCTION, Shop, flows_of

ADDRESS = FlowAddress("desk", "1")


async def desk() -> Any:
    """Answer updates until the event `end`, and return what the run has received."""
    received: list[Any] = []
    while True:
        which, got = await flow.first(ask=flow.update("ask"), note=flow.event("note"), end=flow.event("end"))
        if which == "end":
            return received
        received.append(got.value if which == "ask" else got)
        if which == "ask":
            got.answer(len(received))


@dataclass
class Meanwhile:
    """A store in which something happens once, before the first commit that `before` names."""

    ports: Ports
    before: Callable[[Write], bool]
    happens: Callable[[], object]
    has_happened: bool = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ports.store, name)

    def commit(self, writes: Sequence[Write]) -> Committed:
        if not self.has_happened and any(map(self.before, writes)):
            self.has_happened = True
            self.happens()
        return self.ports.store.commit(writes)


def meanwhile(ports: Ports, before: Callable[[Write], bool], happens: Callable[[], object]) -> Ports:
    return replace(ports, store=Meanwhile(ports, before, happens))


def is_message(write: Write) -> bool:
    return isinstance(write, Put) and "/mailbox/" in write.path


def is_removal(write: Write) -> bool:
    return isinstance(write, Delete) and write.path == header_path(ADDRESS.base) and write.guard is not None


def is_drop(write: Write) -> bool:
    return isinstance(write, Delete) and write.path.startswith(f"{ADDRESS.base}/mailbox/")


def is_note(write: Write) -> bool:
    return isinstance(write, Change) and (ARCHIVED_AT,) in write.fields


@pytest.fixture
def shop() -> Shop:
    shop = Shop(flows_of(desk))
    shop.start("desk")
    shop.settle()
    return shop


def end_and_remove(shop: Shop) -> None:
    sweep.terminate(shop.ports, ADDRESS)
    sweep.delete(shop.ports, ADDRESS)


def update(ports: Ports, id_: str = "u") -> None:
    messages.post_update(ports, ADDRESS, "ask", id_, id_)


def posted_late(shop: Shop, post: Callable[[Ports], object]) -> None:
    """Post a message to the run, which is removed after its header was read. The message waits without a run."""
    post(meanwhile(shop.ports, is_message, lambda: end_and_remove(shop)))


POSTS: dict[str, Callable[[Ports], object]] = {
    "an update": update,
    "an event": lambda ports: messages.post_event(ports, ADDRESS, "note", "n", "e"),
    "a cancel": lambda ports: messages.cancel(ports, ADDRESS, id_="c"),
}
RECEIVED = {"an update": ["u"], "an event": ["n"], "a cancel": None}


def start_again(shop: Shop) -> None:
    shop.start("desk")
    shop.settle()


def ended(shop: Shop) -> Any:
    """End the run, and return its result; None if it was cancelled."""
    if shop.status("desk")["state"] == "running":
        shop.event("desk", "end", id_="end")
        shop.settle()
    return shop.status("desk").get("result")


def lose_tasks(shop: Shop) -> None:
    """Purge the queues. A second later, the tasks have other names."""
    shop.world.tasks.clear()
    shop.world.pass_time(1)


def records(shop: Shop) -> list[str]:
    return [record.path for record in shop.ports.store.query(Query(collection_of(ADDRESS.base)))]


@pytest.mark.parametrize("kind", POSTS)
def test_a_message_that_finds_no_run_leaves_no_record_and_a_repeat_reaches_the_next_run(shop: Shop, kind: str) -> None:
    post = POSTS[kind]
    posted_late(shop, post)
    assert len(records(shop)) == 1
    shop.settle()
    assert not records(shop)
    with pytest.raises(NoFlow):
        post(shop.ports)
    start_again(shop)
    for _ in range(2):
        post(shop.ports)
        shop.settle()
    assert ended(shop) == RECEIVED[kind]


@pytest.mark.parametrize("kind", POSTS)
def test_a_message_that_finds_no_run_and_is_not_repeated_does_not_reach_the_next_one(shop: Shop, kind: str) -> None:
    posted_late(shop, POSTS[kind])
    shop.settle()
    start_again(shop)
    assert ended(shop) == []


@pytest.mark.parametrize("kind", POSTS)
def test_a_repeat_deletes_its_message_before_it_is_told_that_there_is_no_run(shop: Shop, kind: str) -> None:
    posted_late(shop, POSTS[kind])
    lose_tasks(shop)
    with pytest.raises(NoFlow):
        POSTS[kind](shop.ports)
    assert records(shop) == []
    start_again(shop)
    assert ended(shop) == []


@pytest.mark.parametrize("kind", POSTS)
def test_a_repeat_is_refused_if_a_run_starts_meanwhile_which_may_have_its_message(shop: Shop, kind: str) -> None:
    post = POSTS[kind]
    posted_late(shop, post)
    with pytest.raises(Unavailable):
        post(meanwhile(shop.ports, lambda write: isinstance(write, Delete), lambda: start_again(shop)))
    if kind != "a cancel":  # it has ended the run
        post(shop.ports)
        shop.settle()
    assert ended(shop) == RECEIVED[kind]


def update_with_start(if_exists: str, shop: Shop) -> None:
    new = Starting("desk", shop.flows, FUNCTION, if_exists=if_exists)
    sends.send_update(shop.ports, ADDRESS, "ask", "u", "u", new)


REPEATS: dict[str, Callable[[Shop], object]] = {
    "no start": lambda shop: update(shop.ports),
    **{if_exists: partial(update_with_start, if_exists) for if_exists in IF_EXISTS},
}


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_repeat_enqueues_the_lost_wake_up_of_an_update_that_an_ended_run_has_left(shop: Shop, repeat: str) -> None:
    update(shop.ports)
    sweep.terminate(shop.ports, ADDRESS)
    lose_tasks(shop)
    REPEATS[repeat](shop)
    shop.settle()
    with pytest.raises(NotAnswered):
        sends.answer_of(shop.ports, ADDRESS, "u")


@pytest.mark.parametrize("repeat", REPEATS)
def test_a_repeat_enqueues_the_lost_wake_up_of_an_update_of_a_run_that_goes_on(shop: Shop, repeat: str) -> None:
    update(shop.ports)
    lose_tasks(shop)
    REPEATS[repeat](shop)
    shop.settle()
    answer = sends.answer_of(shop.ports, ADDRESS, "u")
    assert answer is not None
    assert answer.result == 1


def test_a_caller_waits_for_an_answer_until_the_update_is_dropped(shop: Shop) -> None:
    posted_late(shop, update)
    assert sends.answer_of(shop.ports, ADDRESS, "u") is None
    shop.settle()
    with pytest.raises(NoFlow):
        sends.answer_of(shop.ports, ADDRESS, "u")
    start_again(shop)
    with pytest.raises(NoUpdate):
        sends.answer_of(shop.ports, ADDRESS, "u")
    update(shop.ports)
    shop.settle()
    answer = sends.answer_of(shop.ports, ADDRESS, "u")
    assert answer is not None
    assert answer.result == 1


def test_a_caller_waits_for_an_answer_until_the_update_of_an_ended_run_is_dropped(shop: Shop) -> None:
    update(shop.ports)
    sweep.terminate(shop.ports, ADDRESS)
    assert sends.answer_of(shop.ports, ADDRESS, "u") is None
    shop.settle()
    with pytest.raises(NotAnswered):
        sends.answer_of(shop.ports, ADDRESS, "u")


def test_a_message_that_starts_its_run_takes_the_place_of_one_that_waits_without_a_run(shop: Shop) -> None:
    posted_late(shop, update)
    new = Starting("desk", shop.flows, FUNCTION)
    for _ in range(2):
        sends.send_update(shop.ports, ADDRESS, "ask", "u", "u", new)
    shop.settle()
    assert ended(shop) == ["u"]


def replacing(shop: Shop, ports: Ports, id_: str = "e") -> sends.Sent:
    new = Starting("desk", shop.flows, FUNCTION, if_exists="replace_ended")
    return sends.send_event(ports, ADDRESS, "note", id_, id_, new)


def end_and_drop(shop: Shop) -> None:
    sweep.terminate(shop.ports, ADDRESS)
    shop.settle()


ENDS: dict[str, Callable[[Shop], None]] = {
    "ended": lambda shop: sweep.terminate(shop.ports, ADDRESS),
    "ended, and its messages are dropped": end_and_drop,
    "removed": end_and_remove,
}


@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("how", ENDS)
def test_a_message_whose_run_ends_before_its_post_starts_another_one(shop: Shop, how: str, dies: bool) -> None:
    """The sender has read a run that has not ended. In the second case, its process dies after the post."""

    class Dying(Meanwhile):
        def commit(self, writes: Sequence[Write]) -> Committed:
            committed = super().commit(writes)
            if dies and any(map(is_message, writes)):
                raise Unavailable("the process dies")
            return committed

    ports = replace(shop.ports, store=Dying(shop.ports, is_message, lambda: ENDS[how](shop)))
    with pytest.raises(Unavailable) if dies else nullcontext():
        assert replacing(shop, ports).started
    assert replacing(shop, shop.ports).started == dies
    for _ in range(2):
        shop.settle()
        assert not replacing(shop, shop.ports).started
    assert ended(shop) == ["e"]


def test_a_message_that_an_ended_run_has_left_unread_starts_no_other_run(shop: Shop) -> None:
    assert not replacing(shop, shop.ports).started
    sweep.terminate(shop.ports, ADDRESS)
    for _ in range(2):
        assert not replacing(shop, shop.ports).started
        shop.settle()


class Afterwards(Meanwhile):
    """A store in which something happens once, after the first commit that `before` names."""

    def commit(self, writes: Sequence[Write]) -> Committed:
        committed = self.ports.store.commit(writes)
        if not self.has_happened and any(map(self.before, writes)):
            self.has_happened = True
            self.happens()
        return committed


@pytest.mark.parametrize("how", ["terminated", "ended by an earlier event"])
def test_a_message_that_was_posted_before_the_end_starts_no_other_run_although_it_was_not_read(
    shop: Shop, how: str
) -> None:
    """The run ends between the post of the message and the second look of its sender."""
    if how == "terminated":
        end: Callable[[], object] = partial(sweep.terminate, shop.ports, ADDRESS)
    else:
        shop.event("desk", "end", id_="end")
        end = shop.settle
    assert not replacing(shop, replace(shop.ports, store=Afterwards(shop.ports, is_message, end))).started
    assert reads.get(shop.ports, ADDRESS).end
    shop.settle()
    assert not replacing(shop, shop.ports).started
    assert not ended(shop)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_message_to_a_run_that_ends_with_an_inline_step_starts_another_one_if_it_is_posted_after_the_end(
    is_late: bool,
) -> None:
    """The turn of the end has not read the mailbox; its time is that of the last commit plus the time since then."""
    address = FlowAddress("saves", "1")

    def send() -> bool:
        new = Starting("saves", saving.flows, FUNCTION, if_exists="replace_ended")
        return sends.send_event(saving.ports, address, "note", None, "e", new).started

    def save() -> None:
        saving.world.pass_time(1)
        if not is_late:
            assert not send()
        saving.world.pass_time(1)

    async def saves() -> None:
        await flow.event("go")
        await flow.run(save)

    saving = Shop(flows_of(saves))
    saving.start("saves")
    saving.settle()
    header = reads.get(saving.ports, address)
    saving.event("saves", "go", id_="go")
    saving.settle()
    assert reads.get(saving.ports, address).end
    saving.world.pass_time(0.001)
    if is_late:
        messages.send(saving.ports, header, messages.checked_event("note", None), messages.event_id(address, "e"))
    assert send() == is_late
    saving.settle()
    assert not send()


def test_a_repeat_does_not_replace_the_run_that_its_message_has_started_and_that_has_ended_at_once() -> None:
    async def brief() -> str:
        return "done"

    shop = Shop(flows_of(brief))
    new = Starting("brief", shop.flows, FUNCTION, if_exists="replace_ended")
    started = []
    for id_ in ("a", "a", "b", "b"):
        started.append(sends.send_event(shop.ports, FlowAddress("brief", "1"), "note", None, id_, new).started)
        shop.settle()
        started.append(sends.send_event(shop.ports, FlowAddress("brief", "1"), "note", None, id_, new).started)
    assert started == [True, False, False, False, True, False, False, False]


def test_a_turn_does_not_delete_a_message_that_the_next_run_has_accepted(shop: Shop) -> None:
    """The turn has found no run. Before its commit, a run starts, and a repeat of the message is accepted."""

    def start_and_repeat() -> None:
        shop.start("desk")
        messages.post_event(shop.ports, ADDRESS, "note", "n", "e")

    posted_late(shop, POSTS["an event"])
    shop.world.ports = meanwhile(shop.ports, is_drop, start_and_repeat)
    shop.settle()
    assert ended(shop) == ["n"]


@dataclass
class BeforeRead(Meanwhile):
    """A store in which something happens once, before the first read of a message's record."""

    def read(self, *paths: str, fields: Sequence[tuple[str, ...]] | None = None) -> Any:
        if not self.has_happened and paths[0].startswith(f"{ADDRESS.base}/mailbox/"):
            self.has_happened = True
            self.happens()
        return self.ports.store.read(*paths, fields=fields)


def test_a_repeat_is_not_accepted_for_a_message_that_a_turn_deletes_before_the_repeat_reads_it(shop: Shop) -> None:
    """The repeat has read the removed run's header. Its post finds the message, which is gone when it is read."""
    header, asked = reads.get(shop.ports, ADDRESS), messages.checked_update("ask", "u", "u")
    posted_late(shop, update)

    def drop_and_start() -> None:
        shop.settle()
        shop.start("desk")

    ports = replace(shop.ports, store=BeforeRead(shop.ports, is_removal, drop_and_start))
    with pytest.raises(Unavailable):
        messages.send(ports, header, asked, update_id(ADDRESS, "u"))
    update(shop.ports)
    shop.settle()
    assert ended(shop) == ["u"]


def test_a_removal_leaves_no_receipt_of_a_message_that_it_has_not_read(shop: Shop) -> None:
    """A turn of the ended run drops the message between the removal's read of the mailbox and its commit."""
    header, asked = reads.get(shop.ports, ADDRESS), messages.checked_update("ask", "u", "u")
    sweep.terminate(shop.ports, ADDRESS)
    shop.settle()

    def post_and_drop() -> None:
        messages.send(shop.ports, header, asked, update_id(ADDRESS, "u"))
        shop.settle()

    sweep.delete(meanwhile(shop.ports, is_removal, post_and_drop), ADDRESS)
    assert not records(shop)
    start_again(shop)
    update(shop.ports)
    assert ended(shop) == ["u"]


def test_a_message_to_a_run_that_is_being_removed_page_by_page_leaves_no_receipt(shop: Shop) -> None:
    for number in range(5):
        update(shop.ports, f"u{number}")
    shop.settle()
    header, asked = reads.get(shop.ports, ADDRESS), messages.checked_update("ask", "u", "u")
    sweep.terminate(shop.ports, ADDRESS)
    shop.settle()

    def post_and_drop() -> None:
        messages.send(shop.ports, header, asked, update_id(ADDRESS, "u"))
        shop.settle()

    with replaced(flow_removed_at_once_max=2):
        sweep.delete(meanwhile(shop.ports, is_removal, post_and_drop), ADDRESS)
    assert not records(shop)


def test_a_removal_that_dies_after_its_mark_leaves_no_message_without_a_turn(shop: Shop) -> None:
    """The wake-up of the message comes after the mark, whose commit has read no messages."""
    for number in range(5):
        update(shop.ports, f"u{number}")
    shop.settle()
    header, asked = reads.get(shop.ports, ADDRESS), messages.checked_update("ask", "u", "u")
    sweep.terminate(shop.ports, ADDRESS)
    shop.settle()
    messages.send(shop.ports, header, asked, update_id(ADDRESS, "u"))
    shop.world.pass_time(5)

    def die() -> None:
        raise Unavailable("the process dies")

    with replaced(flow_removed_at_once_max=2), pytest.raises(Unavailable):
        sweep.delete(meanwhile(shop.ports, is_drop, die), ADDRESS)
    assert reads.get(shop.ports, ADDRESS).removing
    shop.settle()
    with pytest.raises(NoUpdate):
        sends.answer_of(shop.ports, ADDRESS, "u")


def test_the_outcome_and_the_cancel_of_a_sub_flow_are_those_of_one_run_of_its_parent() -> None:
    """The parent is removed before its sub-flow has ended. The next run of the id has another sub-flow."""

    async def outer() -> Any:
        return await SubFlow(FUNCTION, "inner", {}, id="i")

    async def inner() -> Any:
        return await flow.event("end")

    shop, outer_run, inner_run = Shop(flows_of(outer, inner)), FlowAddress("outer", "1"), FlowAddress("inner", "i")
    results = []
    for value in ("first", "second"):
        shop.start("outer")
        shop.settle()
        sweep.terminate(shop.ports, outer_run)
        sweep.delete(shop.ports, outer_run)
        shop.settle()
        assert reads.get(shop.ports, inner_run).state == "cancelled"
        assert not shop.ports.store.query(Query(collection_of(outer_run.base)))
        sweep.delete(shop.ports, inner_run)
        shop.start("outer")
        shop.settle()
        messages.post_event(shop.ports, inner_run, "end", value, value)
        shop.settle()
        results.append(shop.status("outer")["result"])
        sweep.delete(shop.ports, outer_run)
        sweep.delete(shop.ports, inner_run)
    assert results == ["first", "second"]


def test_a_deletion_finds_that_a_retry_continues_the_run() -> None:
    async def failing() -> Any:
        await flow.event("end")
        raise Problem("no")

    shop = Shop(flows_of(failing))
    address = FlowAddress("failing", "1")
    shop.start("failing")
    shop.event("failing", "end")
    shop.settle()

    def retry() -> None:
        retries.retry(shop.ports, shop.flows, address, "k", retries.RetryOptions(0))

    with pytest.raises(FlowRunning):
        sweep.delete(meanwhile(shop.ports, lambda write: isinstance(write, Delete), retry), address)


def test_the_archive_of_a_run_is_noted_although_a_turn_drops_late_messages() -> None:
    shop = Shop(flows_of(desk, keeping=Keeping(archive="gs://runs/desk")))
    shop.start("desk")
    shop.settle()
    header, asked = reads.get(shop.ports, ADDRESS), messages.checked_update("ask", "u", "u")
    shop.event("desk", "end")
    [wake] = shop.world.tasks
    shop.world.tasks.remove(wake)
    shop.deliver(wake)

    def post_and_drop() -> None:
        messages.send(shop.ports, header, asked, update_id(ADDRESS, "u"))
        [wake] = shop.world.tasks
        shop.world.tasks.remove(wake)
        shop.deliver(wake)

    ports = shop.ports
    shop.world.ports = meanwhile(ports, is_note, post_and_drop)
    shop.settle()
    assert ARCHIVED_AT in shop.world.record(ADDRESS.base)
