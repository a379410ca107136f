"""The actions of the console: each is one call of the HTTP API, which a button of the page sends.

The local stack's console has them all. The console of a deployment has none unless it is started with ``--act``; then
its relay forwards exactly these calls, with gcloud's identity, and logs each with its reason.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from signalbox.core.given import given

REASON_HEADER = "X-Signalbox-Reason"
"""A reason that the person gave, percent-encoded. The relay logs it; only some calls also have it as a field."""

BODY_BYTES_MAX = 100 * 1024


@dataclass(frozen=True, slots=True)
class Action:
    """A call of the API.

    - `path` has the names of its variable parts.
    - `effect` is the text of the dialog that confirms it.
    - `reason` is the place of the reason, if the call has a field for it: its ``body`` or its ``query``.
    - `value` names the field of the body that the person writes as JSON. ``*`` means the whole body, which is at first
      the value on the page.
    - `fields` are further fields of the body. A field is a number if its name is in `NUMBERS`, otherwise a text.
    - `is_of_seen` is whether the call is made only if the resource still has the entity tag that the page showed.
    - `previews` is whether the dialog first shows the answer to a dry run, which lists what is dropped and runs again.
    - `answers` is whether the dialog shows the answer.
    - `on_all` is the `action` by which one call of `ACT_ON_RUNS` does the same on all runs that match.
    """

    title: str
    method: str
    path: str
    effect: str
    reason: str = ""
    value: str = ""
    is_of_seen: bool = False
    fields: tuple[str, ...] = ()
    previews: bool = False
    answers: bool = False
    on_all: str = ""

    def matches(self, method: str, segments: Sequence[str]) -> bool:
        """Return whether a request, by the segments of its path, is this call."""
        parts = self.path.split("/")[1:]
        named = (part == segment or part.startswith("{") for part, segment in zip(parts, segments, strict=False))
        return self.method == method and len(parts) == len(segments) and all(named)

    def shown(self) -> Mapping[str, Any]:
        """Return the action for the page."""
        names = re.findall(r"\{(\w+)\}", self.path)
        shown: dict[str, Any] = {"title": self.title, "method": self.method, "path": self.path, "effect": self.effect}
        fields = [{"name": name, "number": name in NUMBERS} for name in self.fields]
        shown |= given(
            fields=fields or None,
            previews=self.previews or None,
            answers=self.answers or None,
            on_all=self.on_all or None,
        )
        return {**shown, "names": names, "reason": self.reason, "value": self.value, "seen": self.is_of_seen}


WHOLE = "*"

NUMBERS = ("from_entry",)

RUN = "/{function}/flows/{flow}/{id}"

ACT_ON_RUNS = "act-on-runs"
"""The action on all runs that match. The page calls it instead of an action on each run that has an `on_all`."""

ACTIONS: Mapping[str, Action] = {
    "cancel": Action(
        "Cancel",
        "POST",
        f"{RUN}/cancel",
        "The run's code receives the cancel at its next await and can clean up. Its effects so far remain.",
        reason="body",
        on_all="cancel",
    ),
    "resume": Action(
        "Resume",
        "POST",
        f"{RUN}/resume",
        "A suspended run continues. A stuck one is replayed now: with fixed code it continues.",
        on_all="resume",
    ),
    "suspend": Action(
        "Suspend",
        "POST",
        f"{RUN}/suspend",
        "The run takes no further step until it is resumed. Events and outcomes are kept; its tasks run.",
        reason="body",
    ),
    "fork": Action(
        "Fork",
        "POST",
        f"{RUN}/fork",
        "Another run begins with the first entries of this log. Commands pending there run again, in that run.",
        fields=("id", "from_entry"),
    ),
    "retry": Action(
        "Retry",
        "POST",
        f"{RUN}/retry",
        "The run continues in place, under its id: the failed commands of its last await run again, all else stays.",
        reason="body",
        previews=True,
        on_all="retry",
    ),
    "retry-from": Action(
        "Retry from here",
        "POST",
        f"{RUN}/retry",
        "The run continues in place, under its id, after the first `from_entry` entries of its log. The entries behind "
        "them are dropped. Their effects (steps, locks, sub-flows, messages, callbacks) are not undone; "
        "their events and updates are received again.",
        reason="body",
        fields=("from_entry",),
        previews=True,
    ),
    "terminate": Action(
        "Terminate",
        "POST",
        f"{RUN}/terminate",
        "The run ends at once without a clean-up of its code. Its locks and leases are released, its sub-flows end.",
        reason="body",
        on_all="terminate",
    ),
    "send": Action(
        "Send an event",
        "POST",
        f"{RUN}/events/{{name}}",
        "The event is kept until the run waits for it.",
        value="value",
    ),
    "update": Action(
        "Send an update",
        "POST",
        f"{RUN}/updates/{{name}}",
        "The run's code receives it when it waits for it, and answers it. The answer is shown here.",
        value="value",
        answers=True,
    ),
    "delete-run": Action(
        "Delete", "DELETE", RUN, "The run and its log are removed. Its id is free for another run.", on_all="delete"
    ),
    ACT_ON_RUNS: Action(
        "All that match",
        "POST",
        "/{function}/flows/{flow}/:act",
        "A batch resumes, retries, cancels, terminates or deletes each run that matches now.",
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
        "No further unit starts, and the sub-batches of its units are also cancelled. Its completion task runs.",
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
    "pause-semaphore": Action(
        "Pause",
        "POST",
        "/semaphores/{name}/pause",
        "No permit is granted until it is resumed. Leases continue, and waiters keep their places.",
    ),
    "resume-semaphore": Action(
        "Resume",
        "POST",
        "/semaphores/{name}/resume",
        "Free permits are granted again, to those that wait first.",
    ),
    "pause-rate": Action(
        "Pause", "POST", "/rates/{name}/pause", "No permit is granted until it is resumed. Waits keep their places."
    ),
    "resume-rate": Action(
        "Resume", "POST", "/rates/{name}/resume", "Permits are granted again, to those that wait first."
    ),
    "edit-document": Action(
        "Edit",
        "PUT",
        "/documents/{key}",
        "Your text replaces the document, unless it has changed since. Edits inside of a link's copy have no effect.",
        value=WHOLE,
        is_of_seen=True,
    ),
    "delete-document": Action(
        "Delete",
        "DELETE",
        "/documents/{key}",
        "The document is deleted, unless it has changed since. Documents that link to it are marked.",
        is_of_seen=True,
    ),
    "restore-version": Action(
        "Restore",
        "POST",
        "/documents/{key}/versions/{version}/restore",
        "The document gets the content of this version.",
    ),
    "delete-object": Action(
        "Delete",
        "DELETE",
        "/{function}/objects/{class}/{key}",
        "The object is deleted after the calls that wait for it.",
    ),
    "pause-queue": Action(
        "Pause",
        "POST",
        "/console/queues/{queue}/pause",
        "No further task of the queue is delivered until it is resumed. New ones are kept.",
    ),
    "resume-queue": Action(
        "Resume", "POST", "/console/queues/{queue}/resume", "The tasks that are due are delivered, within its rate."
    ),
    "pause-schedule": Action(
        "Pause",
        "POST",
        "/console/schedules/{schedule}/pause",
        "The schedule calls nothing until it is resumed. Its times meanwhile are left out; a backfill makes up for "
        "them.",
    ),
    "resume-schedule": Action(
        "Resume", "POST", "/console/schedules/{schedule}/resume", "The schedule calls again from its next time on."
    ),
}

OF_QUEUES, OF_SCHEDULES = ("pause-queue", "resume-queue"), ("pause-schedule", "resume-schedule")
"""Calls of the console's server, since queues and schedules are not part of the HTTP API."""


def action_of(method: str, segments: Sequence[str]) -> str | None:
    """Return the name of a request's action, or None if it is not an action."""
    return next((name for name, action in ACTIONS.items() if action.matches(method, segments)), None)


def logged_body(name: str | None, body: Callable[[], bytes]) -> Mapping[str, Any]:
    """Return the part of an action's body that is logged.

    It is the whole body of `ACT_ON_RUNS`, whose address does not name its effect. A body that cannot be parsed is not
    logged; the function refuses it.
    """
    if name != ACT_ON_RUNS:
        return {}
    try:
        return {"asked": json.loads(body())}
    except (ValueError, RecursionError):
        return {}
