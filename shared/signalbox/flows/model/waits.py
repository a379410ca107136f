"""The waits of a flow's code: a command at a path of an execution, and the claim of an inline step."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.times import rfc3339


@dataclass(frozen=True, slots=True)
class Wait:
    """One wait of a flow's code: the command at `path` of an execution, on its current attempt.

    - `path` is the number of the `await` in its branch, then the position in the awaited group, and so on.
    - `signature` is the command's kind and name. The header and the log have it.
    - `scheduled_at` is the time of the turn that scheduled it. Only the header has it.
    - `child` is the id that the code has given to a sub-flow, and empty for a generated id. Only the header has it.
    - `last_error` is the error of the previous attempt. Only the header has it.

    Tasks and messages have only the other three fields.
    """

    execution_id: str
    path: str
    attempt: int = 1
    signature: str = ""
    scheduled_at: str = ""
    child: str = ""
    last_error: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the members that identify the wait in messages and in payloads of tasks."""
        return {"life": self.execution_id, "path": self.path, "attempt": self.attempt}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        return cls(str(value["life"]), str(value["path"]), int(value["attempt"]))

    def shown_attempts(self) -> dict[str, Any]:
        """Return the attempt's number and the error of the previous attempt, or nothing for the first attempt."""
        return {"attempt": self.attempt, "last_error": self.last_error} if self.attempt > 1 else {}


@dataclass(frozen=True, slots=True)
class Claim:
    """The right of one delivery to run the code of an inline step until a time.

    The delivery extends it while the code runs. `starts` counts the starts of the current attempt, including those of
    deliveries that died. After an `error` other than a `Problem` the claim has no delivery, and the code is not started
    before `until`.
    """

    delivery: str
    starts: int
    until: datetime
    error: str = ""

    def to_json(self) -> list[Any]:
        return [self.delivery, self.starts, rfc3339(self.until), *([self.error] if self.error else [])]

    @classmethod
    def from_json(cls, value: Sequence[Any]) -> Self:
        delivery, starts, until, *error = value
        return cls(delivery, starts, datetime.fromisoformat(until), *error)
