"""The outcome of a call: a result, an object, or an error. Whoever asks for the call's result gets it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.effects import Json
from shared.core.rules.problems import Problem
from shared.objects.rules.addresses import ObjectAddress


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended. `error` has the members of a problem; `object` is a result that is an object."""

    result: Json = None
    error: Mapping[str, Any] | None = None
    object: ObjectAddress | None = None

    @classmethod
    def from_problem(cls, problem: Problem) -> Self:
        """Return the outcome of a call that raised."""
        shown = {"type": problem.slug(), "title": problem.title, "status": problem.status, "detail": problem.detail}
        return cls(error=shown)

    def to_json(self) -> dict[str, Any]:
        """Return the outcome as people and continuations see it."""
        if self.error is not None:
            return {"error": dict(self.error)}
        return {"object": self.object.to_json()} if self.object else {"result": self.result}

    def to_text(self) -> str:
        """Return the outcome as a record holds it."""
        return json.dumps(self.to_json())

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Undo `to_json`."""
        address = ObjectAddress.from_json(value["object"]) if "object" in value else None
        return cls(value.get("result"), value.get("error"), address)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Undo `to_text`."""
        return cls.from_json(json.loads(text))
