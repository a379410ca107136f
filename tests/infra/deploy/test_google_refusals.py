"""Google's refusals are recognised by their texts, and classified by whether waiting helps."""

import re

import pytest

from signalbox_tools.deploy import deployment_target, google_refusals
from signalbox_tools.deploy.apply_attempts import Attempts
from signalbox_tools.deploy.google_refusals import FOR_A_WHILE, FOR_GOOD, TABLE
from signalbox_tools.deploy.plan_summary import Plan
from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.deploy.waiting_clock import Clock
from tests.infra.deploy.gcloud import PROJECT

DEV = deployment_target.read(PROJECT, "dev")
BUILD = (
    "Error waiting to create function: Error waiting for Creating function: Error code 13, message: Build failed with"
)
POLICY = "Error setting IAM policy for cloudrun service: googleapi: Error 400: "
SAID = {
    "sources": f"{BUILD} status: FAILURE and message: failed to Fetch: failed to download archive: Access "
    "to bucket gcf-v2-sources-1-us-central1 denied. You must grant Storage Object Viewer permission to kit",
    "repository": "googleapi: Error 403: Unable to retrieve the repository metadata for projects/p/locations/l/"
    "repositories/signalbox. Ensure that the Cloud Functions service account has 'artifactregistry.repositories.list'",
    "eventarc": 'googleapi: Error 400: Invalid resource state for "": Permission denied while using the Eventarc '
    "Service Agent. If you recently started to use Eventarc, it may take a few minutes",
    "api": "googleapi: Error 403: Cloud Tasks API has not been used in project 1 before or it is disabled.",
    "firestore": "googleapi: Error 409: too much contention on these datastore entities. please try again.",
    "read too early": "Provider produced inconsistent result after apply\n\n"
    'When applying changes to a.b["c"], provider "provider[\\"registry.terraform.io/hashicorp/google\\"]" '
    "produced an unexpected new value: Root object was present, but now absent.",
    "account": "Error 400: Service account kit-build@p.iam.gserviceaccount.com does not exist., badRequest",
    "field": "Error waiting to create Field: Error waiting for Creating Field: timeout while waiting for state",
    "database name": "Error 400: Database ID 'signalbox-dev' is not available in project 'p'. Retry in 214 seconds.",
    "metric": 'Error 404: Cannot find metric(s) that match type = "cloudtasks.googleapis.com/queue/depth". If a',
    "account quota": "googleapi: Error 429: Maximum number of service accounts on project reached., rateLimitExceeded",
    "group": "Error setting IAM policy: googleapi: Error 400: Group deployers@example.com does not exist., badRequest",
    "start": "Error code 9, message: Could not create or update Cloud Run service sweep, Container Healthcheck failed.",
    "rights": "googleapi: Error 403: Permission 'iam.serviceAccounts.actAs' denied on service account kit-tasks@p",
    "builds": f"{BUILD} status: EXPIRED",
    "token": "googleapi: Error 401: Request had invalid authentication credentials. Expected OAuth 2 access token",
    "internal": "googleapi: Error 503: The service is currently unavailable., backendError",
    "queue name": "Error 400: The queue cannot be created because a queue with this name existed too recently.",
    "database exists": "googleapi: Error 409: Database already exists. Please use another database_id",
    "exists": "googleapi: Error 409: Resource 'projects/p/locations/l/functions/sweep' already exists",
    "region": "failed precondition: due to quota restrictions, cannot run builds in this region.",
    "instances": "Could not create Cloud Run service sweep. For the specified value, maxScale may not exceed 10.",
    "members": f"{POLICY}One or more users named in the policy do not belong to a permitted customer, perhaps due to",
    "ingress": "Error 403: Constraint constraints/cloudfunctions.allowedIngressSettings violated ",
    "locations": "googleapi: Error 412: 'us-central1' violates constraint 'constraints/gcp.resourceLocations'",
    "accounts": "Error 400: Service account creation is not allowed on this project., failedPrecondition",
    "perimeter": "Error retrieving IAM policy: googleapi: Error 403: Request is prohibited by organization's policy. "
    "vpcServiceControlsUniqueIdentifier: VQQnKfXtZ16NHnOmdJAy0E92tVT",
    "services": "Error 403: Request is disallowed by organization's constraints/gcp.restrictServiceUsage "
    "constraint for 'projects/p' attempting to use service 'cloudtasks.googleapis.com'.",
    "location": "googleapi: Error 400: Location 'europe-west12' is not a valid location. Use ListLocations",
    "key": "googleapi: Error 403: Permission 'cloudkms.cryptoKeyVersions.useToEncrypt' denied on 'projects/p/key'",
    "policy": "The request has violated one or more Org Policies. Please refer to the respective violations",
    "billing": "Error 403: This API method requires billing to be enabled. Please enable billing on project #1",
    "lock": "Error acquiring the state lock",
    "build": f"{BUILD} status: FAILURE. Could not find a version that satisfies the requirement nonesuch",
}


@pytest.mark.parametrize("name", SAID)
def test_a_refusal_is_recognised_however_terraform_breaks_its_lines(name: str) -> None:
    broken = re.sub(r"(.{60,70}) ", r"\1\n", SAID[name])
    [failure] = google_refusals.failures(f'\n╷\n│ Error: {broken}\n│ \n│   with a.b["c"],\n│   on x.tf line 1\n╵\n')
    assert (failure.refusal.name, failure.address) == (name, 'a.b["c"]')


DENIED = "Error 400: Operation denied by org policy on resource 'projects/p': "


@pytest.mark.parametrize(
    ("said", "name"),
    [
        (f'{DENIED}["constraints/iam.managed.disableServiceAccountCreation": "no accounts"]', "accounts"),
        (f'{DENIED}["constraints/iam.managed.allowedPolicyMembers": "members only"]', "members"),
        (f'{DENIED}["constraints/storage.managed.x": ""]', "policy"),
        ('Error 400: Operation denied by custom org policies: ["customConstraints/custom.retries": ""].', "policy"),
        ("Error 403: Location europe-west12 is not found or access is unauthorized.", "location"),
        ("Error 429: Quota exceeded for databases with CMEK. Ask for access", "key"),
    ],
)
def test_the_newer_forms_of_a_policy_and_other_texts_of_a_refusal_are_known(said: str, name: str) -> None:
    [failure] = google_refusals.failures(f"Error: {said}\n\n  with a.b,\n")
    assert failure.refusal.name == name
    assert google_refusals.wait_seconds([failure], {(name, "a.b"): 1}) is None


def test_every_refusal_of_the_table_is_tried_here() -> None:
    assert set(SAID) == {each.name for each in TABLE}
    assert len(TABLE) == len(FOR_A_WHILE) + len(FOR_GOOD)


def test_every_refusal_says_where_it_was_reported_and_what_to_do() -> None:
    assert [each.name for each in TABLE if not (each.source and each.meaning and each.remedy)] == []
    assert {len(each.waits) for each in FOR_A_WHILE} == {3, 9}
    assert {each.waits for each in FOR_GOOD} == {()}


def test_the_longest_wait_counts_and_one_refusal_for_good_ends_it() -> None:
    both = google_refusals.failures(f"Error: {SAID['api']}\n\nError: {SAID['eventarc']}\n")
    met = [{("api", ""): tries, ("eventarc", ""): tries} for tries in (1, 2, 3, 4)]
    assert [google_refusals.wait_seconds(both, each) for each in met] == [120, 180, 300, None]
    assert google_refusals.wait_seconds(both, {("api", ""): 3, ("eventarc", ""): 1}) == 180
    worse = google_refusals.failures(f"Error: {SAID['api']}\n\nError: {SAID['members']}\n")
    assert google_refusals.wait_seconds(worse, {("api", ""): 1, ("members", ""): 1}) is None
    assert "allowedPolicyMemberDomains" in google_refusals.report(worse)
    assert "Cloud Tasks API" not in google_refusals.report(worse)


def test_the_same_refusal_of_another_resource_begins_its_own_waits() -> None:
    attempts = Attempts(DEV, lambda _: None, Clock(lambda: 0.0, lambda _: None))
    for name in "abcdef":  # a server fails once for each of six functions, in six applies
        attempts.refused(f'Error: {SAID["internal"]}\n\n  with module.function["{name}"].f,\n')
    for _ in range(2):
        attempts.refused(f'Error: {SAID["internal"]}\n\n  with module.function["a"].f,\n')
    with pytest.raises(CommandFailed, match="Waiting was tried"):
        attempts.refused(f'Error: {SAID["internal"]}\n\n  with module.function["a"].f,\n')


def test_resources_that_a_failing_server_may_have_created_are_imported_except_a_database() -> None:
    attempts = Attempts(DEV, lambda _: None, Clock(lambda: 0.0, lambda _: None))
    queue, database = 'google_cloud_tasks_queue.queue["tasks"]', 'google_firestore_database.database["signalbox-dev"]'
    plan = Plan(created_values={queue: {"name": "tasks"}, database: {"name": "signalbox-dev"}})
    attempts.refused("".join(f"Error: {SAID['internal']}\n\n  with {each},\n" for each in (queue, database)), plan)
    assert attempts.unsaved == {queue: f"projects/{PROJECT}/locations/us-central1/queues/tasks"}


def test_many_resources_with_one_reason_are_one_line() -> None:
    printed = "".join(f'Error: {SAID["sources"]}\n\n  with module.function["{name}"].f,\n' for name in "abc")
    [reason] = google_refusals.reasons(google_refusals.failures(printed))
    assert reason.endswith('has not taken effect everywhere. (module.function["a"].f and 2 more)')


@pytest.mark.parametrize(
    "text",
    [
        "Service account kit-build@p.iam.gserviceaccount.com was not found.",
        "serviceAccount:fn-sweep@p.iam.gserviceaccount.com does not exist.",
    ],
)
def test_an_account_that_is_not_known_yet_is_not_a_wrong_member(text: str) -> None:
    [failure] = google_refusals.failures(f"Error: googleapi: Error 400: {text}")
    assert failure.refusal.name == "account"
