"""Faults of the local services, read from text and drawn from a seed."""

import random
from typing import Any

import pytest
from google.cloud.tasks_v2.types import cloudtasks

from signalbox_tools.local.injected_faults import Chaos, parse

CreateTaskRequest: Any = cloudtasks.CreateTaskRequest.pb()


def test_faults_are_read_from_text_and_a_seed_repeats_their_draws() -> None:
    chaos = parse("twice=0.5, lose_answers=1,seed=7")
    assert chaos == Chaos(twice=0.5, lose_answers=1)
    assert chaos.loses_answer()
    draws = [parse("twice=0.5,seed=7").second_delivery_seconds() for _ in range(2)]
    assert draws[0] == draws[1]
    assert parse("") == Chaos()
    assert Chaos(draw=random.Random(1)).delay_seconds() == 0


def test_a_late_delivery_and_one_out_of_order_stay_within_their_limits() -> None:
    for faults, seconds_max in (("late=1", 3.0), ("reorder=1", 0.3), ("late=1,reorder=1", 3.3)):
        chaos = parse(faults + ",seed=7")
        delays = [chaos.delay_seconds() for _ in range(100)]
        assert 0 <= min(delays) < seconds_max / 4
        assert seconds_max / 2 < max(delays) <= seconds_max


@pytest.mark.parametrize("text", ["twiced=1", "late=2", "late=x", "late"])
def test_an_unknown_fault_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(text)
