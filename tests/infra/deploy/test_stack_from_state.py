"""A build deploys the kit and a user's function on fakes, and the local stack from what was applied does its work.

Nothing here reads the catalogue: a queue, a right, a trigger or an account that Terraform gets wrong makes
a task, an event or a call fail, as it would in the cloud.
"""

import json
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping

import httpx
import pytest
import yaml

from signalbox.catalogue.parts import FUNCTIONS
from signalbox.catalogue.reading import load
from signalbox_tools.deploy import deployment_target
from signalbox_tools.deploy.deployment_client import poll
from signalbox_tools.local.services.command_lines import stats
from signalbox_tools.local.stack import Stack
from tests.infra.deploy.cloud_build import build
from tests.infra.deploy.deployed_site import ENVIRONMENT, PREFIX, Site
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.user_clone import PROJECT as ROOT
from tests.infra.deploy.user_clone import Clone
from tests.infra.workspace import Resource, by_address

SMOKE_STEPS = 9
SHARED = {"google_project_service"}  # what is turned on for one is on for all, and stays on
OF_PROD = {
    "google_monitoring_notification_channel",
    "google_firestore_backup_schedule",
    "google_logging_project_bucket_config",
}  # which dev does not ask for here
ASKING_THE_INDEX = (["make", "audit"], ["make", "sbom"])
"""Steps that ask the package index, which tests do not."""

SECONDS_MAX = 60.0
COPIES = 12
GREETER = '''"""A user's function: it greets each name in a task of its own."""

from signalbox import Response, Function, Request, Unit, batch, documents

app = Function("greeter")


@app.http("POST", "/{name}")
def welcome(request: Request, name: str) -> Response:
    batch(f"greeting-{name}").populate([greet.call(name=name)])
    return Response(202)


@app.task
def greet(unit: Unit, name: str) -> None:
    documents.put(f"greeted-{name}", {"said": f"Hello {name}"})


greeter = app.entry_point()
'''
ENTRY = "{folder: greeter}"
TESTS = (
    "-p no:schemathesis --numprocesses=0 "
    "tests/unit/catalogue/test_catalogue.py tests/packaging/test_packages.py -k 'kits_own or greeter'"
)

pytestmark = [pytest.mark.slow, pytest.mark.marathon, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def said(site: Site) -> dict[str, str]:
    """Build a clone that a user has added to; return what the steps printed."""
    site.kit.add_function("greeter", GREETER, ENTRY)
    printed: dict[str, str] = {}
    assert set(run_build(site.kit, printed).values()) == {0}, printed
    return printed


@pytest.fixture(scope="module")
def stack(site: Site, said: dict[str, str]) -> Stack:
    return site.stack


@pytest.fixture
def http(stack: Stack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=stack.base_url, timeout=SECONDS_MAX) as client:
        yield client


def run_build(kit: Clone, printed: dict[str, str]) -> dict[str, int]:
    """Run the project's build; return the status of its steps."""

    def run(command: list[str], folder: str, environment: dict[str, str]) -> int:
        if command in ASKING_THE_INDEX:
            return 0
        ended = kit.run(*command, folder=folder, **environment)
        printed[" ".join(command)] = ended.stdout
        return ended.returncode

    content = yaml.safe_load((ROOT / "cloudbuild.yaml").read_text())
    return build(content, str(kit.folder), run, PROJECT_ID=PROJECT, _TEST_ARGS=TESTS)


def test_what_a_build_has_deployed_passes_its_smoke_test(said: dict[str, str]) -> None:
    *_, deployed = said.values()
    assert deployed.count("\n  ok ") == SMOKE_STEPS


def test_the_names_that_are_looked_up_beforehand_are_those_that_terraform_creates(
    site: Site, said: dict[str, str]
) -> None:
    place, names = deployment_target.read(PROJECT, ENVIRONMENT), site.applied.catalogue.functions
    last = {kind: {name.rpartition("/")[2] for each, name in site.made if each == kind} for kind, _ in site.made}
    assert last["google_cloudfunctions2_function"] == {place.service(name) for name in names}
    assert last["google_firestore_database"] == {place.database}
    own = {f"fn-{place.service(name)}" for name in names if name not in FUNCTIONS}
    kits = f"kit-{place.name_prefix}functions"
    accounts = {f"{account}@{PROJECT}.iam.gserviceaccount.com" for account in {*own, kits}}
    assert accounts - last["google_service_account"] == set()


def test_a_quilt_is_painted_through_the_queues_that_were_applied(stack: Stack, http: httpx.Client) -> None:
    assert http.post("quilt", json={"quilt": "q1", "side": 4}).status_code == 202
    stack.wait_until_idle(SECONDS_MAX)
    quilt = http.get("batches/q1").json()
    assert (quilt["state"], quilt["succeeded"], quilt["failed"]) == ("completed", 16, 0)
    announced = http.get("documents", params={"where": "quilt==q1"}).json()["documents"]
    assert [each["squares"] for each in announced] == [16]


def test_copies_follow_through_the_trigger_that_was_applied(stack: Stack, http: httpx.Client) -> None:
    http.put("documents/city", json={"name": "Bonn"})
    for number in range(COPIES):
        http.put(f"documents/street-{number}", json={"city": {"key": "city"}})
    http.put("documents/city", json={"name": "Berlin"})
    stack.wait_until_idle(SECONDS_MAX)
    copies = [http.get(f"documents/street-{number}").json()["city"]["name"] for number in range(COPIES)]
    assert copies == ["Berlin"] * COPIES


def test_schedules_are_authenticated_as_the_account_that_was_applied(stack: Stack) -> None:
    poll(lambda: statuses(stack, "sweep") & {204} or None, SECONDS_MAX, "sweep was not called")
    assert not statuses(stack, "sweep") & {401, 403, 404}


def test_a_users_function_is_a_folder_and_an_entry_served_and_called_by_a_task(
    stack: Stack, http: httpx.Client
) -> None:
    assert http.post("greeter/ann").status_code == 202
    stack.wait_until_idle(SECONDS_MAX)
    assert http.get("documents/greeted-ann").json()["said"] == "Hello ann"


def test_a_users_function_is_called_by_and_enqueues_to_those_in_its_entry(site: Site, stack: Stack) -> None:
    greeter = site.applied.catalogue.functions["greeter"]
    assert (greeter.invoked_by, greeter.enqueues) == (("people", "queue"), ("admit", "batches", "links", "tasks"))


def test_what_is_closed_to_the_outside_is_closed_to_people(stack: Stack, http: httpx.Client) -> None:
    assert [http.post(name).status_code for name in ("sweep", "link-refresh", "link-fan-out")] == [404] * 3


def test_names_and_places_are_those_of_the_cloud(stack: Stack) -> None:
    settings = stack.settings
    assert (settings.queue_prefix, settings.database, settings.project) == (PREFIX, "signalbox-dev", PROJECT)
    assert settings.account_of("tasks") == f"qu-{PREFIX}tasks@{PROJECT}.iam.gserviceaccount.com"
    assert not settings.signatures_removed
    queues = f"projects/{PROJECT}/locations/us-central1/queues/{PREFIX}"
    assert set(stats(stack.identity_url)) == {queues + name for name in load().queues}


@pytest.mark.marathon
def test_a_second_deployment_changes_nothing(site: Site, said: dict[str, str]) -> None:
    operations = len(site.google.cloud.operations)
    again = site.kit.make("deploy", f"PROJECT={PROJECT}")
    assert (again.returncode, "No changes." in again.stdout) == (0, True), again.stdout
    assert len(site.google.cloud.operations) == operations


@pytest.mark.marathon
def test_two_environments_share_a_project_and_nothing_in_it(site: Site, said: dict[str, str]) -> None:
    of_prod = Counter(kind for kind, name in site.before if kind not in {*SHARED, *OF_PROD})
    of_dev = Counter(kind for kind, name in site.made if "greeter" not in name)
    assert of_dev == of_prod


@pytest.mark.marathon
def test_only_the_data_of_prod_is_protected(
    site: Site, said: dict[str, str], resources: Mapping[str, Resource]
) -> None:
    address = 'google_firestore_database.database["signalbox-{}"]'
    prod = resources[address.format("prod")].values
    dev = by_address(site.shown["values"])[address.format("dev")].values
    assert (prod["delete_protection_state"], prod["deletion_policy"]) == ("DELETE_PROTECTION_ENABLED", "ABANDON")
    assert (dev["delete_protection_state"], dev["deletion_policy"]) == ("DELETE_PROTECTION_DISABLED", "DELETE")


@pytest.mark.marathon
def test_the_end_of_one_environment_leaves_the_other_as_it_was(site: Site, stack: Stack) -> None:
    shutil.rmtree(site.kit.folder / "dist")  # a clone that has packaged nothing can tear down too
    destroyed = site.kit.make("destroy", f"PROJECT={PROJECT}", "CONFIRM=dev")
    assert (destroyed.returncode, "What stays:" in destroyed.stdout) == (0, True), destroyed.stdout
    kept = {kind for kind, _ in site.made} - {"google_firestore_field"}  # they go with the database
    assert kept == {"google_cloud_tasks_queue"}, "their names would be taken for days"
    assert site.before <= frozenset(site.google.cloud.existing)


def statuses(stack: Stack, function: str) -> set[object]:
    """Return how the calls of a function ended so far, out of its log."""
    lines = [json.loads(line) for line in (stack.folder / "functions.log").read_text().splitlines() if line[:1] == "{"]
    return {line.get("status") for line in lines if (line["message"], line.get("function")) == ("handled", function)}
