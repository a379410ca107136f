"""All rights: a right that is not in these two tables is one too many.

The tables have the kit's rights; a function that was added to the catalogue has the rights that its entry implies.
Accounts are named by their ids: ``fn-`` runs a user's function, ``kit-functions`` those of the kit, ``qu-`` calls with
queues' tasks, ``kit-events`` with events, ``kit-scheduler`` by schedules; ``kit-build`` builds. Ann deploys, and so may
``signalbox-deployer``, which Cloud Build runs as.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

import pytest
import yaml

from signalbox.catalogue.parts import FUNCTIONS as FUNCTIONS_OF_THE_KIT
from signalbox.catalogue.reading import Function, load
from signalbox.core.kit_names import CALLED_BY_QUEUES_ONLY, queue_account
from signalbox_tools.setup.generated_pages import size_of
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

Row = tuple[str, ...]

# The callers of each function, and the account that it runs as.
FUNCTIONS = """
accounts         | ann qu-tasks signalbox-deployer               | fn-accounts
batch-complete   | ann signalbox-deployer                        | kit-functions
batch-expand     | qu-kit-workers                                | kit-functions
batches          | ann signalbox-deployer                        | kit-functions
critical-section | ann signalbox-deployer                        | kit-functions
documents        | ann signalbox-deployer                        | kit-functions
failures         | ann signalbox-deployer                        | kit-functions
link-fan-out     | kit-events                                    | kit-functions
link-refresh     | qu-kit-workers                                | kit-functions
link-verify      | qu-kit-workers                                | kit-functions
machines         | ann qu-tasks signalbox-deployer               | fn-machines
philosophers     | ann qu-tasks signalbox-deployer               | fn-philosophers
quilt            | ann qu-tasks signalbox-deployer               | fn-quilt
seats            | ann qu-tasks signalbox-deployer               | fn-seats
semaphore-admit  | qu-kit-workers                                | kit-functions
semaphore-renew  | ann signalbox-deployer                        | kit-functions
semaphore-signal | ann signalbox-deployer                        | kit-functions
semaphore-wait   | ann signalbox-deployer                        | kit-functions
semaphores       | ann signalbox-deployer                        | kit-functions
shop             | ann kit-events qu-tasks signalbox-deployer    | fn-shop
smoke            | qu-tasks                                      | kit-functions
social-code      | ann qu-tasks signalbox-deployer               | fn-social-code
social-sandbox   | ann fn-social-code signalbox-deployer         | fn-social-sandbox
standing-count   | kit-events                                    | kit-functions
standing-fold    | qu-kit-workers                                | kit-functions
standings        | ann kit-scheduler signalbox-deployer          | kit-functions
sweep            | kit-scheduler                                 | kit-functions
tasks            | ann kit-scheduler signalbox-deployer          | kit-functions
transforms       | ann signalbox-deployer                        | kit-functions
verifications    | ann kit-scheduler signalbox-deployer          | kit-functions
yokes            | ann signalbox-deployer                        | kit-functions
"""

# The rights of the accounts that functions run as: to enqueue, which includes to act as accounts of queues, and to use
# a database.
ACCOUNTS = """
fn-accounts       | objects tasks                                   | signalbox-prod
fn-machines       | admit batches flows links tasks                 | signalbox-prod
fn-philosophers   | admit batches links tasks                       | signalbox-prod
fn-quilt          | admit batches links tasks                       | signalbox-prod
fn-seats          | admit batches flows links tasks                 | signalbox-prod
fn-shop           | admit batches flows links objects tasks         | signalbox-prod
fn-social-code    | admit batches flows links standings tasks       | signalbox-prod
fn-social-sandbox |                                                 |
kit-functions     | admit batches flows links objects standings tasks | signalbox-prod
"""

OTHERS = """
kit-build       | roles/artifactregistry.writer | signalbox
kit-build       | roles/logging.logWriter       | demo-project
kit-build       | roles/storage.objectViewer    | gcf-v2-sources-NUMBER-us-central1 demo-project-signalbox-sources
kit-events      | roles/eventarc.eventReceiver  | demo-project
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
    "google_cloud_tasks_queue_iam_binding": "name",
    "google_project_iam_binding": "project",
    "google_project_iam_member": "project",
    "google_pubsub_topic_iam_member": "topic",
    SECRET_READER: "secret_id",
    "google_service_account_iam_binding": "service_account_id",
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
PROJECT_BINDING = "google_project_iam_binding"
CREATED = ("google_cloud_tasks_queue", "google_service_account")
CATALOGUE = "demo-project-signalbox-sources/objects/catalogue.json"
"""What each function reads of the bucket, and nothing else."""

NARROWING = re.compile(
    r'resource\.name == "projects/(?:[^/]+/databases|_/buckets)/([^"]+)"|'
    r'resource\.name\.startsWith\("projects/_/buckets/([^"]+)"\)'
)


def test_functions_are_called_by_and_run_as_exactly_these(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    functions = [each.values for each in resources.values() if each.kind == "google_cloudfunctions2_function"]
    accounts = {each["name"]: short(each["service_config"][0]["service_account_email"]) for each in functions}
    called = [(each, callers_of(each, held), accounts[each]) for each in sorted(accounts)]
    assert called == expected()


def test_accounts_of_functions_may_do_exactly_this(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    accounts = sorted({account for *_, account in expected()})
    assert [row_of(account, held) for account in accounts] == expected_accounts()


def test_the_rules_for_an_added_function_yield_the_tables_rows_for_those_of_the_kit() -> None:
    functions = load().functions.values()
    assert sorted(map(row_asked_for, functions)) == expected()
    assert account_rows(functions) == expected_accounts()


def test_other_accounts_have_exactly_these_rights(resources: Mapping[str, Resource]) -> None:
    others = sorted(right for right in rights(resources) if right[1] not in OF_FUNCTIONS or right[0] == BUILD)
    assert others == sorted(rows(OTHERS))


def test_a_function_calls_only_what_its_queues_accounts_call(resources: Mapping[str, Resource]) -> None:
    """A function that was taken over can have its queues' accounts call anything that they may invoke."""
    held = set(rights(resources))
    acts_as = {on for member, role, on in held if (member, role) == ("fn-accounts", OF_FUNCTIONS[2])}
    assert acts_as == {"qu-tasks"}
    called = {on for member, role, on in held if member in acts_as and role == OF_FUNCTIONS[0]}
    assert called == {segment for segment, callers, _ in expected() if "qu-tasks" in callers.split()}
    assert not called & {f"{worker}".replace("_", "-") for worker in CALLED_BY_QUEUES_ONLY}


def test_workers_of_the_kit_and_functions_of_users_are_called_as_different_accounts() -> None:
    workers = {segment for segment, callers, _ in expected() if "qu-kit-workers" in callers.split()}
    assert workers == {worker.replace("_", "-") for worker in CALLED_BY_QUEUES_ONLY}


def test_the_rights_of_functions_are_granted_to_functions_only(resources: Mapping[str, Resource]) -> None:
    held = {right for right in rights(resources) if right[1] in OF_FUNCTIONS[1:] and right[0] not in (BUILDER, BUILD)}
    assert {member for member, _, _ in held} == {account for account, *_, database in expected_accounts() if database}


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


def test_a_binding_replaces_no_right_that_another_deployment_or_person_granted(
    deployed: Workspace, resources: Mapping[str, Resource]
) -> None:
    """One replaces all members of its role and condition: on the project, no other deployment has this condition."""
    deployed.plan(prefix="blue")
    both = [resources, deployed.planned()]
    titles = [
        {
            f"{each.values['role']} if {each.values['condition'][0]['title']}"
            for each in made.values()
            if each.kind == PROJECT_BINDING
        }
        for made in both
    ]
    assert titles == [
        {"roles/datastore.user if signalbox-database", "roles/storage.objectViewer if signalbox-list-of-functions"},
        {
            "roles/datastore.user if blue-signalbox-database",
            "roles/storage.objectViewer if blue-signalbox-list-of-functions",
        },
    ]
    own = {each.values.get("name") for each in resources.values() if each.kind in CREATED}
    bound = [each for each in resources.values() if each.kind.endswith("_iam_binding") and each.kind != PROJECT_BINDING]
    assert {each.values[ON[each.kind]] for each in bound} <= own


OF_OPTIONS = {"roles/datastore.importExportAdmin"}
"""Roles that a deployment grants only if its environment's file asks for `exports`."""


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
    granted = {each.values["role"] for each in resources.values() if each.kind.startswith("google_project_iam_")}
    assert granting["role"] == "roles/resourcemanager.projectIamAdmin"
    assert sorted(allowed) == sorted(granted | OF_OPTIONS)


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


def expected_accounts() -> list[Row]:
    """Return the rows of the accounts of functions, and one for each function of a user that was added."""
    return sorted(rows(ACCOUNTS) + account_rows(each for each in added() if each.name not in FUNCTIONS_OF_THE_KIT))


def added() -> list[Function]:
    """Return the functions that the table does not name."""
    named = {function for function, *_ in rows(FUNCTIONS)}
    return [each for each in load().functions.values() if each.segment not in named]


def row_asked_for(function: Function) -> Row:
    """Return the row that a function's entry in the catalogue implies."""
    accounts = {
        "people": "ann signalbox-deployer",
        "queue": " ".join(f"qu-{queue_account(queue)}" for queue in load().calling_queues.get(function.name, ())),
        "schedule": "kit-scheduler",
        "event": "kit-events",
    }
    invoking = [f"fn-{each.segment}" for each in load().functions.values() if function.name in each.invokes]
    named = " ".join(accounts[each] for each in function.invoked_by).split()
    callers = sorted({*named, *invoking, *(["allUsers"] if function.public else [])})
    return (function.segment, " ".join(callers), account_of(function))


def account_of(function: Function) -> str:
    """Return the account that a function runs as."""
    return "kit-functions" if function.name in FUNCTIONS_OF_THE_KIT else f"fn-{function.segment}"


def account_rows(functions: Iterable[Function]) -> list[Row]:
    """Return the rows of the accounts that these functions run as."""
    queues: dict[tuple[str, str], set[str]] = {}
    for function in functions:
        key = account_of(function), "" if function.isolated else "signalbox-prod"
        queues.setdefault(key, set()).update(function.enqueues)
    return sorted((account, " ".join(sorted(named)), database) for (account, database), named in queues.items())


def rights(resources: Mapping[str, Resource]) -> Iterator[tuple[str, str, str]]:
    """Return every right that was given: to whom, which role, on what."""
    for each in resources.values():
        if each.kind in ON:
            for member in each.values.get("members") or [each.values["member"]]:
                yield short(member), each.values["role"], narrowed(each)


def narrowed(right: Resource) -> str:
    """Return the object of a right in few words, narrowed by its condition if it has one."""
    conditions = right.values.get("condition") or []
    left = [name for each in conditions for found in NARROWING.findall(each["expression"]) for name in found if name]
    return re.sub("[0-9]{12}", "NUMBER", " ".join(left)) if conditions else short(right.values[ON[right.kind]])


def callers_of(function: str, held: set[tuple[str, str, str]]) -> str:
    """Return the callers of a function, as its row of the table has them."""
    return " ".join(sorted(member for member, role, on in held if (role, on) == (OF_FUNCTIONS[0], function)))


def row_of(account: str, held: set[tuple[str, str, str]]) -> Row:
    """Return the row of an account that functions run as."""
    queues, accounts, databases, objects = (
        sorted(on for member, role, on in held if (member, role) == (account, r)) for r in OF_FUNCTIONS[1:]
    )
    assert accounts == sorted({f"qu-{queue_account(queue)}" for queue in queues}), account
    assert objects == [CATALOGUE] * bool(databases), account
    return (account, *(" ".join(cell) for cell in (queues, databases)))


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
