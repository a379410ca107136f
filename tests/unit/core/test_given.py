"""Members that are None are left out, and no others."""

from signalbox.core.given import given


def test_members_that_are_none_are_left_out() -> None:
    assert given(size=1, task=None, rate=None) == {"size": 1}


def test_empty_members_are_kept_unless_the_caller_makes_them_none() -> None:
    assert given(size=0, prefix="", labels={}, paused=False) == {"size": 0, "prefix": "", "labels": {}, "paused": False}
    assert given(prefix="" or None, labels={} or None) == {}


def test_members_keep_their_order() -> None:
    assert list(given(b=1, a=2, c=None, d=3)) == ["b", "a", "d"]
