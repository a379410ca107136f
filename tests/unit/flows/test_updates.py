"""Updates: requests that the code of a run answers, once; and messages that start their run."""

from dataclasses import dataclass
from typing import Any

import pytest

from signalbox import Function, Problem, flow, flows
from signalbox.core.problems import OtherBody
from signalbox.flows.problems import (
    BadFlow,
    CannotQuery,
    FlowEnded,
    NoFlow,
    NotAnswered,
    NoUpdate,
    RunExists,
    TooManyUpdates,
)
from signalbox.objects.problems import NotReady
from signalbox.testing import Harness
from signalbox.testing.deliveries import TaskFailed
from signalbox.testing.fixtures import harness as harness
from signalbox.testing.replaced_limits import replaced

app = Function("shop")
ran: list[str] = []


@dataclass
class Item:
    name: str
    count: int = 1


@app.task
def reserve(name: str) -> int:
    ran.append(name)
    if name == "broken":
        raise Problem("The shelf is empty.")
    return len(ran)


@app.flow
async def cart(owner: str, items: list[str] | None = None) -> list[str]:
    items = items or []
    while len(items) < 3:
        add = await flow.update("add", Item)
        if add.value.name in items:
            add.refuse(Problem("It is in the cart.", field="name"))
            continue
        place = await reserve.call(add.value.name)
        items.append(add.value.name)
        add.answer({"owner": owner, "items": len(items), "place": place})
    return items


@app.flow
async def rounds(done: list[str] | None = None) -> Any:
    """Answers an update in the next generation, if the first of them has not answered it."""
    add = await flow.update("add")
    if done is None:
        await flow.sleep(60)
        return flow.continue_as_new(done=["first"])
    add.answer(done)
    late = await flow.update("late", int)
    late.answer(late.value + 1)
    await flow.event("end")
    return done


@app.flow
async def deaf() -> str:
    await flow.event("end")
    return "done"


@pytest.fixture(autouse=True)
def shop(harness: Harness) -> Harness:
    ran.clear()
    harness.add(app)
    return harness


def test_the_code_answers_an_update_and_all_its_senders_receive_the_one_answer(harness: Harness) -> None:
    cart.start("c", owner="ann")
    sent = flows("cart", "c").update("add", Item("tea"), id="u1")
    assert not sent.ready()
    again = flows("cart", "c").update("add", Item("tea"), id="u1")
    harness.run()
    answer = {"owner": "ann", "items": 1, "place": 1}
    assert [sent.result(), again.result(), flows("cart", "c").sent_update("u1").result()] == [answer] * 3
    late = flows("cart", "c").update("add", Item("tea"), id="u1")
    harness.run()
    assert late.result() == answer
    assert ran == ["tea"]
    with pytest.raises(OtherBody):
        flows("cart", "c").update("add", Item("cake"), id="u1")


def test_an_update_that_the_code_refuses_raises_the_problem_for_its_sender(harness: Harness) -> None:
    cart.start("c", owner="ann")
    for name in ("u1", "u2"):
        flows("cart", "c").update("add", Item("tea"), id=name)
    harness.run()
    with pytest.raises(Problem, match=r"It is in the cart\.") as refused:
        flows("cart", "c").sent_update("u2").result()
    assert refused.value.field == "name"
    assert flows("cart", "c").status().state == "running"


@pytest.mark.parametrize("value", [{"name": 7}, {"name": "tea", "size": "xl"}, "tea"])
def test_an_update_of_another_type_is_refused_and_the_code_still_waits(harness: Harness, value: Any) -> None:
    cart.start("c", owner="ann")
    wrong = flows("cart", "c").update("add", value)
    right = flows("cart", "c").update("add", {"name": "tea"})
    harness.run()
    with pytest.raises(Problem, match="the update add"):
        wrong.result()
    assert right.result()["items"] == 1


def test_updates_that_arrive_before_the_wait_are_kept_in_order(harness: Harness) -> None:
    cart.start("c", owner="ann")
    sent = [flows("cart", "c").update("add", Item(name)) for name in ("tea", "cake", "jam")]
    harness.run()
    assert [each.result()["items"] for each in sent] == [1, 2, 3]
    assert flows("cart", "c").status().result == ["tea", "cake", "jam"]


def test_an_update_without_an_answer_is_received_by_the_next_generation(harness: Harness) -> None:
    rounds.start("r")
    late = flows("rounds", "r").update("late", 1)  # in the first generation, the code does not wait for it
    sent = flows("rounds", "r").update("add")
    harness.travel(1)
    assert not sent.ready()
    harness.travel(61)
    assert (sent.result(), late.result()) == (["first"], 2)
    assert flows("rounds", "r").status().state == "running"


def test_a_run_that_ends_without_an_answer_refuses_the_update_and_further_ones(harness: Harness) -> None:
    deaf.start("d")
    sent = flows("deaf", "d").update("add", id="u1")
    harness.run()
    assert "waits for no update" in sent.warning
    assert not sent.ready()
    flows("deaf", "d").event("end")
    harness.run()
    with pytest.raises(NotAnswered, match="completed"):
        sent.result()
    with pytest.raises(NotAnswered):
        flows("deaf", "d").update("add", id="u1").result()
    with pytest.raises(FlowEnded):
        flows("deaf", "d").update("add", id="u2")
    with pytest.raises(NoUpdate):
        flows("deaf", "d").sent_update("u2").result()
    with pytest.raises(NoFlow):
        flows("deaf", "e").update("add", id="u2")


def test_a_run_with_too_many_unanswered_updates_refuses_more_until_it_answers(harness: Harness) -> None:
    deaf.start("d")
    with replaced(flow_updates_max=2):
        for name in ("u1", "u2"):
            flows("deaf", "d").update("add", id=name)
        harness.run()
        with pytest.raises(TooManyUpdates):
            flows("deaf", "d").update("add", id="u3")
        assert not flows("deaf", "d").update("add", id="u2").ready()  # a repeat is accepted


def test_updates_that_a_run_could_not_refuse_at_once_are_answered_when_it_has_too_many(harness: Harness) -> None:
    """A suspended run receives nothing, so its header does not have their ids until it is resumed."""
    deaf.start("d")
    harness.run()
    flows("deaf", "d").suspend()
    with replaced(flow_updates_max=2):
        sent = [flows("deaf", "d").update("add", id=f"u{number}") for number in range(4)]
        flows("deaf", "d").resume()
        harness.run()
        for late in sent[2:]:
            with pytest.raises(Problem, match="had 2 updates that its code had not answered"):
                late.result()
    assert [update.ready() for update in sent] == [False, False, True, True]
    assert flows("deaf", "d").status().log_length == 2


def test_an_update_to_a_run_that_was_replaced_is_not_found_and_its_id_is_free(harness: Harness) -> None:
    first = flows("deaf", "d").update("add", 1, id="u1", start=deaf.starting())
    flows("deaf", "d").event("end", id="e1", start=deaf.starting(), if_exists="replace")
    with pytest.raises(NoUpdate, match="a run that has been removed"):
        first.result()
    assert not flows("deaf", "d").update("add", 2, id="u1").ready()  # another value, to another run


def test_a_retried_run_answers_an_update_once_and_receives_the_others_again(harness: Harness) -> None:
    cart.start("c", owner="ann")
    first, second = (flows("cart", "c").update("add", Item(name)) for name in ("tea", "broken"))
    harness.run()
    with pytest.raises(NotAnswered, match="retry"):
        second.result()
    ran.clear()
    flows("cart", "c").retry(0)
    harness.run()
    assert (ran, first.result()["place"]) == (["tea", "broken"], 1)  # the first answer stays
    assert flows("cart", "c").status().state == "failed"


def test_a_fork_answers_no_update_of_the_other_run(harness: Harness) -> None:
    cart.start("c", owner="ann")
    flows("cart", "c").update("add", Item("tea"), id="u1")
    harness.run()
    cart.fork("c", "f", 1, arguments={"owner": "bob"})
    harness.run()
    assert (ran, flows("cart", "c").sent_update("u1").result()["owner"]) == (["tea", "tea"], "ann")
    own = flows("cart", "f").update("add", Item("cake"))
    harness.run()
    assert own.result() == {"owner": "bob", "items": 2, "place": 3}
    with pytest.raises(NoUpdate):
        flows("cart", "f").sent_update("u1").result()


def test_a_second_answer_is_an_error_of_the_code(harness: Harness) -> None:
    own = Function("other")

    @own.flow
    async def twice() -> None:
        add = await flow.update("add")
        add.answer(1)
        add.answer(2)

    harness.add(own)
    twice.start("t")
    flows("twice", "t").update("add")
    with pytest.raises(TaskFailed, match="Answer it once"):
        harness.run()
    assert flows("twice", "t").status().state == "stuck"


def test_only_the_running_code_answers_an_update_and_no_query_does(harness: Harness) -> None:
    own, held = Function("other"), list[Any]()

    @own.flow
    async def hoarding() -> None:
        add = await flow.update("add")
        held.append(add)
        flow.answer("answered", lambda: add.answer("in a query"))
        try:
            await flow.event("end")
        finally:
            add.answer("at the end")

    harness.add(own)
    hoarding.start("h")
    sent = flows("hoarding", "h").update("add")
    harness.run()
    with pytest.raises(CannotQuery, match=r"calls `update\.answer\(\)`"):
        flows("hoarding", "h").query("answered")
    with pytest.raises(BadFlow, match="only inside the code of a flow"):
        held[-1].refuse(Problem("from outside"))
    assert not sent.ready()
    flows("hoarding", "h").event("end")
    harness.run()
    assert sent.result() == "at the end"


def test_an_abandoned_wait_gives_its_update_to_the_next_one(harness: Harness) -> None:
    own = Function("pickers")

    @own.flow
    async def picks() -> str:
        which, _ = await flow.first(stop=flow.event("stop"), add=flow.update("add"))
        again = await flow.update("add", str)
        again.answer(f"{which} {again.value}")
        await flow.event("end")
        return which

    harness.add(own)
    picks.start("p")
    flows("picks", "p").event("stop")
    sent = flows("picks", "p").update("add", "tea")
    harness.run()
    assert sent.result() == "stop tea"


# --- with a start ---


def test_an_event_starts_its_run_in_one_commit_and_later_ones_go_to_it(harness: Harness) -> None:
    run = flows("deaf", "d")
    sent = run.event("end", id="e1", start=deaf.starting())
    assert (sent.started, sent.warning) == (True, "")
    assert run.event("end", id="e1", start=deaf.starting()).started is False
    harness.run()
    assert run.status().result == "done"
    with pytest.raises(FlowEnded):
        run.event("end", id="e2", start=deaf.starting())


def test_an_update_starts_its_run_and_later_ones_go_to_it_whatever_its_arguments(harness: Harness) -> None:
    first = flows("cart", "c").update("add", Item("tea"), start=cart.starting(owner="ann"))
    second = flows("cart", "c").update("add", Item("cake"), start=cart.starting(owner="bob"))
    harness.run()
    assert (first.started, second.started) == (True, False)
    assert [each.result()["owner"] for each in (first, second)] == ["ann", "ann"]


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("if_exists", ["same", "replace_ended", "replace", "refuse"])
def test_the_caller_chooses_what_happens_if_there_is_a_run(harness: Harness, if_exists: Any, ended: bool) -> None:
    flows("cart", "c").update("add", Item("tea"), start=cart.starting(owner="ann"))
    harness.run()
    if ended:
        flows("cart", "c").terminate()
    refused = RunExists if if_exists == "refuse" else FlowEnded if ended and if_exists == "same" else None
    replaces = if_exists == "replace" or (ended and if_exists == "replace_ended")
    for _ in range(2):
        if refused:
            with pytest.raises(refused):
                flows("cart", "c").update(
                    "add", Item("jam"), id="u", start=cart.starting(owner="bob"), if_exists=if_exists
                )
            continue
        sent = flows("cart", "c").update(
            "add", Item("jam"), id="u", start=cart.starting(owner="bob"), if_exists=if_exists
        )
        harness.run()
        expected = {"owner": "bob", "items": 1, "place": 2} if replaces else {"owner": "ann", "items": 2, "place": 2}
        assert sent.result() == expected


def test_a_start_for_another_flow_is_refused(harness: Harness) -> None:
    with pytest.raises(Problem, match="for the flow deaf"):
        flows("cart", "c").update("add", start=deaf.starting())


def test_a_choice_without_a_start_is_refused_and_the_default_is_not(harness: Harness) -> None:
    deaf.start("d")
    harness.run()
    run = flows("deaf", "d")
    for choice in ("replace", "replace_ended", "refuse"):
        for send in (run.event, run.update):
            with pytest.raises(BadFlow, match="`if_exists` is a choice of a message with `start`"):
                send("x", if_exists=choice)
        for path in ("events/x", "updates/x?wait_seconds=0"):
            refused = harness.post(f"shop/flows/deaf/d/{path}", json={"if_exists": choice})
            assert (refused.status, refused.json["field"]) == (400, "if_exists")
    with pytest.raises(BadFlow, match="must be one of"):
        run.event("x", if_exists="never")  # type: ignore[arg-type]  # what is refused
    run.event("x", if_exists="same")
    for body in ({"if_exists": "same"}, {"start": {}, "if_exists": "replace_ended"}):
        assert harness.post("shop/flows/deaf/d/events/x", json=body).status == 202


def test_a_warning_also_names_the_messages_of_the_other_kind(harness: Harness) -> None:
    flows("cart", "c").update("add", Item("tea"), start=cart.starting(owner="ann"))
    harness.run()
    run = flows("cart", "c")
    assert run.event("add").warning.endswith("is kept. It waits for no event, but for the update `add`.")
    assert run.update("ad").warning.endswith("is kept. It waits for `add`.")
    deaf.start("d")
    harness.run()
    sent = flows("deaf", "d").update("end", id="u1")
    assert sent.warning.endswith("It waits for no update, but for the event `end`.")
    assert repr(sent) == f"<SentUpdate u1 of deaf/d, started=False, warning={sent.warning!r}>"
    assert repr(flows("deaf", "d")) == "<FlowRun deaf/d>"
    with pytest.raises(NotReady, match=r"wait for it\. The code does not wait for the update `end` now"):
        sent.result()


def test_an_event_that_nothing_waits_for_warns_its_sender(harness: Harness) -> None:
    deaf.start("d")
    harness.run()
    sent = flows("deaf", "d").event("ende")
    assert sent.warning == (
        "The code does not wait for the event `ende` now, so the event is kept. It waits for `end`."
    )
    assert flows("deaf", "d").event("end").warning == ""
