"""One action on all runs that match: cancel, resume, retry, terminate or delete, as a batch with a unit for each run.

    count ──► create the batch, open ──► list the runs by id, a page of units at a time ──► seal ──► units act ──► …

The runs are listed once, in the order of their ids, while the request waits. If its process dies, a repeat under the
same key continues after the last id that the batch has, so each run is in the batch once. A unit acts on a run that
existed at the request, and only if it still matches; otherwise it skips the run. A second delivery of a unit finds that
its run has been cancelled (under an id made of the batch's), ended, resumed or removed.
"""

from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from signalbox.batches.model.headers import Header, header_of
from signalbox.batches.model.pages import Page
from signalbox.batches.model.tree import BATCH_IDS, BatchRun
from signalbox.batches.model.tree import header_path as batch_path
from signalbox.batches.problems import BatchSealed, PageOutOfOrder
from signalbox.batches.requests import BatchSpec, SealRequest
from signalbox.batches.service import lifecycle, pages, population
from signalbox.batches.storage import count_loaded
from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.kit_names import ACT_ON_RUN
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.ports import Ports, Snapshot
from signalbox.core.problems import OtherBody, Problem, Unavailable
from signalbox.core.times import rfc3339
from signalbox.flows import sweep
from signalbox.flows.limits import LIMITS
from signalbox.flows.model.addresses import FlowAddress
from signalbox.flows.model.definitions import Flows
from signalbox.flows.model.headers import FAILED, STUCK, FlowHeader
from signalbox.flows.problems import BadFlow, CannotRetry, NoFlow, TooManyRuns
from signalbox.flows.service.lists import Runs, count_flows
from signalbox.flows.service.messages import cancel
from signalbox.flows.service.retries import RetryOptions, retry
from signalbox.flows.service.suspensions import resume
from signalbox.flows.storage.commits import header_of as flow_of
from signalbox.mailboxes.model.messages import header_path

DONE, SKIPPED = "done", "skipped"
"""The results of a unit: the run was acted on, or it no longer matched."""

NO_FLOWS = Flows("")

Act = Callable[[Ports, Flows, FlowAddress, Mapping[str, Any]], object]

ACTIONS: Mapping[str, Act] = {
    "cancel": lambda ports, _, run, of: cancel(ports, run, of["reason"], f"{of['batch']} {run.key}"),
    "resume": lambda ports, _, run, __: resume(ports, run),
    "retry": lambda ports, flows, run, of: retry(
        ports, flows, run, f"{of['batch']} {run.key}", RetryOptions(reason=of["reason"])
    ),
    "terminate": lambda ports, _, run, of: sweep.terminate(ports, run, of["reason"]),
    "delete": lambda ports, _, run, __: sweep.delete(ports, run),
}
"""The actions on all runs that match, by name."""


@dataclass(frozen=True, slots=True)
class ActionOnRuns:
    """An action on all runs that match. Raises `BadFlow` for an unknown action, or if nothing chooses the runs."""

    action: str
    runs: Runs
    reason: str = ""

    def __post_init__(self) -> None:
        if self.action not in ACTIONS:
            raise BadFlow(f"`action` must be one of {', '.join(ACTIONS)}.", field="action")
        if not (self.runs.state or self.runs.label or self.runs.prefix):
            raise BadFlow("Choose the runs by `state`, `label` or `prefix`.", field="state")

    def payload(self, batch: str, until: str) -> dict[str, Any]:
        """Return the arguments of all units of a batch. Runs that have begun or changed after `until` are skipped."""
        return {
            "flow": self.runs.flow,
            "action": self.action,
            "state": self.runs.state or "",
            "label": ":".join(self.runs.label or ()),
            "prefix": self.runs.prefix,
            "reason": self.reason[: CORE_LIMITS.error_letters_max],
            "batch": batch,
            "until": until,
        }


@dataclass(frozen=True, slots=True)
class Begun:
    """The batch of an action, and the number of its runs."""

    batch: str
    count: int


# --- the request ---


def act_on_all(ports: Ports, function: str, wanted: ActionOnRuns, key: str) -> Begun:
    """Create the batch that acts on all runs that match; `function` has their code.

    A repeat under a key returns the same batch. Raises `TooManyRuns`, `OtherBody` if the key was used for another
    action, and `Unavailable` if another repeat loads the batch at the same time.
    """
    batch = batch_of(function, wanted.runs.flow, key)
    [read] = ports.store.read(batch_path(batch))
    before = header_of(read.data)
    if before is None:
        _check_count(ports, wanted.runs)
    task = Call(function, ACT_ON_RUN, wanted.payload(batch, requested_at(before, read)))
    spec = BatchSpec(task=task, per_task=LIMITS.flow_bulk_per_task)
    try:
        status = population.populate(ports, batch, spec).status
    except OtherBody:
        if before is None:  # another repeat has created it since, with its own time
            return act_on_all(ports, function, wanted, key)
        raise
    try:
        return Begun(batch, _populated(ports, batch, wanted.runs) if status.state == "open" else status.counts.size)
    except (BatchSealed, OtherBody, PageOutOfOrder) as error:
        raise Unavailable("another repeat of this request loads the batch") from error


def batch_of(function: str, flow: str, key: str) -> str:
    """Return the id of the batch of a request."""
    return BATCH_IDS.derived(name_of("runs", function, flow, key))


def requested_at(before: Header | None, read: Snapshot) -> str:
    """Return the time of the first request under a key: the time in its batch, or now if there is no batch."""
    task = before.settings.task if before else None
    return str(task.payload["until"]) if task else rfc3339(read.read_time)


def _check_count(ports: Ports, runs: Runs) -> None:
    """Raise `TooManyRuns` if more runs match than one request acts on."""
    count, most = count_flows(ports, runs), LIMITS.flow_bulk_runs_max
    if count > most:
        detail = f"{count:,} runs match, and one request acts on {most:,} at most: choose fewer by a label or a prefix."
        raise TooManyRuns(detail)


def _populated(ports: Ports, batch: str, runs: Runs) -> int:
    """Load the runs that a batch does not have yet, and seal the batch. Return the number of its units.

    A person may cancel the batch meanwhile. Then it has the units that were loaded before.
    """
    page, after = loaded_last(ports, batch)
    try:
        appended = pages.add_units(ports, batch, page, ({"id": run} for run in _ids(ports, runs, after)))
        return lifecycle.seal(ports, batch, SealRequest(appended.page)).counts.size
    except BatchSealed as refused:
        return population.status_of_ended(ports, batch, refused).counts.size


def loaded_last(ports: Ports, batch: str) -> tuple[int, str]:
    """Return the number of a batch's next page, and the id of its last run."""
    [read] = ports.store.read(batch_path(batch))
    header = header_of(read.data)
    assert header is not None, "the batch has just been created"
    run = BatchRun(batch, header.incarnation)
    page, _ = count_loaded(ports, run)
    if not page:
        return 0, ""
    [last] = ports.store.read(run.page_path(page - 1))
    assert last.data is not None, "its node is in the same commit"
    return page, Page.from_record(last.data).payload_of_last()["id"]


def _ids(ports: Ports, runs: Runs, after: str) -> Iterator[str]:
    """Iterate over the ids of the runs after a given one, in order."""
    base = f"{runs.flow}~"
    last = (f"{base}{after}",) if after else ()
    while page := ports.store.query(replace(runs.query(), limit=LIMITS.flow_bulk_page, after=last)):
        yield from (listing.id.removeprefix(base) for listing in page)
        last = (page[-1].id,)


# --- a unit ---

NOT_OF_BATCH = ("parent-moved-on", "not-failed", "being-removed")
"""The reasons for which a retry skips a run: of a tree of failed runs, only the root is retried."""


def act_on_run(ports: Ports, payload: Mapping[str, Any], flows: Flows = NO_FLOWS) -> str:
    """Act on a run if it still matches, and return the result.

    The code in `flows` checks the plan of a retry, as for one run; without it, only the opening turn does. Raises the
    `Problem` with which the run refuses the action.
    """
    address = FlowAddress(payload["flow"], payload["id"])
    [read] = ports.store.read(header_path(address.base))
    header = flow_of(read, address)
    if header is None or not matches(header, read.create_time, payload):
        return SKIPPED
    try:
        ACTIONS[payload["action"]](ports, flows, address, payload)
    except NoFlow:  # it was removed since
        return SKIPPED
    except CannotRetry as refused:
        if refused.reason in NOT_OF_BATCH:
            return SKIPPED
        raise CannotRetry(f"{address.key}: {refused.detail}", refused.reason) from refused
    except Problem as problem:
        raise type(problem)(f"{address.key}: {problem.detail}") from problem
    return DONE


def matches(header: FlowHeader, created_at: datetime | None, payload: Mapping[str, Any]) -> bool:
    """Return whether a run existed at the request, and has neither lost the label nor left the state since.

    A run that had ended at the request can only be deleted or retried.
    """
    until, (name, _, value) = datetime.fromisoformat(payload["until"]), payload["label"].partition(":")
    if created_at is None or created_at > until or (name and header.labels.get(name) != value):
        return False
    if payload["state"] not in ("", header.state):
        return False
    if payload["action"] == "retry" and header.state not in (FAILED, STUCK):
        return False
    if header.end and header.end.at <= until and payload["action"] not in ("delete", "retry"):
        return False
    is_chosen_by_state = payload["state"] or payload["action"] in ("resume", "retry")
    since = state_since(header)
    return not is_chosen_by_state or since is None or since <= until


def state_since(header: FlowHeader) -> datetime | None:
    """Return the time since which a run has been in its state, or None if it is running."""
    if header.end:
        return header.end.at
    reason = header.suspended or header.stuck
    return datetime.fromisoformat(reason["at"]) if reason else None
