"""The outcome of a call: a result, an object, or an error. Whoever asks for the call's result gets it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.effects import Json
from shared.core.rules.problems import MethodFailed, Problem
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

    def problem(self) -> Problem | None:
        """Return the error as a problem of the class it was raised as, if this process knows that class."""
        if self.error is None:
            return None
        kind = _problem_classes().get(str(self.error.get("type")), MethodFailed)
        problem = kind(str(self.error.get("detail")))
        problem.status, problem.title = int(self.error["status"]), str(self.error["title"])
        return problem

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


def _problem_classes() -> dict[str, type[Problem]]:
    """Return all classes of problems by slug, those of users' functions included."""
    found, left = {}, [Problem]
    while left:
        each = left.pop()
        found[each.slug()] = each
        left += each.__subclasses__()
    return found
