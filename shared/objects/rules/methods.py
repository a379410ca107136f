"""What a method's run leaves: the state after it, its outcome, and what it sent. All of it counts, or nothing.

The user's class stands behind `Apply`. A method that raises leaves the state as it was and sends nothing: its error is
the outcome. `Unavailable` is no outcome: the call comes again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from shared.core.rules.calls import Call
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.messages import Message
from shared.objects.rules.outcomes import CallOutcome


@dataclass(frozen=True, slots=True)
class Post:
    """A message that a method sends to an object, perhaps its own; `delay_seconds` after the turn."""

    address: ObjectAddress
    message: Message
    delay_seconds: float = 0


@dataclass(slots=True)
class Sent:
    """What a method has sent so far, in order."""

    posts: list[Post] = field(default_factory=list)
    tasks: list[Call] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Applied:
    """The state as text after a call, None if the object is deleted."""

    state: str | None
    outcome: CallOutcome
    sent: Sent = field(default_factory=Sent)


Apply = Callable[[ObjectAddress, str | None, Message, datetime], Applied]
"""Run a method on a state, at the server's time: a pure function of these. Raises `Unavailable`."""
