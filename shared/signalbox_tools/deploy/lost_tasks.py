"""Refuse a plan that loses data or tasks: of a database, of a function for which tasks wait, of a queue that has tasks.

A function is lost if it is destroyed, or replaced by one with another name or in another region: nothing would answer
at its address. It was renamed or removed, no longer has tasks, or is no longer open (the tasks of an open function are
called at ``NAME-tasks``). A task waits for up to 31 days. A lost queue keeps its tasks, but the account that they are
sent with is destroyed. The queues are read only for a plan that loses a function or a queue, and the records only for
one that removes a function, whose name they have, or a part of the kit, which they need whatever they name.

A queue or a database that cannot be read, or has more records than are read, is reported. A deployment is then refused,
unless the person says that nothing waits.
"""

import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from google.api_core.exceptions import GoogleAPICallError
from google.auth.exceptions import GoogleAuthError

from signalbox.catalogue.parts import PARTS
from signalbox.core.kit_names import queue_of
from signalbox.core.ports import Store
from signalbox.core.problems import Problem, Unavailable
from signalbox_tools.deploy import project_facts, recorded_tasks
from signalbox_tools.deploy.confirmation import Aborted
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.plan_summary import FUNCTION, QUEUE, Plan
from signalbox_tools.deploy.programs import CommandFailed, Run

QUEUE_ACCOUNT = re.compile(r'google_service_account\.queue\["[\w-]+"\]')
DATABASE = re.compile(r"(^|\.)google_firestore_database\.")
EXPORTS = re.compile(r"google_storage_bucket\.exports\[")
FILTER = "--filter="
ALL, FIRST = "--page-size=1000", "--limit=1"
"""With a filter all tasks must be read: gcloud reads as many as the limit, and filters these."""

REFUSAL = """Tasks wait for functions, in queues or with accounts that this plan destroys, and would be lost:
{tasks}
Deploy this change after they have run. To list them (`gcloud tasks delete` deletes one):
{commands}"""
RECORDED = """Records of the database have tasks for functions that this plan removes ({names}), which would be lost:
{lines}
Deploy this change after they have ended; `signalbox console` shows them, and with --act cancels them."""
RECORDED_PARTS = """Records of the database need parts of the kit that this plan removes ({names}):
{lines}
Deploy this change after they have ended or are deleted, or keep the parts: use them in the code, or name them in
`api` of the catalogue."""
UNCHECKED = """It is not known whether this plan loses tasks, so nothing was changed:
{lines}
Deploy it when they can be read: with an account that may list tasks and read the database, and when fewer records wait.
If you know that nothing waits for what is removed: signalbox deploy {options} --unchecked
(make deploy UNCHECKED=1; for signalbox adopt, UNCHECKED=1 in its environment)."""
UNPROTECTED = """This plan takes {lost} off the database {name}, which has all data of this environment.
Only the environment prod has it. Write this into {file}: "environment": "prod"
To give the protection up, take it off first, and then deploy:
  gcloud firestore databases update --database={name} --project={project} {flags}"""
REFUSED_DATABASE = """This plan {how} the database {name}, with all its data. It is refused in every environment.
Restore the settings of the database in {file}: "database", "database_location", "create_database", "cmek_key", and
"environment", which is a part of its name. To use another database, deploy another environment with it; in prod, a
restored one is taken into use by signalbox adopt, when the restore has ended."""


def refuse_lost_data(target: Target, plan: Plan) -> None:
    """Raise `Aborted` if the plan deletes or replaces a database, or creates an empty one in its place.

    A database that only leaves Terraform's state, as prod's does, is not deleted. A plan that imports another one in
    its place, as after a restore, is allowed. Also raises it if the plan takes a protection off a database, or replaces
    the bucket with its exports.
    """
    for address in filter(DATABASE.search, plan.changed):
        _refuse_unprotected(target, *plan.changed_values[address])
    for address in filter(EXPORTS.match, plan.replaced):
        bucket = plan.lost_values.get(address, {})
        place = {"name": bucket.get("name"), "location": str(bucket.get("location")).lower()}
        raise Aborted(REPLACED_EXPORTS.format(file=target.own_file, **place))
    for address in filter(DATABASE.search, plan.replaced):
        _refuse(target, "replaces", plan.lost_values.get(address, {}))
    for address in filter(DATABASE.search, plan.destroyed):
        if plan.lost_values[address].get("deletion_policy") != "ABANDON":
            _refuse(target, "deletes", plan.lost_values[address])
        if any(map(DATABASE.search, plan.created)):
            _refuse(target, "creates an empty database in place of", plan.lost_values[address])


REPLACED_EXPORTS = """This plan replaces the bucket {name}, with all exports in it: a bucket keeps its location.
Write this into {file}, in "exports": "bucket_location": "{location}"
To export to another location, first deploy without "exports", and delete the bucket or copy what it has:
  gcloud storage rm --recursive gs://{name}"""
PROTECTIONS = {
    "delete_protection_state": ("the protection against deletion", "--no-delete-protection"),
    "point_in_time_recovery_enablement": ("point-in-time recovery", "--no-enable-pitr"),
}
"""The protections of a database, each with its name and the option of gcloud that takes it off."""


def _refuse_unprotected(target: Target, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    off = [
        each
        for name, each in PROTECTIONS.items()
        if str(before.get(name)).endswith("_ENABLED") and str(after.get(name)).endswith("_DISABLED")
    ]
    if off:
        names, flags = zip(*off, strict=True)
        place = {"name": before["name"], "file": target.own_file, "project": target.project}
        raise Aborted(UNPROTECTED.format(lost=" and ".join(names), flags=" ".join(flags), **place))


def _refuse(target: Target, how: str, database: Mapping[str, Any]) -> None:
    name = database.get("name", target.database)
    raise Aborted(REFUSED_DATABASE.format(how=how, name=name, file=target.own_file))


UNREAD = (Problem, Unavailable, GoogleAPICallError, GoogleAuthError, CommandFailed, recorded_tasks.TooMany)
"""The errors of a store that cannot be read."""


def refuse_lost_tasks(target: Target, plan: Plan, run: Run) -> list[str]:
    """Return a line for each queue that cannot be read. Raises `Aborted` if the plan would lose tasks."""
    waiting: list[tuple[str, str]] = []
    unread: list[str] = []
    for queue, whose, command in _questions(target, plan, run):
        amount = ALL if command[-1].startswith(FILTER) else FIRST
        outcome = run((*command, amount, "--format=value(httpRequest.url)"), folder=target.root)
        if not outcome.ok:
            unread.append(f"whether tasks wait {whose} in the queue {queue} is not known: {outcome.error.strip()}")
        elif urls := outcome.text.split():
            more = f" and {len(urls) - 1} more" if len(urls) > 1 else ""
            waiting.append((f"  {queue}: {urls[0]}{more}", f"  {shlex.join(command)}"))
    if waiting:
        tasks, commands = ("\n".join(lines) for lines in zip(*waiting, strict=True))
        raise Aborted(REFUSAL.format(tasks=tasks, commands=commands))
    return unread


def refuse_recorded_tasks(target: Target, plan: Plan, store: Callable[[], Store]) -> list[str]:
    """Return a line if the records cannot be read. Raises `Aborted` if some have tasks for a removed function."""
    catalogue = target.catalogue
    gone = _removed(plan)
    parts = _removed_parts(plan) - catalogue.parts.keys()
    if not gone and not parts:
        return []
    removal = recorded_tasks.Removal(gone, catalogue.object_classes, catalogue.flow_functions, parts)
    names = ", ".join(sorted(parts or gone))
    try:
        lines = recorded_tasks.found(store(), removal)
    except UNREAD as error:
        return [f"whether records of the database {target.database} name {names} is not known: {error}"]
    if lines:
        refusal = RECORDED_PARTS if parts else RECORDED
        raise Aborted(refusal.format(names=names, lines="\n".join(f"  {line}" for line in lines)))
    return []


def left_by_callers(plan: Plan, store: Callable[[], Store]) -> list[str]:
    """Return a warning for each kind of record that callers can no longer change, and that needs no function.

    Records that cannot be read cause none: `refuse_recorded_tasks` reports them.
    """
    gone = _removed(plan)
    if not gone & recorded_tasks.OF_CALLERS.keys():
        return []
    try:
        left = recorded_tasks.left_by_callers(store(), gone)
    except UNREAD:
        return []
    return [f"Warning: {line}. To keep the functions for callers, name the part in `api`." for line in left]


def _removed(plan: Plan) -> frozenset[str]:
    """Return the functions that a plan destroys. One that keeps its part for people, or for tasks, is not removed."""
    kept = {found[1] for each in plan.kept if (found := FUNCTION.fullmatch(each))}
    gone = {found[1] for each in plan.destroyed if (found := FUNCTION.fullmatch(each))}
    return frozenset(name for name in gone if name.removesuffix("_tasks") not in kept and f"{name}_tasks" not in kept)


def _removed_parts(plan: Plan) -> frozenset[str]:
    """Return the kit's parts of which a plan destroys a worker or the queue."""
    gone = _removed(plan)
    queues = {found[1] for each in plan.destroyed if (found := QUEUE.fullmatch(each))}
    return frozenset(name for name, part in PARTS.items() if gone & set(part.workers) or part.queue in queues)


def _questions(target: Target, plan: Plan, run: Run) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Iterate over queues with the reason to ask for their tasks, and the command that lists these tasks."""
    gone = _by_region(plan, FUNCTION)
    given_up, lost = _by_region(plan, QUEUE), _by_region(plan, QUEUE, left=_shards_left(plan))
    accounts = sorted(each["email"] for name, each in plan.lost_values.items() if QUEUE_ACCOUNT.fullmatch(name))
    for region in sorted(gone.keys() | lost.keys() | ({target.region} if accounts else set())):
        services, lost_here = sorted(gone.get(region, ())), set(map(queue_of, lost.get(region, ())))
        found = project_facts.queues(target, run, region)
        if found is None:  # a queue that is not read has a warning
            found = frozenset(map(target.service, target.catalogue.shards)) | given_up.get(region, set())
        for queue in sorted({*target.own_queues(found), *(each for each in found if queue_of(each) in lost_here)}):
            where = (f"--queue={queue}", f"--location={region}", f"--project={target.project}")
            if queue_of(queue) in lost_here:
                yield queue, "at all", ("gcloud", "tasks", "list", *where)
                continue
            # Without the quotes, gcloud takes the parentheses as its own, and selects nothing.
            if accounts:
                carried = f'{FILTER}httpRequest.oidcToken.serviceAccountEmail~"^({"|".join(accounts)})$"'
                yield queue, f"with {', '.join(accounts)}", ("gcloud", "tasks", "list", *where, carried)
            if services:
                address = f"^https://({'|'.join(services)})-[0-9]+[.]{region}[.]run[.]app/"
                command = ("gcloud", "tasks", "list", *where, f'{FILTER}httpRequest.url~"{address}"')
                yield queue, f"for {', '.join(services)}", command


def _shards_left(plan: Plan) -> frozenset[str]:
    """Return the addresses of the shards that a plan gives up while their queue stays.

    They are kept, as all queues are, and deliver the rest of their tasks with the account and to the functions of the
    queue, which stay.
    """
    kept = {found[1] for each in plan.kept if (found := QUEUE.fullmatch(each))}
    lost = {each: found[1] for each in plan.lost_values if (found := QUEUE.fullmatch(each))}
    return frozenset(address for address, name in lost.items() if queue_of(name) in kept)


def _by_region(plan: Plan, kind: re.Pattern[str], left: Collection[str] = ()) -> dict[str, set[str]]:
    """Return the names of the lost resources of a kind, by region, without those at the addresses `left`."""
    found: dict[str, set[str]] = {}
    for address, values in plan.lost_values.items():
        if kind.fullmatch(address) and address not in left:
            found.setdefault(values["location"], set()).add(values["name"])
    return found
