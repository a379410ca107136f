"""How much of a commit something takes: a turn ends before the call that no longer fits."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from shared.core.rules.calls import Call
from shared.core.rules.limits import LIMITS
from shared.objects.rules.methods import Applied, Post


@dataclass(frozen=True, slots=True)
class Size:
    """Writes and tasks of a commit, the bytes of both, and those of the tasks alone, which share an outbox record."""

    writes: int = 0
    tasks: int = 0
    size_bytes: int = 0
    task_bytes: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.writes + other.writes,
            self.tasks + other.tasks,
            self.size_bytes + other.size_bytes,
            self.task_bytes + other.task_bytes,
        )

    @property
    def fits(self) -> bool:
        """Return whether one turn may commit so much."""
        return (
            self.writes <= LIMITS.turn_writes_max
            and self.tasks <= LIMITS.turn_tasks_max
            and self.size_bytes <= LIMITS.turn_bytes_max
            and self.task_bytes <= LIMITS.turn_task_bytes_max
        )

    @classmethod
    def of(cls, applied: Applied, then: Sequence[Call]) -> Self:
        """Return what a call's run and its continuations, each with the outcome, take at most."""
        outcome, sent = len(applied.outcome.to_text()), applied.sent
        posts = sum(map(_post_bytes, sent.posts))
        tasks = sum(map(_call_bytes, sent.tasks)) + sum(_call_bytes(call) + outcome for call in then)
        count = len(sent.tasks) + len(then) + len(sent.posts)  # each post may need a wake-up
        return cls(1 + len(sent.posts), count, outcome + posts + tasks, tasks)


def _post_bytes(post: Post) -> int:
    return len(json.dumps(post.message.body)) + sum(map(_call_bytes, post.message.then))


def _call_bytes(call: Call) -> int:
    return len(json.dumps(call.payload))
