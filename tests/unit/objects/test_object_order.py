"""The order of related calls: those that one method sends, and those on one result."""

from signalbox.core.limits import LIMITS
from signalbox.objects.model import call_on_result, method_call
from signalbox.testing.replaced_limits import replaced
from tests.unit.objects.accounts import Objects, result_of
from tests.unit.operations_platform import OperationsPlatform


def test_calls_that_one_method_sends_take_effect_in_the_order_sent() -> None:
    objects = Objects(OperationsPlatform())
    objects.call("a", "c", "tell_all", other="b", names=list("abcdefghijkl"))
    objects.run_all()
    assert objects.state("b")["seen"] == list("abcdefghijkl")


def test_a_call_on_a_result_does_not_overtake_one_that_is_held_for_it() -> None:
    objects = Objects(OperationsPlatform())
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=60)
    objects.post("a", "held", call_on_result("opened", "add", {"who": "held"}))
    objects.world.pass_time(1)
    objects.run(objects.wake_ups()[0])
    objects.world.pass_time(60)
    objects.post("a", "late", call_on_result("opened", "add", {"who": "late"}))
    objects.run_all()
    assert objects.state("b")["seen"] == ["held", "late"]


def test_calls_that_wait_again_keep_their_order_where_a_page_holds_only_some_of_them() -> None:
    objects = Objects(OperationsPlatform())
    objects.post("a", "opened", method_call("open", {"other": "b"}), delay_seconds=60)
    for who in "zyxw":
        objects.post("a", who, call_on_result("opened", "add", {"who": who}))
        objects.world.pass_time(1)
    with replaced(mailbox_page=2):
        objects.run_all()
    assert objects.state("b")["seen"] == list("zyxw")


def test_a_call_does_not_pass_one_for_later_that_is_due_so_soon_that_it_may_hide_another() -> None:
    objects = Objects(OperationsPlatform())
    objects.call("a", "first", "add", who="first")
    objects.post("a", "soon", method_call("add", {"who": "soon"}), delay_seconds=LIMITS.since_ahead_seconds)
    assert objects.call("a", "behind", "add", who="behind").outcome is None
    objects.run_all()
    objects.post("a", "later", method_call("add", {"who": "later"}), delay_seconds=5)
    assert result_of(objects.call("a", "before", "add", who="before")) == 4
