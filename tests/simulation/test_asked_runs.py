"""What callers of a run see is what the pages say: small lists of requests, each compared with the model."""

from collections.abc import Sequence

import pytest

from signalbox.flows.service import sends
from tests.simulation.worlds.asked_runs.compared import Act, difference, shrunk
from tests.simulation.worlds.asked_runs.model import REPLACE, REPLACE_ENDED, SAME, Message, Script

SETTLE = Act("settle")


def update(id_: str, value: int = 1, script: Script | None = None, if_exists: str = SAME) -> Act:
    return Act("send", Message("update", "a", value, id_), script, if_exists)


def event(id_: str) -> Act:
    return Act("send", Message("event", "c", 1, id_))


ANSWERS: Script = (("update", "a"), ("answer",))

HELD: dict[str, Sequence[Act]] = {
    "a repeat after the end receives the answer": [update("m0", script=ANSWERS), SETTLE, update("m0"), SETTLE],
    "an update in hand is passed on before a later one": [
        update("m0", script=(("update", "a"), ("again",), ("update", "a"), ("answer",))),
        update("m1"),
        SETTLE,
    ],
    "a burst is answered up to the limit": [
        update("m0", script=(("event", "c"),)),
        *(update(f"m{number}") for number in range(1, 6)),
        SETTLE,
    ],
    "a burst of events that nothing waits for is kept up to the limit, and the others are refused": [
        update("m0", script=(("update", "a"), ("update", "b"), ("event", "c"), ("event", "c"), ("event", "c"))),
        SETTLE,
        *(event(f"e{number}") for number in range(4)),
        SETTLE,
        event("e0"),
        event("e3"),
        SETTLE,
        Act("send", Message("update", "b", 1, "m1")),
        SETTLE,
        event("e4"),
        SETTLE,
    ],
    "an update that arrived before the end is answered after a retry": [
        update("m0", script=(("break",), ("update", "a"), ("answer",))),
        SETTLE,
        Act("mend"),
        SETTLE,
    ],
    "an ended run is replaced once by a message": [
        update("m0", script=ANSWERS),
        SETTLE,
        update("m1", script=ANSWERS, if_exists=REPLACE_ENDED),
        update("m1", script=ANSWERS, if_exists=REPLACE_ENDED),
        SETTLE,
    ],
    "a cancel comes before what was not received": [update("m0", script=ANSWERS), Act("cancel"), SETTLE],
    "an id is free once its run is replaced": [
        update("m0", script=ANSWERS),
        update("m1", script=ANSWERS, if_exists=REPLACE),
        update("m0", 2),
        SETTLE,
    ],
}


@pytest.mark.parametrize("what", HELD)
def test_the_kit_agrees_with_the_model(what: str) -> None:
    assert difference(iter(HELD[what])) is None


def test_a_difference_is_shrunk_to_a_small_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acts before, and the operations of the script, do not matter."""
    monkeypatch.setattr(sends, "warning_of", lambda *_: "")
    acts = [update("m0", script=(("update", "a"), ("event", "c"))), SETTLE, Act("suspend"), Act("resume"), SETTLE]
    found = difference(iter([*acts, update("m1"), SETTLE]))
    assert found is not None
    assert [str(act) for act in shrunk(found).acts] == [
        "update a 1 id=m0, start=[['event', 'c']], if_exists=same",
        "settle",
        "update a 1 id=m1",
    ]
