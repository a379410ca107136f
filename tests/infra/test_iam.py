"""Who may do what, all of it: a right that is not in these two tables is one too many.

The tables hold what comes with the kit; a function that was added to the catalogue has the rights that its entry
implies. Accounts are named by their ids: ``fn-`` runs a function, ``ev-`` brings it events, ``kit-`` calls or builds
them. Ann deploys.
"""

import re
from collections.abc import Iterator, Mapping

from infra.catalogue import Function, load
from tests.infra.workspace import Resource, Workspace

Row = tuple[str, ...]

# A function runs as fn-FUNCTION, and so do these rights: to hand tasks to queues, to have them carry an account's
# identity, to use a database.
FUNCTIONS = """
batch-complete   | ann               | batches tasks             | kit-tasks | signalbox-prod
batch-expand     | kit-tasks         | batches tasks             | kit-tasks | signalbox-prod
batches          | ann               | batches tasks             | kit-tasks | signalbox-prod
documents        | ann               |                           |           | signalbox-prod
failures         | ann               | admit tasks               | kit-tasks | signalbox-prod
link-fan-out     | ev-link-fan-out   | links                     | kit-tasks | signalbox-prod
link-refresh     | kit-tasks         | links                     | kit-tasks | signalbox-prod
link-verify      | kit-tasks         | links                     | kit-tasks | signalbox-prod
philosophers     | ann kit-tasks     | admit tasks               | kit-tasks | signalbox-prod
quilt            | ann kit-tasks     | batches tasks             | kit-tasks | signalbox-prod
semaphore-admit  | kit-tasks         | admit tasks               | kit-tasks | signalbox-prod
semaphore-renew  | ann               | admit tasks               | kit-tasks | signalbox-prod
semaphore-signal | ann               | admit tasks               | kit-tasks | signalbox-prod
semaphore-wait   | ann               | admit tasks               | kit-tasks | signalbox-prod
semaphores       | ann               | admit tasks               | kit-tasks | signalbox-prod
sweep            | kit-scheduler     | admit batches links tasks | kit-tasks | signalbox-prod
tasks            | ann kit-scheduler | tasks                     | kit-tasks | signalbox-prod
transforms       | ann               | links                     | kit-tasks | signalbox-prod
verifications    | ann kit-scheduler | links                     | kit-tasks | signalbox-prod
"""

OTHERS = """
ev-link-fan-out | roles/eventarc.eventReceiver  | demo-project
kit-build       | roles/artifactregistry.writer | signalbox
kit-build       | roles/logging.logWriter       | demo-project
kit-build       | roles/storage.objectViewer    | gcf-v2-sources-NUMBER-us-central1 demo-project-signalbox-sources
"""

ON = {
    "google_artifact_registry_repository_iam_member": "repository",
    "google_cloud_run_service_iam_member": "service",
    "google_cloud_tasks_queue_iam_member": "name",
    "google_project_iam_member": "project",
    "google_service_account_iam_member": "service_account_id",
}
"""The resources that grant a right, and the argument of each that names its object."""

OF_FUNCTIONS = (
    "roles/run.invoker",
    "roles/cloudtasks.enqueuer",
    "roles/iam.serviceAccountUser",
    "roles/datastore.user",
)
NARROWING = re.compile(
    r'resource\.name == "projects/[^/]+/databases/([^"]+)"|resource\.name\.startsWith\("projects/_/buckets/([^"]+)"\)'
)


def test_functions_are_called_by_and_may_do_exactly_this(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    functions = {each.values["name"] for each in resources.values() if each.kind == "google_cloudfunctions2_function"}
    assert [row_of(function, held) for function in sorted(functions)] == expected()


def test_the_rule_for_an_added_function_yields_the_tables_rows_for_those_of_the_kit() -> None:
    assert sorted(map(row_asked_for, load().functions.values())) == expected()


def test_other_accounts_have_exactly_these_rights(resources: Mapping[str, Resource]) -> None:
    others = sorted(right for right in rights(resources) if right[1] not in OF_FUNCTIONS)
    receiver = ("roles/eventarc.eventReceiver", "demo-project")
    receivers: list[Row] = [(f"ev-{each.segment}", *receiver) for each in added("event")]
    assert others == sorted(rows(OTHERS) + receivers)


def test_the_rights_of_functions_are_granted_to_functions_only(resources: Mapping[str, Resource]) -> None:
    held = {right for right in rights(resources) if right[1] in OF_FUNCTIONS[1:]}
    assert {member for member, _, _ in held} == {f"fn-{function}" for function, *_ in expected()}


def test_no_right_is_granted_in_another_way(resources: Mapping[str, Resource]) -> None:
    assert {each.kind for each in resources.values() if "iam" in each.kind} == set(ON)


def test_every_function_runs_as_its_own_account(resources: Mapping[str, Resource]) -> None:
    functions = [each.values for each in resources.values() if each.kind == "google_cloudfunctions2_function"]
    accounts = {each["name"]: short(each["service_config"][0]["service_account_email"]) for each in functions}
    assert accounts == {function: f"fn-{function}" for function, *_ in expected()}


def test_the_deployer_may_grant_what_a_deployment_grants_and_nothing_more(
    deployed: Workspace, resources: Mapping[str, Resource]
) -> None:
    deployed.run("-chdir=bootstrap", "init", "-input=false")
    deployed.run("-chdir=bootstrap", "apply", "-input=false", "-auto-approve", "-var=project_id=demo-project")
    granting = deployed.resources("bootstrap")["google_project_iam_member.deployer_grants"].values
    allowed = re.findall(r"'(roles/[^']+)'", granting["condition"][0]["expression"])
    granted = {each.values["role"] for each in resources.values() if each.kind == "google_project_iam_member"}
    assert granting["role"] == "roles/resourcemanager.projectIamAdmin"
    assert sorted(allowed) == sorted(granted)


def expected() -> list[Row]:
    """Return the table's rows, and one for each function that was added to the catalogue."""
    return sorted(rows(FUNCTIONS) + [row_asked_for(each) for each in added()])


def added(invoker: str = "") -> list[Function]:
    """Return the functions that the table does not name: all of them, or those that an invoker may call."""
    named = {function for function, *_ in rows(FUNCTIONS)}
    others = [each for each in load().functions.values() if each.segment not in named]
    return [each for each in others if not invoker or invoker in each.invoked_by]


def row_asked_for(function: Function) -> Row:
    """Return the row that a function's entry in the catalogue implies."""
    accounts = {
        "people": "ann",
        "queue": "kit-tasks",
        "schedule": "kit-scheduler",
        "event": f"ev-{function.segment}",
    }
    callers = sorted([accounts[each] for each in function.invoked_by] + ["allUsers"] * function.public)
    carries = "kit-tasks" if function.enqueues else ""
    return (function.segment, " ".join(callers), " ".join(sorted(function.enqueues)), carries, "signalbox-prod")


def rights(resources: Mapping[str, Resource]) -> Iterator[tuple[str, str, str]]:
    """Return every right that was given: to whom, which role, on what."""
    for each in resources.values():
        if each.kind in ON:
            yield short(each.values["member"]), each.values["role"], narrowed(each)


def narrowed(right: Resource) -> str:
    """Return the object of a right in few words, narrowed by its condition if it has one."""
    conditions = right.values.get("condition") or []
    left = [name for each in conditions for found in NARROWING.findall(each["expression"]) for name in found if name]
    return re.sub("[0-9]{12}", "NUMBER", " ".join(left)) if conditions else short(right.values[ON[right.kind]])


def row_of(function: str, held: set[tuple[str, str, str]]) -> Row:
    """Return a function's row of the table."""
    callers = sorted(member for member, role, on in held if (role, on) == (OF_FUNCTIONS[0], function))
    may = [sorted(on for member, role, on in held if (member, role) == (f"fn-{function}", r)) for r in OF_FUNCTIONS[1:]]
    return (function, *(" ".join(cell) for cell in (callers, *may)))


def short(name: str) -> str:
    """Shorten a member or an account to its id; leave anything else."""
    return re.sub(r"^(user:|serviceAccount:|projects/.*/serviceAccounts/)|@.*$", "", name)


def rows(table: str) -> list[Row]:
    """Read a table: a row a line, its cells between bars."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in table.strip().splitlines()]
