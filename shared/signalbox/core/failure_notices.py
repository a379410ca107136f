"""Notices of failures that wait for a person: the tasks that run a function's `on_failure`.

A notice is written in the commit that makes the flow stuck, ends the run or the batch, or keeps the failure of the
task. So it exists if and only if that commit landed, and is delivered at least once. Only a function whose code has an
`on_failure` receives notices; the catalogue lists the task of this code under one name, which is the kit's own.
"""

from typing import Any, Literal

from signalbox.core.calls import declared_parameters
from signalbox.core.effects import Effect, name_of
from signalbox.core.kit_names import FAILURE_NOTICE_TASK, TASKS_QUEUE
from signalbox.core.lazy_dataclasses import dataclass

DETAIL_LETTERS_MAX = 2_000
"""Characters of a notice's detail: it is a message, and the record of the failure has the rest."""


@dataclass(frozen=True, slots=True)
class FailureNotice:
    """A failure that waits for a person.

    - `subject`: the kind of what has failed.
    - `reason`: ``stuck`` if it continues by itself once fixed code is deployed, ``failed`` if it has ended.
    - `name`: the name of the flow, the class or the task; empty for a batch.
    - `id`: the id of the run, the object or the batch. For a task and the call of an object, the id of the failure, by
      which it is retried.
    - `problem`, `detail`: the type of the problem, and its message.
    - `place`: the location in the code of a flow that is stuck: ``main.py:12 in checkout``.
    - `locks`: the semaphores whose locks a stuck flow holds.
    """

    subject: Literal["task", "flow", "object", "batch"]
    reason: Literal["stuck", "failed"]
    name: str
    id: str
    problem: str
    detail: str
    place: str = ""
    locks: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the notice as the argument of its task."""
        members = "subject", "reason", "name", "id", "problem", "place"
        detail, locks = self.detail[:DETAIL_LETTERS_MAX], list(self.locks)
        return {**{name: getattr(self, name) for name in members}, "detail": detail, "locks": locks}

    def tasks(self, function: str, *parts: object) -> tuple[Effect, ...]:
        """Return the task that runs the `on_failure` of a function, named after `parts`.

        Return nothing if the function has no `on_failure`.
        """
        if FAILURE_NOTICE_TASK not in declared_parameters().get(function, {}):
            return ()
        name, payload = name_of("failure notice", function, *parts), {"notice": self.to_json()}
        return (Effect(name, TASKS_QUEUE, function, FAILURE_NOTICE_TASK, payload, f"/tasks/{FAILURE_NOTICE_TASK}"),)
