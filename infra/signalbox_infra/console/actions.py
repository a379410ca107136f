"""What the console can do: each action is one call of the HTTP API, which a button of the page sends.

The local stack's console has them all. That of a deployment has none unless it is started with ``--act``; then its
relay forwards exactly these calls, with gcloud's identity, and logs each with its reason.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REASON_HEADER = "X-Signalbox-Reason"
"""A reason that the person gave, percent-encoded. The relay logs it; only some calls also have it as a field."""

BODY_BYTES_MAX = 100 * 1024


@dataclass(frozen=True, slots=True)
class Action:
    """A call of the API. `path` names its parts; `effect` is what the dialog says before it is confirmed.

    `reason` is where the call has a field for the reason: in its ``body``, its ``query``, or nowhere. `value` names the
    field of the body that the person writes as JSON.
    """

    title: str
    method: str
    path: str
    effect: str
    reason: str = ""
    value: str = ""

    def matches(self, method: str, segments: Sequence[str]) -> bool:
        """Return whether a request, by the segments of its path, is this call."""
        parts = self.path.split("/")[1:]
        named = (part == segment or part.startswith("{") for part, segment in zip(parts, segments, strict=False))
        return self.method == method and len(parts) == len(segments) and all(named)

    def shown(self) -> Mapping[str, Any]:
        """Return the action for the page."""
        names = re.findall(r"\{(\w+)\}", self.path)
        shown = {"title": self.title, "method": self.method, "path": self.path, "effect": self.effect}
        return {**shown, "names": names, "reason": self.reason, "value": self.value}


RUN = "/{function}/flows/{flow}/{id}"

ACTIONS: Mapping[str, Action] = {
    "cancel": Action(
        "Cancel",
        "POST",
        f"{RUN}/cancel",
        "The run's code receives the cancel at its next await and can clean up. What the run has done remains.",
        reason="body",
    ),
    "resume": Action(
        "Resume", "POST", f"{RUN}/resume", "The run is replayed now: after a deployment of fixed code it continues."
    ),
    "terminate": Action(
        "Terminate",
        "POST",
        f"{RUN}/terminate",
        "The run ends at once without a clean-up of its code. Its locks and leases are released, its sub-flows end.",
        reason="body",
    ),
    "send": Action(
        "Send an event",
        "POST",
        f"{RUN}/events/{{name}}",
        "The event is kept until the run waits for it.",
        value="value",
    ),
    "retry-failure": Action(
        "Retry", "POST", "/failures/{id}/retry", "The task is enqueued again with the same payload."
    ),
    "delete-failure": Action(
        "Delete", "DELETE", "/failures/{id}", "The entry is deleted. The task will not run, and its payload is lost."
    ),
    "cancel-batch": Action(
        "Cancel",
        "DELETE",
        "/batches/{id}",
        "No further unit starts, and the sub-batches of its units are cancelled, too. Its completion task runs.",
    ),
    "retry-batch": Action(
        "Retry failed units", "POST", "/batches/{id}/retry", "All units that failed run again, with the same payloads."
    ),
    "end-lease": Action(
        "End the lease",
        "DELETE",
        "/semaphores/{name}/leases/{id}",
        "The permit goes to the next waiter, although the holder may still work: it is not stopped.",
        reason="query",
    ),
}


def action_of(method: str, segments: Sequence[str]) -> str | None:
    """Return the name of the action that a request is; None if it is none of them."""
    return next((name for name, action in ACTIONS.items() if action.matches(method, segments)), None)
