"""Which accounts a catalogue has, and every right of each: an oracle of SECURITY.md that reads no row.

Written from "Who may call what", "What each account separates" and "Verification of callers" of that page: an account
is shared only where it separates nothing, and each right follows from one entry of the catalogue.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.parts import FUNCTIONS as FUNCTIONS_OF_THE_KIT
from signalbox.catalogue.reading import Catalogue

PEOPLE = ("ann", "signalbox-deployer")
"""Ann deploys, and the account of Cloud Build does."""

SHARED, KIT_WORKERS, USERS_CODE = "kit-functions", "qu-kit-workers", "qu-tasks"
QUEUE_ACCOUNTS = {
    **dict.fromkeys(("links", "admit", "batches", "standings"), KIT_WORKERS),
    **dict.fromkeys(("tasks", "flows", "objects"), USERS_CODE),
}
SOURCES = "demo-project-signalbox-sources"
PAYLOADS, DATABASE = "demo-project-signalbox-payloads", "signalbox-prod"

Right = tuple[str, str, str]
"""A member, a role, and the object of the role."""


@dataclass(frozen=True, slots=True)
class Service:
    """A function as it is deployed, or one half of an open function with tasks: `for_tasks` is that of its queues."""

    function: Function
    name: str
    account: str
    is_split: bool = False
    for_tasks: bool = False

    @property
    def is_open(self) -> bool:
        return (self.function.public or bool(self.function.auth)) and not self.for_tasks


def account_of(function: Function, name: str) -> str:
    """Return the account of a service: that of the kit's functions if nothing of this function needs its own."""
    gains = function.secrets, function.roles, function.archives, function.invokes, function.isolated
    opens = function.public, function.auth
    is_shared = function.name in FUNCTIONS_OF_THE_KIT and not any((*gains, *opens))
    return SHARED if is_shared else f"fn-{name}"


def services(catalogue: Catalogue) -> list[Service]:
    return [service for function in catalogue.functions.values() for service in _services_of(function)]


def _services_of(function: Function) -> Iterator[Service]:
    name = function.name.replace("_", "-")
    is_split = "queue" in function.invoked_by and (function.public or bool(function.auth))
    yield Service(function, name, account_of(function, name), is_split)
    if is_split:
        yield Service(function, f"{name}-tasks", account_of(function, f"{name}-tasks"), is_split, for_tasks=True)


def queue_account(queue: str) -> str:
    return QUEUE_ACCOUNTS.get(queue, f"qu-{queue}")


def may_share(first: Service, second: Service) -> bool:
    """Return whether two services may run as one account."""
    return first.account == second.account == SHARED


def rights_of_services(catalogue: Catalogue) -> set[Right]:
    """Return every right of the accounts that functions run as, and every right to call a function."""
    return {right for service in services(catalogue) for right in _rights(catalogue, service)}


def _rights(catalogue: Catalogue, service: Service) -> Iterator[Right]:
    function, account = service.function, service.account
    calling = catalogue.calling_queues.get(function.name, ())
    if not function.isolated:
        yield account, "roles/datastore.user", DATABASE
        yield account, "roles/storage.objectViewer", f"{SOURCES}/objects/catalogue.json"
        for queue in {*function.enqueues, *(calling if service.is_split and not service.for_tasks else ())}:
            yield account, "roles/iam.serviceAccountUser", queue_account(queue)
            for number in range(catalogue.queues[queue].shards):
                yield account, "roles/cloudtasks.enqueuer", f"{queue}-{number + 1}" if number else queue
        for role in ("objectCreator", "objectViewer") if catalogue.payloads else ():
            yield account, f"roles/storage.{role}", PAYLOADS
        if catalogue.payloads and function.name == "sweep":
            yield account, "roles/storage.objectUser", PAYLOADS
    for secret in function.secrets.values():
        yield account, "roles/secretmanager.secretAccessor", secret.partition(":")[0]
    for role in function.roles:
        yield account, role, "demo-project"
    for bucket in function.archives if service.for_tasks or not service.is_split else ():
        yield account, "roles/storage.objectUser", bucket
    for other in function.invokes:
        yield account, "roles/run.invoker", other.replace("_", "-")
    for member in _callers(function, service, calling):
        yield member, "roles/run.invoker", service.name


def _callers(function: Function, service: Service, calling: Iterable[str]) -> Iterator[str]:
    takes_tasks = service.for_tasks or not service.is_split
    takes_calls = not service.for_tasks
    if "people" in function.invoked_by and takes_calls:
        yield from ["allUsers"] if service.is_open else []
        yield from PEOPLE
    if "queue" in function.invoked_by and takes_tasks:
        yield from map(queue_account, calling)
    if "event" in function.invoked_by and takes_tasks:
        yield "kit-events"
    if "schedule" in function.invoked_by and takes_calls:
        yield "kit-scheduler"


def accounts(catalogue: Catalogue) -> set[str]:
    """Return the accounts of services and of queues."""
    calling = {queue for queues in catalogue.calling_queues.values() for queue in queues}
    enqueued = {queue for function in catalogue.functions.values() for queue in function.enqueues}
    return {service.account for service in services(catalogue)} | {queue_account(each) for each in calling | enqueued}
