"""All rights: a right that is not in these two tables is one too many.

The tables have the kit's rights; a function that was added to the catalogue has the rights that its entry implies.
Accounts are named by their ids: ``fn-`` runs a function, ``ev-`` brings it events, ``qu-`` a queue's tasks, ``kit-``
calls it by a schedule or builds it. Ann deploys, and so may ``signalbox-deployer``, which Cloud Build runs as.
"""

import re
from collections.abc import Iterator, Mapping

import pytest
import yaml

from signalbox.catalogue.reading import Function, load
from signalbox_tools.setup.generated_pages import size_of
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

Row = tuple[str, ...]

# A function runs as fn-FUNCTION, and so do these rights: to hand tasks to queues, which includes to have them carry the
# queues' identities, and to use a database.
FUNCTIONS = """
accounts         | ann qu-objects qu-tasks signalbox-deployer | objects tasks      | signalbox-prod
batch-complete   | ann signalbox-deployer               | batches tasks             | signalbox-prod
batch-expand     | qu-batches                           | admit batches tasks       | signalbox-prod
batches          | ann signalbox-deployer               | batches tasks             | signalbox-prod
critical-section | ann signalbox-deployer               | admit tasks               | signalbox-prod
documents        | ann signalbox-deployer               | links                     | signalbox-prod
failures         | ann signalbox-deployer               | admit tasks               | signalbox-prod
link-fan-out     | ev-link-fan-out                      | links                     | signalbox-prod
link-refresh     | qu-links                             | links                     | signalbox-prod
link-verify      | qu-links                             | links                     | signalbox-prod
machines         | ann qu-flows qu-tasks signalbox-deployer | admit batches flows links tasks | signalbox-prod
philosophers     | ann qu-tasks signalbox-deployer      | admit links tasks             | signalbox-prod
quilt            | ann qu-tasks signalbox-deployer      | batches links tasks             | signalbox-prod
semaphore-admit  | qu-admit                             | admit tasks               | signalbox-prod
semaphore-renew  | ann signalbox-deployer               | admit tasks               | signalbox-prod
semaphore-signal | ann signalbox-deployer               | admit tasks               | signalbox-prod
semaphore-wait   | ann signalbox-deployer               | admit tasks               | signalbox-prod
semaphores       | ann signalbox-deployer               | admit tasks               | signalbox-prod
shop|ann ev-shop qu-flows qu-objects qu-tasks signalbox-deployer|admit batches flows links objects tasks|signalbox-prod
smoke            | qu-tasks                             | batches tasks             | signalbox-prod
social-code      | ann qu-flows qu-tasks signalbox-deployer | admit batches flows links standings tasks | signalbox-prod
social-sandbox   | ann fn-social-code signalbox-deployer |                           |
standing-count   | ev-standing-count                    | standings tasks           | signalbox-prod
standing-fold    | qu-standings                         | standings tasks           | signalbox-prod
standings        | ann kit-scheduler signalbox-deployer | standings                 | signalbox-prod
sweep            | kit-scheduler              | admit batches flows links objects standings tasks | signalbox-prod
tasks            | ann kit-scheduler signalbox-deployer | tasks                     | signalbox-prod
transforms       | ann signalbox-deployer               | links                     | signalbox-prod
verifications    | ann kit-scheduler signalbox-deployer | links                     | signalbox-prod
yokes            | ann signalbox-deployer               | standings                 | signalbox-prod
"""

OTHERS = """
ev-link-fan-out | roles/eventarc.eventReceiver  | demo-project
ev-shop         | roles/eventarc.eventReceiver | demo-project
ev-standing-count | roles/eventarc.eventReceiver | demo-project
kit-build       | roles/artifactregistry.writer | signalbox
kit-build       | roles/logging.logWriter       | demo-project
kit-build       | roles/storage.objectViewer    | gcf-v2-sources-NUMBER-us-central1 demo-project-signalbox-sources
service-NUMBER  | roles/pubsub.publisher        | signalbox-dead-events
"""

# What `signalbox bootstrap` grants to the account that Cloud Build runs as, on the project unless it says otherwise.
BOOTSTRAP = """
roles/artifactregistry.admin
roles/cloudfunctions.developer
roles/cloudscheduler.admin
roles/cloudtasks.admin
roles/eventarc.developer
roles/datastore.owner
roles/firebaserules.admin
roles/iam.serviceAccountAdmin
roles/iam.serviceAccountOpenIdTokenCreator | signalbox-deployer
roles/logging.configWriter
roles/logging.logWriter
roles/monitoring.editor
roles/resourcemanager.projectIamAdmin | if only-what-signalbox-grants
roles/pubsub.admin
roles/run.admin
roles/secretmanager.admin
roles/serviceusage.serviceUsageAdmin
roles/storage.admin
"""

BUILDER = "signalbox-deployer"
BUILD = "kit-build"
SECRET_READER = "google_secret_manager_secret_iam_member"  # noqa: S105  a kind of resource
ARCHIVE_WRITER = "google_storage_bucket_iam_member"
"""The kit's own functions have no secrets and no archives."""

ON = {
    "google_artifact_registry_repository_iam_member": "repository",
    "google_cloud_run_service_iam_member": "service",
    "google_cloud_tasks_queue_iam_member": "name",
    "google_project_iam_member": "project",
    "google_pubsub_topic_iam_member": "topic",
    SECRET_READER: "secret_id",
    "google_service_account_iam_member": "service_account_id",
    ARCHIVE_WRITER: "bucket",
}
"""The resources that grant a right, and the argument of each that names its object."""

OF_FUNCTIONS = (
    "roles/run.invoker",
    "roles/cloudtasks.enqueuer",
    "roles/iam.serviceAccountUser",
    "roles/datastore.user",
    "roles/storage.objectViewer",
)
CATALOGUE = "demo-project-signalbox-sources/objects/catalogue.json"
"""What each function reads of the bucket, and nothing else."""

NARROWING = re.compile(
    r'resource\.name == "projects/(?:[^/]+/databases|_/buckets)/([^"]+)"|'
    r'resource\.name\.startsWith\("projects/_/buckets/([^"]+)"\)'
)


def test_functions_are_called_by_and_may_do_exactly_this(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    functions = {each.values["name"] for each in resources.values() if each.kind == "google_cloudfunctions2_function"}
    assert [row_of(function, held) for function in sorted(functions)] == expected()


def test_the_rule_for_an_added_function_yields_the_tables_rows_for_those_of_the_kit() -> None:
    assert sorted(map(row_asked_for, load().functions.values())) == expected()


def test_other_accounts_have_exactly_these_rights(resources: Mapping[str, Resource]) -> None:
    others = sorted(right for right in rights(resources) if right[1] not in OF_FUNCTIONS or right[0] == BUILD)
    receiver = ("roles/eventarc.eventReceiver", "demo-project")
    receivers: list[Row] = [(f"ev-{each.segment}", *receiver) for each in added("event")]
    assert others == sorted(rows(OTHERS) + receivers)


def test_a_function_calls_only_what_its_queues_call(resources: Mapping[str, Resource]) -> None:
    """A function that was taken over can have its queues' accounts call anything that they may invoke."""
    held = set(rights(resources))
    acts_as = {on for member, role, on in held if (member, role) == ("fn-link-refresh", OF_FUNCTIONS[2])}
    assert {on for member, role, on in held if member in acts_as and role == OF_FUNCTIONS[0]} == {
        "link-refresh",
        "link-verify",
    }


def test_the_rights_of_functions_are_granted_to_functions_only(resources: Mapping[str, Resource]) -> None:
    held = {right for right in rights(resources) if right[1] in OF_FUNCTIONS[1:] and right[0] not in (BUILDER, BUILD)}
    assert {member for member, _, _ in held} == {f"fn-{function}" for function, *_, database in expected() if database}


def test_an_isolated_function_has_no_right_at_all(resources: Mapping[str, Resource]) -> None:
    assert [right for right in rights(resources) if right[0] == "fn-social-sandbox"] == []


def test_a_build_acts_as_the_accounts_that_it_sets_up_and_holds_no_other_right_here(
    resources: Mapping[str, Resource],
) -> None:
    held = {(role, on) for member, role, on in rights(resources) if member == BUILDER and role != OF_FUNCTIONS[0]}
    accounts = {each.values["account_id"] for each in resources.values() if each.kind == "google_service_account"}
    queues = {each for each in accounts if each.startswith("qu-")}
    assert held == {("roles/iam.serviceAccountUser", account) for account in accounts - queues}


def test_no_right_is_granted_in_another_way(resources: Mapping[str, Resource]) -> None:
    assert {each.kind for each in resources.values() if "iam" in each.kind} == set(ON) - {SECRET_READER, ARCHIVE_WRITER}


def test_every_function_runs_as_its_own_account(resources: Mapping[str, Resource]) -> None:
    functions = [each.values for each in resources.values() if each.kind == "google_cloudfunctions2_function"]
    accounts = {each["name"]: short(each["service_config"][0]["service_account_email"]) for each in functions}
    assert accounts == {function: f"fn-{function}" for function, *_ in expected()}


@pytest.fixture(scope="module")
def bootstrapped(deployed: Workspace) -> Mapping[str, Resource]:
    """Return the resources that `signalbox bootstrap` creates."""
    deployed.run("-chdir=bootstrap", "init", "-input=false")
    deployed.run("-chdir=bootstrap", "apply", "-input=false", "-auto-approve", "-var=project_id=demo-project")
    return deployed.resources("bootstrap")


def test_the_deployer_may_grant_what_a_deployment_grants_and_nothing_more(
    bootstrapped: Mapping[str, Resource], resources: Mapping[str, Resource]
) -> None:
    granting = bootstrapped["google_project_iam_member.deployer_grants"].values
    allowed = re.findall(r"'(roles/[^']+)'", granting["condition"][0]["expression"])
    granted = {each.values["role"] for each in resources.values() if each.kind == "google_project_iam_member"}
    assert granting["role"] == "roles/resourcemanager.projectIamAdmin"
    assert sorted(allowed) == sorted(granted)


def test_the_deployer_has_exactly_these_rights(bootstrapped: Mapping[str, Resource]) -> None:
    held = sorted(right_in_short(each) for each in bootstrapped.values() if "iam_member" in each.kind)
    assert held == sorted(rows(BOOTSTRAP))
    assert {each.kind for each in bootstrapped.values() if "iam" in each.kind} <= set(ON)


def test_no_right_of_the_project_lets_the_deployer_act_as_its_accounts_or_do_everything(
    bootstrapped: Mapping[str, Resource],
) -> None:
    of_project = {each.values["role"] for each in bootstrapped.values() if each.kind == "google_project_iam_member"}
    assert not of_project & {"roles/iam.serviceAccountUser", "roles/iam.serviceAccountTokenCreator"}
    assert not of_project & {"roles/owner", "roles/editor", "roles/cloudfunctions.admin"}


def right_in_short(right: Resource) -> Row:
    """Return a right of the deployer as its table's row: the role, and the object or the condition if there is one."""
    assert short(right.values["member"]) == BUILDER
    conditions = [f"if {each['title']}" for each in right.values.get("condition") or []]
    on = short(right.values[ON[right.kind]])
    return (right.values["role"], *conditions, *([on] if on != "demo-project" else []))


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
        "people": "ann signalbox-deployer",
        "queue": " ".join(f"qu-{queue}" for queue in sorted(load().calling_queues.get(function.name, ()))),
        "schedule": "kit-scheduler",
        "event": f"ev-{function.segment}",
    }
    invoking = [f"fn-{each.segment}" for each in load().functions.values() if function.name in each.invokes]
    named = " ".join(accounts[each] for each in function.invoked_by).split()
    callers = sorted(named + invoking + ["allUsers"] * function.public)
    database = "" if function.isolated else "signalbox-prod"
    return (function.segment, " ".join(callers), " ".join(sorted(function.enqueues)), database)


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
    queues, accounts, databases, objects = (
        sorted(on for member, role, on in held if (member, role) == (f"fn-{function}", r)) for r in OF_FUNCTIONS[1:]
    )
    assert accounts == [f"qu-{queue}" for queue in queues], function
    assert objects == [CATALOGUE] * bool(databases), function
    return (function, *(" ".join(cell) for cell in (callers, queues, databases)))


def short(name: str) -> str:
    """Shorten a member or an account to its id; leave anything else."""
    name = re.sub(r"^(user:|serviceAccount:|projects/.*/serviceAccounts/)|@.*$", "", name)
    return re.sub(r"^service-\d{12}$", "service-NUMBER", name)


def rows(table: str) -> list[Row]:
    """Read a table: a row a line, its cells between bars."""
    return [tuple(cell.strip() for cell in line.split("|")) for line in table.strip().splitlines()]


def test_the_page_counts_the_functions_and_accounts_that_are_applied(
    resources: Mapping[str, Resource], deployed: Workspace
) -> None:
    kinds = [each.kind for each in resources.values()]
    lock = yaml.safe_load(deployed.lock.read_text("utf-8"))
    counted = (kinds.count("google_cloudfunctions2_function"), kinds.count("google_service_account"))
    assert counted == size_of(lock, examples=True)
