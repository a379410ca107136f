"""A task that gives its permit back between its attempts: it waits anew, and its next attempt goes on with the count.

The wait's id is derived from the grant that it follows, so whatever delivery makes it, it is the same wait.
"""

from collections.abc import Mapping
from typing import Any

from shared.core.rules.effects import name_of
from shared.semaphores.rules.requests import WaitRequest
from shared.tasks.rules.attempts import Attempt

ASKED = ("permits", "lease_seconds", "release_on_return", "release_on_failure", "holder")


def asked(lease: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the wait asked for that was granted this lease."""
    return {name: lease[name] for name in ASKED if name in lease}


def next_wait_id(granted: Mapping[str, Any]) -> str:
    """Return the id of the wait that follows a grant."""
    return name_of("after a failure", granted["semaphore"], granted["id"])


def next_wait(attempt: Attempt) -> WaitRequest:
    """Return the wait for the next attempt. Once granted it pauses, as the queue would have."""
    granted = attempt.context["lease"]
    call = attempt.call.after(attempt.pause_seconds)
    counts = {"resumes": attempt.operation, "resumed": granted.get("resumed", 0) + 1}
    return WaitRequest(next_wait_id(granted), call, **asked(granted), **counts)
