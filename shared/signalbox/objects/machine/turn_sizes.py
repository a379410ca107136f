"""The sizes of an object's turn, and whether they fit into one commit."""

from collections.abc import Sequence
from typing import Self

from signalbox.core.calls import Call
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.mailboxes.limits import LIMITS as MAILBOXES_LIMITS
from signalbox.objects.limits import LIMITS
from signalbox.objects.model import Applied, call_bytes


@dataclass(frozen=True, slots=True)
class Size:
    """A share of a commit. `task_bytes` counts the bytes of the tasks, which share one outbox record.

    `payload_bytes` counts the contents of payloads, which are in memory until the commit.
    """

    writes: int = 0
    tasks: int = 0
    size_bytes: int = 0
    task_bytes: int = 0
    payload_bytes: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(
            self.writes + other.writes,
            self.tasks + other.tasks,
            self.size_bytes + other.size_bytes,
            self.task_bytes + other.task_bytes,
            self.payload_bytes + other.payload_bytes,
        )

    @property
    def fits(self) -> bool:
        """Whether one turn may commit this much."""
        return (
            self.writes <= MAILBOXES_LIMITS.turn_writes_max
            and self.tasks <= MAILBOXES_LIMITS.turn_tasks_max
            and self.size_bytes <= LIMITS.turn_bytes_max
            and self.task_bytes <= LIMITS.turn_task_bytes_max
            and self.payload_bytes <= LIMITS.turn_payload_bytes_max
        )

    @classmethod
    def of(cls, applied: Applied, then: Sequence[Call]) -> Self:
        """Return the largest share that a call and its continuations take. Each continuation receives the outcome."""
        outcome, sent = len(applied.outcome.to_text()), applied.sent
        posts = sum(post.message.size_bytes for post in sent.posts)
        sent_bytes = list(map(call_bytes, sent.tasks))
        tasks = sum(min(each, CORE_LIMITS.task_bytes_max) for each in sent_bytes)  # the names of larger ones fit
        tasks += sum(call_bytes(call) + outcome for call in then)
        payloads = applied.outgoing.size_bytes + sum(each for each in sent_bytes if each > CORE_LIMITS.task_bytes_max)
        count = len(sent.tasks) + len(then) + len(sent.posts)  # each post may need a wake-up
        return cls(1 + len(sent.posts), count, outcome + posts + tasks, tasks, payloads)
