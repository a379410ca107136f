"""Smoke-test a deployment through its own URLs: prove what only a real project can prove.

The test uses the parts of the kit that callers may call: documents, a copy that is refreshed (which proves that
Firestore's event arrived and that a queue's task was admitted), a semaphore, a batch, and tasks of a function that
only queues call. It checks the last run of the sweeper, which runs every minute, and that a call without a token is
refused. Right after a deployment, functions refuse their callers for a few minutes, and a new trigger is silent for up
to two: the test waits for both. Everything has a unique name and is deleted again, also after a failure. If a test is
interrupted, the kit deletes its semaphore and its batch's records, and the next test deletes its documents.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial

from signalbox.catalogue.parts import PARTS, TASKS_ONLY
from signalbox.catalogue.reading import Catalogue, Function
from signalbox_tools.deploy import smoke_large
from signalbox_tools.deploy.deployment_client import DeploymentClient, SmokeTestFailed, poll, tokens
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import CommandFailed, Run, ended_like_ctrl_c
from signalbox_tools.deploy.waiting_clock import REAL, Clock

FOLLOWED_SECONDS = 300.0  # a new trigger is silent for up to two minutes (Eventarc's documentation), and a margin
CHANGED_AGAIN_SECONDS = 20.0  # the event of a change before the trigger works is lost
COMPLETED_SECONDS = 120.0  # cold starts
SCHEDULED_SECONDS = 180.0  # twice a schedule's minute, and a margin
EVERY_MINUTE = "* * * * *"
UNITS = 3
LEFT_SECONDS = 3600.0  # no smoke test takes longer: older documents come from an interrupted one
REFUSED = (401, 403)

Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Site:
    """The address of a deployment, and the account that calls it."""

    target: Target
    base_url: str
    account: str
    run: Run
    clock: Clock = REAL


def passes(site: Site, say: Callable[[str], None]) -> bool:
    """Run every step, print its result and duration, and return whether all passed."""
    catalogue = site.target.catalogue
    token = tokens(site.target, site.account, site.run)
    run = f"smoke-{secrets.token_hex(4)}"
    with ended_like_ctrl_c(), DeploymentClient(site.base_url, token, clock=site.clock) as client:
        results = [_taken(step, say, site.clock) for step in _steps(site, catalogue, client, run)]
    return all(results)


def _steps(site: Site, catalogue: Catalogue, client: DeploymentClient, run: str) -> Iterator[Step]:
    if _is_called(catalogue, "documents"):
        yield "functions answer", partial(_answers, client)
        if not catalogue.functions["documents"].public:
            yield "a call without a token is refused", partial(_refuses_strangers, client, "documents?limit=1")
        yield "a document is put, read and deleted", partial(_document, client, run)
        yield "a copy follows its source: event and task arrived", partial(_link, client, run)
        yield smoke_large.NAME, partial(_large, client, run)
    elif private := [each.segment for each in catalogue.functions.values() if _is_private(each)]:
        yield "a call without a token is refused", partial(_refuses_strangers, client, private[0])
    if _is_called(catalogue, "semaphores"):
        yield "a semaphore's permit is taken, refused and given back", partial(_semaphore, client, run)
    if _is_called(catalogue, "batches"):
        yield "a batch is completed from outside", partial(_batch, client, run)
        yield "a batch is completed by tasks of a function that only queues call", partial(_tasks, client, run)
    for name, schedule in catalogue.schedules.items():
        if schedule.cron == EVERY_MINUTE:  # the next run of the others may be hours away
            yield f"the schedule {name} ran", partial(_schedule, site, name)


def _is_called(catalogue: Catalogue, part: str) -> bool:
    """Return whether callers may call all functions for callers of a part of the kit."""
    found = [catalogue.functions.get(name) for name in PARTS[part].api if name not in TASKS_ONLY]
    return all(each is not None and "people" in each.invoked_by for each in found)


def _is_private(function: Function) -> bool:
    return "people" in function.invoked_by and not function.open_to_all


def _taken(step: Step, say: Callable[[str], None], clock: Clock) -> bool:
    name, act = step
    began = clock.now()
    fault = ""
    try:
        act()
    except (SmokeTestFailed, CommandFailed) as error:
        fault = f": {error}"
    say(f"  {'FAILED' if fault else 'ok':6} {clock.now() - began:6.1f} s  {name}{fault}")
    return not fault


def _answers(client: DeploymentClient) -> None:
    """Read until the function is known everywhere, and delete the documents of an interrupted test."""
    found = client.request("GET", f"documents?where=smoke_test_at<{time.time() - LEFT_SECONDS:.0f}&limit=100")
    for left in found["documents"]:
        client.request("DELETE", f"documents/{left['smoke_test_key']}", expect=(200, 202, 204, 404))


def _refuses_strangers(client: DeploymentClient, path: str) -> None:
    status = client.status(path, signed=False)
    _expect(status in REFUSED, f"a call without a token got {status}")


def _document(client: DeploymentClient, run: str) -> None:
    with _document_made(client, run, {"said": "hello", "times": [1, 2]}):
        found = client.request("GET", f"documents/{run}")
        _expect((found["said"], found["times"]) == ("hello", [1, 2]), f"read back as {found}")
    client.request("GET", f"documents/{run}", expect=(404,))


def _link(client: DeploymentClient, run: str) -> None:
    """Change the source until the copy follows: a new trigger misses earlier changes."""
    source, copy = f"{run}-source", f"{run}-copy"
    link: dict[str, object] = {"source": {"key": source}}
    with _document_made(client, source, {"name": "before"}), _document_made(client, copy, link):
        changes: list[float] = []

        def followed() -> bool | None:
            if not changes or client.clock.now() - changes[-1] >= CHANGED_AGAIN_SECONDS:
                changes.append(client.clock.now())
                client.request("PUT", f"documents/{source}", _marked(source, {"name": f"after {len(changes)}"}))
            name = client.request("GET", f"documents/{copy}")["source"].get("name")
            return str(name).startswith("after") or None

        poll(followed, FOLLOWED_SECONDS, "the copy is unchanged", client.clock)


def _large(client: DeploymentClient, run: str) -> None:
    def wait(look: Callable[[], bool | None], text: str) -> object:
        return poll(look, FOLLOWED_SECONDS, text, client.clock)

    smoke_large.large_copy_follows(client, run, partial(_document_made, client), wait)


def _semaphore(client: DeploymentClient, run: str) -> None:
    settings: dict[str, object] = {"permits": 1, "lease_seconds": 60, "delete_after_seconds": LEFT_SECONDS}
    with _made(client, f"semaphores/{run}", settings):
        lease = client.request("POST", f"semaphore-wait/{run}", {"id": "first"})["lease"]["id"]
        _expect(
            not client.request("POST", f"semaphore-wait/{run}", {"id": "second"})["acquired"], "one permit went twice"
        )
        released = client.request("POST", f"semaphore-signal/{run}", {"lease": lease})["released"]
        _expect(released, "the lease was not released")


def _batch(client: DeploymentClient, run: str) -> None:
    client.request("POST", "batches", {"id": run, "units": list(range(UNITS)), "sealed": True})
    for unit in range(UNITS):
        client.request("POST", f"batch-complete/{run}/{unit}", {"result": unit})
    _completed(client, run)


def _tasks(client: DeploymentClient, run: str) -> None:
    task = {"function": "smoke", "task": "check", "payload": {}}
    client.request("POST", "batches", {"id": f"{run}-tasks", "units": [{}] * UNITS, "task": task, "sealed": True})
    _completed(client, f"{run}-tasks")


def _completed(client: DeploymentClient, batch: str) -> None:
    def complete() -> dict[str, int] | None:
        status = client.request("GET", f"batches/{batch}")
        return status if status["state"] == "completed" else None

    status = poll(complete, COMPLETED_SECONDS, f"the batch {batch} is not completed", client.clock)
    _expect((status["size"], status["succeeded"], status["failed"]) == (UNITS, UNITS, 0), f"it ended as {status}")


def _schedule(site: Site, name: str) -> None:
    where = (f"--location={site.target.region}", f"--project={site.target.project}", "--format=json")
    command = ("gcloud", "scheduler", "jobs", "describe", f"{site.target.name_prefix}{name}", *where)

    def last() -> dict[str, object] | None:
        outcome = site.run(command, folder=site.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        job: dict[str, object] = json.loads(outcome.text)
        return job if "lastAttemptTime" in job and not job.get("status") else None

    poll(last, SCHEDULED_SECONDS, "it did not run, or its last run failed", site.clock)


def _document_made(client: DeploymentClient, key: str, body: dict[str, object]) -> AbstractContextManager[None]:
    return _made(client, f"documents/{key}", _marked(key, body))


def _marked(key: str, body: dict[str, object]) -> dict[str, object]:
    """Return a document that the next smoke test recognises if this one is interrupted."""
    return {**body, "smoke_test_key": key, "smoke_test_at": int(time.time())}


@contextmanager
def _made(client: DeploymentClient, path: str, body: dict[str, object]) -> Iterator[None]:
    """Put something and delete it at the end, also after a failure."""
    client.request("PUT", path, body)
    try:
        yield
    finally:
        client.request("DELETE", path, expect=(200, 202, 204, 404))


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SmokeTestFailed(otherwise)
