"""Smoke-test a deployment through its own URLs: what only a real project can prove.

Documents, a copy that follows (so Firestore's event came, and a queue's task was let in), a semaphore, a batch, a task
of a function that also answers people, the last run of what runs every minute, and that a call without a token is
refused. Everything has a unique name and is deleted again, also after a failure; a batch's records the kit itself
cleans up.
"""

import json
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from infra.catalogue import Catalogue, load
from infra.deploy.commands import CommandFailed, Run
from infra.deploy.deployment_client import DeploymentClient, SmokeTestFailed, poll, tokens
from infra.deploy.target import Target

REACHED_SECONDS = 300.0  # a new right of IAM takes so long to be known everywhere
FOLLOWED_SECONDS = 120.0  # a cold start for the event, and one for the task
SCHEDULED_SECONDS = 180.0  # twice a schedule's minute, and some
EVERY_MINUTE = "* * * * *"
UNITS = 3
REFUSED = (401, 403)

Step = tuple[str, Callable[[], None]]


@dataclass(frozen=True, slots=True)
class Site:
    """The address of a deployment, and the account that calls it."""

    target: Target
    base_url: str
    account: str
    run: Run


def passes(site: Site, say: Callable[[str], None]) -> bool:
    """Run every step, print its result and duration, and return whether all passed."""
    catalogue = load(site.target.infra / "catalogue.yaml")
    with DeploymentClient(site.base_url, tokens(site.target, site.account, site.run)) as client:
        results = [_taken(step, say) for step in _steps(site, catalogue, client, f"smoke-{secrets.token_hex(4)}")]
    return all(results)


def _steps(site: Site, catalogue: Catalogue, client: DeploymentClient, run: str) -> Iterator[Step]:
    yield "functions answer", partial(_answers, client)
    if not catalogue.functions["documents"].public:
        yield "a call without a token is refused", partial(_refuses_strangers, client)
    yield "a document is put, read and deleted", partial(_document, client, run)
    yield "a copy follows its source: event and task arrived", partial(_link, client, run)
    yield "a semaphore's permit is taken, refused and given back", partial(_semaphore, client, run)
    yield "a batch is completed from outside", partial(_batch, client, run)
    if "quilt" in catalogue.functions:
        yield "a batch is completed by tasks of a user's function", partial(_tasks, client, run)
    for name, schedule in catalogue.schedules.items():
        if schedule.cron == EVERY_MINUTE:  # the others may be hours away
            yield f"the schedule {name} ran", partial(_schedule, site, name)


def _taken(step: Step, say: Callable[[str], None]) -> bool:
    name, act = step
    began = time.monotonic()
    fault = ""
    try:
        act()
    except (SmokeTestFailed, CommandFailed) as error:
        fault = f": {error}"
    say(f"  {'FAILED' if fault else 'ok':6} {time.monotonic() - began:6.1f} s  {name}{fault}")
    return not fault


def _answers(client: DeploymentClient) -> None:
    def answered() -> bool | None:
        return client.status("documents?limit=1") == 200 or None

    poll(answered, REACHED_SECONDS, "documents does not answer 200")


def _refuses_strangers(client: DeploymentClient) -> None:
    status = client.status("documents?limit=1", signed=False)
    _expect(status in REFUSED, f"a call without a token got {status}")


def _document(client: DeploymentClient, run: str) -> None:
    with _made(client, f"documents/{run}", {"said": "hello", "times": [1, 2]}):
        found = client.request("GET", f"documents/{run}")
        _expect((found["said"], found["times"]) == ("hello", [1, 2]), f"read back as {found}")
    client.request("GET", f"documents/{run}", expect=(404,))


def _link(client: DeploymentClient, run: str) -> None:
    source, copy = f"documents/{run}-source", f"documents/{run}-copy"
    with _made(client, source, {"name": "before"}), _made(client, copy, {"source": {"key": f"{run}-source"}}):
        client.request("PUT", source, {"name": "after"})
        poll(
            lambda: client.request("GET", copy)["source"].get("name") == "after" or None,
            FOLLOWED_SECONDS,
            "the copy is unchanged",
        )


def _semaphore(client: DeploymentClient, run: str) -> None:
    with _made(client, f"semaphores/{run}", {"permits": 1, "lease_seconds": 60}):
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
    squares = [{"row": 0, "column": column} for column in range(UNITS)]
    task = {"function": "quilt", "task": "paint", "payload": {}}
    client.request("POST", "batches", {"id": f"{run}-quilt", "units": squares, "task": task, "sealed": True})
    _completed(client, f"{run}-quilt")


def _completed(client: DeploymentClient, batch: str) -> None:
    def complete() -> dict[str, int] | None:
        status = client.request("GET", f"batches/{batch}")
        return status if status["state"] == "completed" else None

    status = poll(complete, FOLLOWED_SECONDS, f"the batch {batch} is not completed")
    _expect((status["size"], status["succeeded"], status["failed"]) == (UNITS, UNITS, 0), f"it ended as {status}")


def _schedule(site: Site, name: str) -> None:
    where = (f"--location={site.target.region}", f"--project={site.target.project}", "--format=json")
    command = ("gcloud", "scheduler", "jobs", "describe", f"{site.target.begin}{name}", *where)

    def last() -> dict[str, object] | None:
        outcome = site.run(command, folder=site.target.root)
        if not outcome.ok:
            raise CommandFailed(outcome.error.strip())
        job: dict[str, object] = json.loads(outcome.text)
        return job if "lastAttemptTime" in job and not job.get("status") else None

    poll(last, SCHEDULED_SECONDS, "it did not run, or its last run failed")


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
