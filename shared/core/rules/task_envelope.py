"""The JSON body of every task: what Cloud Tasks carries from the outbox to a function.

{"operation": id, "task": name, "payload": {…}}, and "lease", "unit" or "batch" if the task runs for one
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from shared.core.rules.effects import Effect, Json
from shared.core.rules.problems import BadTaskEnvelope


@dataclass(frozen=True, slots=True)
class TaskEnvelope:
    """`operation` identifies the task in every delivery, ``name`` is its ``task``, ``context`` what it runs for."""

    operation: str
    name: str
    payload: Mapping[str, Any]
    context: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, effect: Effect) -> Self:
        """Return the envelope of an effect. Its operation is the effect's name."""
        return cls(effect.name, effect.task, effect.payload, effect.context)

    def to_json(self) -> dict[str, Any]:
        """Return the body of the task."""
        return {"operation": self.operation, "task": self.name, "payload": self.payload, **self.context}

    @classmethod
    def from_json(cls, body: Json) -> Self:
        """Parse the body of a task. Raises `BadTaskEnvelope`."""
        match body:
            case {"operation": str(operation), "task": str(name), "payload": dict(payload), **context}:
                return cls(operation, name, payload, {str(kind): value for kind, value in context.items()})
        raise BadTaskEnvelope('A task\'s body is {"operation": …, "task": …, "payload": {…}}.')
