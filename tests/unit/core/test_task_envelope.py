"""What a queue carries to a function is what the effect said."""

from typing import Any

import pytest

from signalbox.core.effects import Effect, TaskEnvelope
from signalbox.core.problems import BadTaskEnvelope


def test_an_envelope_comes_back_as_it_was_sent() -> None:
    envelope = TaskEnvelope("op", "cook", {"dish": [1, None]}, {"unit": {"batch": "b", "index": 0, "attempt": 1}})
    assert TaskEnvelope.from_json(envelope.to_json()) == envelope


def test_the_name_of_an_effect_is_the_operation_of_its_envelope() -> None:
    effect = Effect("n", "tasks", "kitchen", "cook", {"a": 1}, "/tasks/cook", context={"lease": {}})
    assert TaskEnvelope.of(effect).to_json() == {"operation": "n", "task": "cook", "payload": {"a": 1}, "lease": {}}


@pytest.mark.parametrize(
    "body", [None, [], {}, {"operation": "o", "task": "t"}, {"operation": 1, "task": "t", "payload": {}}]
)
def test_another_body_is_refused(body: Any) -> None:
    with pytest.raises(BadTaskEnvelope):
        TaskEnvelope.from_json(body)
