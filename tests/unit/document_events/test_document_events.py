"""Events of documents that are handled in order: the machine's table row by row, then what their handlers observe."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from signalbox import DocumentEvent, Function, Problem
from signalbox.adapters import runtime
from signalbox.adapters import settings as kit_settings
from signalbox.adapters.settings import settings
from signalbox.core.effects import Effect
from signalbox.core.problems import Unavailable
from signalbox.document_events import machine, service
from signalbox.document_events.machine import Each, Turn, place_of, place_of_read
from signalbox.document_events.model import Begun, Ended, OrderedEvent, Waiting
from signalbox.testing import Harness
from signalbox.testing.fixtures import harness as harness
from tests.unit.transition_tables import Row, tables

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
HELD = NOW + timedelta(seconds=60)
PLACE = 100
EVENTS = {
    "any": ("e2", PLACE),
    "the same": ("e1", PLACE),
    "earlier": ("e2", PLACE - 1),
    "another, later": ("e2", PLACE + 1),
    "another, equal": ("e2", PLACE),
}
TURNS = {"begins": Turn.BEGINS, "overtaken": Turn.OVERTAKEN, "handled already": Turn.HANDLED, "Unavailable": None}
HOLDERS = {"-": "", "another": "d1", "itself": "d2"}
TABLE, TABLE_OF_EACH, TABLE_OF_TIMES = tables(machine.__doc__)


def turn(begun: Begun | None, event: str, place: int) -> Turn | None:
    try:
        return machine.begin(begun, event, place, "d2", NOW, 60).answer
    except Unavailable:
        return None


def test_the_table_has_each_state_holder_and_event() -> None:
    assert len(TABLE) == 14
    assert {row["the event is"] for row in TABLE} == set(EVENTS)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: " ".join(row.values()))
def test_each_row_of_the_table(row: Row) -> None:
    begun = None
    if row["begun last"] != "none":
        begun = Begun("e1", PLACE, row["begun last"] == "handled", HOLDERS[row["held by"]], HELD)
    assert turn(begun, *EVENTS[row["the event is"]]) == TURNS[row["turn"]]


OF_EACH: dict[str, tuple[str, int]] = {
    **EVENTS,
    "the first": ("e2", PLACE),
    "the next": ("e2", PLACE + 3),
    "after a gap": ("e2", PLACE + 9),
    "a creation": ("e2", PLACE + 9),
}
BEFORE = {"the first": None, "a creation": None, "the next": PLACE, "after a gap": PLACE + 4}


@pytest.mark.parametrize("row", TABLE_OF_EACH, ids=lambda row: " ".join(row.values()))
def test_each_row_of_the_table_of_handlers_that_leave_out_none(row: Row) -> None:
    begun, event = None, row["the event is"]
    if row["begun last"] != "none":
        place, is_handled = PLACE + (row["begun last"] == "deleted"), row["begun last"] in ("handled", "deleted")
        begun = Begun("e1", place, is_handled, HOLDERS[row["held by"]], HELD)
    wait_seconds = 1 if row["patience"] == "yes" else 0
    waits_until = NOW + timedelta(seconds=wait_seconds)
    each = Each(BEFORE.get(event, PLACE), waits_until, creates=event == "a creation")
    try:
        found = machine.begin(begun, *OF_EACH[event], "d2", NOW, 60, each).answer
    except Unavailable:
        found = None
    assert found == TURNS[row["turn"]]


TIMES_TURNS = {**TURNS, "waits": Turn.WAITS, "skipped": Turn.SKIPPED}
TIMES_HOLDERS = {"-": "", "another time": "t9/d1", "itself": "t5/d1"}


def planned(event: str, place: int, turn: int = 1) -> Waiting:
    return Waiting(event, place, Effect(event, "tasks", "shop", "send", {}, context={"scheduled": event}), turn)


@pytest.mark.parametrize("row", TABLE_OF_TIMES, ids=lambda row: " ".join(row.values()))
def test_each_row_of_the_table_of_planned_times(row: Row) -> None:
    """The time is ``t5``; ``t9`` is a later one, and ``t1`` an older one."""
    time = row["the time"]
    stored, own = planned("t5", PLACE + 5), planned("t5", PLACE + 5, 2 if time == "was handed over" else 1)
    last = planned("t9", PLACE + 9) if time == "is retried" and row["held by"] != "itself" else planned("t0", PLACE)
    last = own if row["held by"] == "itself" or (time == "is retried" and row["older one waits"] == "no") else last
    waiting = [planned("t1", PLACE + 1)] if row["older one waits"] == "yes" else []
    waiting += [stored] if time in ("waits", "was handed over") else []
    ended = (Ended("t5", NOW),) if time == "has ended" else ()
    begun = Begun(last.event, last.place, False, TIMES_HOLDERS[row["held by"]], HELD, tuple(waiting), ended)
    try:
        decided = machine.begin_or_wait(begun, own, "t5/d2", NOW, 60, skips=time in ("is to be skipped", "is retried"))
    except Unavailable:
        assert row["turn"] == "Unavailable"
        return
    assert decided.answer is TIMES_TURNS[row["turn"]]
    listed = [each for each in decided.state.waiting if each.event == "t5"]
    assert listed == ([own] if decided.answer is Turn.WAITS else [])
    assert [each for each in decided.state.waiting if each.event != "t5"] == [
        each for each in waiting if each != stored
    ]
    assert ("t5" in {each.event for each in decided.state.ended}) == (decided.answer in (Turn.HANDLED, Turn.SKIPPED))
    assert Begun.from_record(decided.state.to_record()) == decided.state


def test_a_time_that_has_begun_begins_although_an_older_one_has_begun_to_wait_for_it() -> None:
    """The answer of its commit was lost, and the record is read again."""
    begun = Begun("t5", PLACE + 5, False, "t5/d1", HELD, (planned("t1", PLACE + 1),))
    own = planned("t5", PLACE + 5)
    decided = machine.begin_or_wait(begun, own, "t5/d1", NOW, 60, skips=False)
    assert (decided.answer, decided.state) == (Turn.BEGINS, begun)


def test_a_time_that_has_ended_and_still_waits_waits_no_longer() -> None:
    """Its first delivery ended after its hold, and a second one was stored between. Otherwise it hides the others."""
    waiting = planned("t5", PLACE + 5), planned("t6", PLACE + 6)
    begun = Begun("t5", PLACE + 5, True, "", HELD, waiting, (Ended("t5", NOW),))
    decided = machine.begin_or_wait(begun, waiting[0], "t5/d2", NOW, 60, skips=False)
    assert decided.answer is Turn.HANDLED
    assert [each.operation for each in machine.hand_over(decided.state, "x", NOW)] == ["t6"]


def test_only_the_task_of_its_current_turn_begins_a_time_that_waits() -> None:
    """Others were acknowledged: if their process died, they would not be delivered again."""
    begun = Begun("t0", PLACE, True, "", HELD, (planned("t5", PLACE + 5, 2),))
    for turn, answer in ((1, Turn.WAITS), (2, Turn.WAITS), (3, Turn.BEGINS)):
        own = planned("t5", PLACE + 5, turn)
        assert machine.begin_or_wait(begun, own, "t5/d2", NOW, 60, skips=False).answer is answer


def test_the_task_of_a_later_turn_than_the_stored_one_begins_or_is_stored_again_with_a_new_turn() -> None:
    """A late second delivery of an earlier task has stored the time, while the task of this turn is retried.

    If it were acknowledged, only such late deliveries would be left, and the time is lost if their process dies.
    """
    for holder, answer, turns in (("t0/d1", Turn.WAITS, [4]), ("", Turn.BEGINS, [])):
        begun = Begun("t0", PLACE, True, holder, HELD, (planned("t5", PLACE + 5, 1),))
        decided = machine.begin_or_wait(begun, planned("t5", PLACE + 5, 4), "t5/d2", NOW, 60, skips=False)
        assert (decided.answer, [each.turn for each in decided.state.waiting]) == (answer, turns)


def test_the_record_knows_the_last_times_that_have_ended() -> None:
    begun = Begun("t0", PLACE, True, "t0/d1", HELD)
    for number in range(machine.ENDED_MAX + 5):
        begun = machine.end_for_good(begun, f"t{number}", handled=True)
    begun = machine.end_for_good(begun, "t50", handled=True)
    assert (len(begun.ended), begun.ended[0].event, begun.ended[-1].event) == (machine.ENDED_MAX, "t5", "t50")


def test_a_time_that_was_left_out_can_be_made_up_for_after_32_days() -> None:
    own, held = planned("t5", PLACE + 5), Begun("t0", PLACE, False, "t0/d1", HELD)
    left_out = machine.begin_or_wait(held, own, "t5/d1", NOW, 60, skips=True)
    assert left_out.answer is Turn.SKIPPED
    for days, answer in ((31, Turn.HANDLED), (32, Turn.BEGINS)):
        later = NOW + timedelta(days=days)
        assert machine.begin_or_wait(left_out.state, own, "t5/d2", later, 60, skips=False).answer is answer


def test_times_wait_in_their_order_and_only_as_many_as_the_record_has_room_for() -> None:
    begun = Begun("t0", PLACE, False, "t0/d1", HELD)
    for number in (3, 1, 2):
        begun = machine.begin_or_wait(begun, planned(f"t{number}", PLACE + number), "d2", NOW, 60, skips=False).state
    assert [each.event for each in begun.waiting] == ["t1", "t2", "t3"]
    text = {"text": "x" * machine.WAITING_BYTES_MAX}
    large = Waiting("t4", PLACE + 4, Effect("t4", "tasks", "shop", "send", text), 1)
    with pytest.raises(Unavailable):
        machine.begin_or_wait(begun, large, "t4/d2", NOW, 60, skips=False)
    free = replace(begun, holder="")
    decided = machine.begin_or_wait(free, large, "t4/d2", NOW, 60, skips=False)
    assert decided.answer is Turn.BEGINS, "it could not be stored, and none is held"


def test_the_oldest_time_is_handed_over_under_one_name_for_a_minute_and_not_while_another_is_held() -> None:
    waiting = (planned("t1", PLACE + 1), planned("t2", PLACE + 2))
    begun = Begun("t0", PLACE, True, "", NOW, waiting)
    minute = NOW.replace(second=0)
    names = [machine.hand_over(begun, "x", minute + timedelta(seconds=each))[0].name for each in (0, 59, 60)]
    assert names[0] == names[1] != names[2]
    assert machine.hand_over(begun, "x", NOW)[0].operation == "t1"
    assert machine.hand_over(replace(begun, holder="t0/d1", ends_at=HELD), "x", NOW) == ()


def test_an_event_waits_a_minute_from_its_write_and_an_unknown_place_before_is_not_waited_for() -> None:
    written = place_of(NOW, None)
    assert written is not None
    assert machine.each_of(written, PLACE).waits_until == NOW + timedelta(seconds=60)
    begun = Begun("e1", PLACE, False, "", HELD)
    assert not machine.each_of(written, None).must_wait(begun, NOW)
    assert machine.each_of(written, PLACE).must_wait(begun, NOW)


def test_a_hold_ends_with_its_time_and_the_place_never_decreases() -> None:
    begun = Begun("e1", PLACE, False, "d1", NOW)
    decided = machine.begin(begun, "e1", PLACE - 1, "d2", NOW, 60)
    assert (decided.answer, decided.state.place, decided.state.ends_at) == (Turn.BEGINS, PLACE, HELD)


def test_the_end_frees_the_document_and_says_whether_the_event_was_handled() -> None:
    begun = Begun("e1", PLACE, False, "d1", HELD)
    assert machine.end(begun, "e1", handled=True) == replace(begun, handled=True, holder="")
    assert machine.end(begun, "e1", handled=False) == replace(begun, holder="")


def test_an_earlier_event_that_is_handled_late_does_not_say_that_the_newest_one_was_handled() -> None:
    begun, each = Begun("e2", PLACE, False, "", NOW), Each(None, NOW)
    held = machine.begin(begun, "e1", PLACE - 1, "d2", NOW, 60, each).state
    assert held == replace(begun, holder="d2", ends_at=HELD)
    assert machine.end(held, "e1", handled=True) == replace(begun, ends_at=HELD)


def test_a_deletion_lies_between_the_version_that_it_deletes_and_the_next() -> None:
    later = NOW + timedelta(microseconds=1)
    written, deleted, again = place_of(NOW, None), place_of(None, NOW), place_of(later, None)
    assert written is not None
    assert deleted is not None
    assert again is not None
    assert written < deleted < again
    assert place_of(None, None) is None
    assert place_of_read(NOW, later) == written
    assert place_of_read(None, later) == again


def test_the_end_of_a_delivery_whose_hold_has_ended_leaves_the_next_ones_record(harness: Harness) -> None:
    ports, earlier = runtime.ports(), OrderedEvent("document_events/x", "parcels/7", "e1", PLACE)
    _, late = service.begin(ports, earlier, 60)
    harness.advance(61)
    service.begin(ports, replace(earlier, id="e2", place=PLACE + 1), 60)
    record = harness.record(earlier.path)
    assert late is not None
    service.end(ports, earlier, late, handled=True, is_over=True)
    assert harness.record(earlier.path) == record


# --- handlers ---


class Refused(Problem):
    status = 409
    title = "Refused"


class Mirror:
    """A function whose handler copies what it is given, in order, after `meanwhile`; or it raises `raises`."""

    def __init__(self, harness: Harness) -> None:
        self.seen = list[Any]()
        self.raises: Exception | None = None
        self.meanwhile = list[Callable[[], None]]()
        app = Function("mirror")

        @app.on_document("parcels/{id}", in_order=True)
        def mirrored(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
            if self.raises:
                raise self.raises
            while self.meanwhile:
                self.meanwhile.pop()()
            self.seen.append(event.after and event.after["n"])

        harness.add(app)


def write(harness: Harness, *contents: int | None) -> list[DocumentEvent]:
    for number in contents:
        harness.write_record("parcels/7", None if number is None else {"n": number})
    events = list(harness.events)
    harness.events.clear()
    return events


def handle(harness: Harness, *events: DocumentEvent) -> None:
    for event in events:
        harness.deliver_event(event)
        harness.run()


def test_an_event_that_arrives_after_a_later_one_is_left_out_and_the_last_is_always_handled(harness: Harness) -> None:
    mirror = Mirror(harness)
    first, second, deleted, again = write(harness, 1, 2, None, 3)
    handle(harness, second, first, again, deleted)
    assert mirror.seen == [2, 3]
    handle(harness, *write(harness, 4, 5, None))
    assert mirror.seen == [2, 3, 4, 5, None]


def test_a_failure_lets_later_events_pass_and_its_retry_does_not_overtake_them(harness: Harness) -> None:
    mirror = Mirror(harness)
    first, second = write(harness, 1, 2)
    mirror.raises = Refused("7")
    handle(harness, first)
    [failure] = harness.get("failures").json["failures"]
    mirror.raises = None
    handle(harness, second)
    assert harness.post(f"failures/{failure['id']}/retry").status == 202
    harness.run()
    assert mirror.seen == [2]
    assert "event overtaken" in [message for message, _ in harness.log.infos]


def test_the_failure_of_the_newest_event_can_be_retried(harness: Harness) -> None:
    mirror = Mirror(harness)
    mirror.raises = Refused("7")
    handle(harness, *write(harness, 1))
    [failure] = harness.get("failures").json["failures"]
    mirror.raises = None
    assert harness.post(f"failures/{failure['id']}/retry").status == 202
    harness.run()
    assert mirror.seen == [1]


def test_an_event_without_its_data_has_the_place_of_what_its_handler_reads(harness: Harness) -> None:
    mirror = Mirror(harness)
    first, second = write(harness, 1, 2)
    bare = replace(first, before=None, after=None, before_update_time=None, update_time=None, create_time=None)
    handle(harness, bare, second)
    assert mirror.seen == [None, 2]
    handle(harness, first)
    assert mirror.seen == [None, 2]


def test_an_event_whose_handler_raised_is_begun_again_at_once(harness: Harness) -> None:
    mirror = Mirror(harness)
    [event] = write(harness, 1)
    harness.deliver_event(event)
    task = harness.take("mirrored")
    mirror.raises = RuntimeError("try again")
    assert harness.deliver_task(task).status == 500
    mirror.raises = None
    assert harness.deliver_task(task).status == 204
    assert mirror.seen == [1]


@pytest.mark.parametrize("timeouts", [{}, {"mirror": 60}])
def test_the_next_event_waits_for_as_long_as_a_request_of_the_function_may_run(
    harness: Harness, timeouts: dict[str, float]
) -> None:
    kit_settings.bind(replace(settings(), timeouts=timeouts))
    mirror = Mirror(harness)
    first, second = write(harness, 1, 2)
    harness.deliver_event(first)
    running = harness.take("mirrored")
    harness.deliver_event(second)
    waiting, statuses = harness.take("mirrored"), list[int]()

    def meanwhile() -> None:
        for seconds in (0, timeouts.get("mirror", 540) - 1, 2):
            harness.advance(seconds)
            statuses.append(harness.deliver_task(waiting).status)

    mirror.meanwhile.append(meanwhile)
    harness.deliver_task(running)
    assert statuses == [503, 503, 204]
    [begun] = harness.ids("document_events")
    assert harness.record(f"document_events/{begun}").keys() >= {"begun_at", "place"}


def test_a_delivery_whose_end_is_not_known_to_be_stored_is_not_acknowledged(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object, handled: bool, is_over: bool) -> None:
        raise Unavailable("no answer")

    mirror = Mirror(harness)
    harness.deliver_event(*write(harness, 1))
    task = harness.take("mirrored")
    with monkeypatch.context() as patch:
        patch.setattr(service, "end", lost)
        assert harness.deliver_task(task).status == 503
    assert mirror.seen == [1]


def test_a_second_delivery_of_a_handled_event_does_not_run_its_handler(harness: Harness) -> None:
    mirror = Mirror(harness)
    [event] = write(harness, 1)
    harness.deliver_event(event)
    task = harness.take("mirrored")
    assert [harness.deliver_task(task).status for _ in range(2)] == [204, 204]
    assert mirror.seen == [1]
    assert "event handled already" in [message for message, _ in harness.log.infos]


def test_with_each_no_event_is_left_out_and_one_waits_for_the_event_before_it(harness: Harness) -> None:
    app, seen = Function("audit"), list[Any]()

    @app.on_document("parcels/{id}", in_order="each")
    def audited(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        seen.append(event.after and event.after["n"])

    harness.add(app)
    first, second, third, deleted, again = write(harness, 1, 2, 3, None, 4)
    handle(harness, first)
    harness.deliver_event(third)
    harness.run(due_only=True)
    assert seen == [1], "it waits for the second"
    harness.deliver_event(second)
    harness.run()
    assert seen == [1, 2, 3]
    harness.advance(3_600)
    handle(harness, again, deleted)
    assert seen == [1, 2, 3, 4, None], "what arrives an hour late is handled late"


def test_with_each_the_second_event_of_a_document_waits_for_the_first_whose_delivery_is_late(harness: Harness) -> None:
    app, seen = Function("audit"), list[Any]()

    @app.on_document("parcels/{id}", in_order="each")
    def audited(event: DocumentEvent, id: str) -> None:  # noqa: A002  as the path names it
        seen.append(event.after and event.after["n"])

    harness.add(app)
    created, updated, deleted, again = write(harness, 1, 2, None, 3)
    harness.deliver_event(updated)
    harness.run(due_only=True)
    assert seen == []
    harness.deliver_event(created)
    harness.run()
    assert seen == [1, 2]
    harness.deliver_event(again)
    harness.run(due_only=True)
    assert seen == [1, 2], "it waits for the deletion, whose time it does not have"
    harness.deliver_event(deleted)
    harness.run()
    assert seen == [1, 2, None, 3]


@pytest.mark.parametrize("seed", range(40))
def test_with_each_events_that_all_arrive_within_a_minute_are_handled_once_and_in_the_order_of_the_versions(
    seed: int,
) -> None:
    """A model of the promise alone: any order, repeats, handlers that raise once, and processes that die."""
    random, number = Random(seed), Random(seed).randint(1, 7)
    written = [NOW + timedelta(seconds=at) for at in range(number)]
    deletes = {Random(seed).randint(1, number - 1)} if number > 2 and seed % 2 else set[int]()
    places = [2 * round(at.timestamp() * 1_000_000) for at in written]
    places = [places[at - 1] + 1 if at in deletes else place for at, place in enumerate(places)]
    waiting = [at for at in range(number) for _ in range(random.randint(1, 2))]
    now, begun, seen, raising = written[-1], None, list[int](), random.sample(range(number), number // 2)
    while waiting:
        at = 0 if begun is None and deletes else random.choice(waiting)
        is_created = at == 0 or at - 1 in deletes
        each = machine.each_of(places[at], None if is_created else places[at - 1], creates=is_created)
        now += timedelta(milliseconds=10)
        try:
            decided = machine.begin(begun, f"e{at}", places[at], f"d{now}", now, 0.05, each)
        except Unavailable:
            continue
        begun = decided.state
        if decided.answer is not Turn.BEGINS:
            waiting.remove(at)
        elif at in raising:
            raising.remove(at)
            begun = begun if random.random() < 0.5 else machine.end(begun, f"e{at}", handled=False)
        else:
            seen.append(at)
            waiting.remove(at)
            begun = machine.end(begun, f"e{at}", handled=True)
    assert now < written[0] + timedelta(seconds=60), "the model delivers within the wait"
    assert list(dict.fromkeys(seen)) == list(range(number))


def test_an_order_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="write True, False or 'each'"):
        Function("audit").on_document("parcels/{id}", in_order="all")  # type: ignore[arg-type]  # a typo
