"""GitHub Actions hold no key: main may deploy, everything else of the repository may read, others nothing."""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.infra.google_provider.server import GoogleProvider
from tests.infra.workspace import INFRA, Resource, Workspace

pytestmark = pytest.mark.slow

ROOT = INFRA.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yaml"))
NEW_PROJECTS = ROOT / "shared" / "signalbox_tools" / "setup" / "templates" / "test.yaml.txt"
PINNED = re.compile(r"uses: ([\w.-]+/[\w.-]+)@[0-9a-f]{40} # v(\d+)\.[\w.]+")
"""An action at a commit, and the commit's tag, which Dependabot reads and renews."""

NODE_24_SINCE = {
    "actions/attest-build-provenance": 3,
    "actions/checkout": 5,
    "actions/download-artifact": 7,
    "actions/setup-python": 6,
    "actions/upload-artifact": 6,
    "google-github-actions/auth": 3,
    "google-github-actions/setup-gcloud": 3,
    "hashicorp/setup-terraform": 4,
}
"""The first major version of each action that runs on Node 24: runners have no Node 20 since September 2026."""

TO_CALL_GOOGLE = {"contents": "read", "id-token": "write"}
TO_ATTEST = {"attestations": "write", "contents": "write", "id-token": "write"}
"""The permissions of a job that signs what another job has built, and attaches it to a release."""

LOCKED = {
    "pip": r"(.*/)?requirements(-dev)?\.in",
    "npm": r"(.*/)?package-lock\.json",
    "terraform": r"infra(/bootstrap)?/(versions|main)\.tf",
}
"""The files of each ecosystem of Dependabot that pin versions."""

REPOSITORY, NUMBER = "ann/signals", "123456789"
POOL = r"projects/\d+/locations/global/workloadIdentityPools/signalbox-github"
PLANNER_ROLES = {
    "projects/demo-project/roles/signalboxPlanner",
    "roles/iam.securityReviewer",
    "roles/storage.objectViewer",
}
READ_BY = {
    "google_artifact_registry_repository": "artifactregistry.repositories.get",
    "google_cloud_scheduler_job": "cloudscheduler.jobs.get",
    "google_cloud_tasks_queue": "cloudtasks.queues.get",
    "google_cloudfunctions2_function": "cloudfunctions.functions.get",
    "google_compute_backend_service": "compute.backendServices.get",
    "google_compute_global_address": "compute.globalAddresses.get",
    "google_compute_global_forwarding_rule": "compute.globalForwardingRules.get",
    "google_compute_managed_ssl_certificate": "compute.sslCertificates.get",
    "google_compute_region_network_endpoint_group": "compute.regionNetworkEndpointGroups.get",
    "google_compute_target_https_proxy": "compute.targetHttpsProxies.get",
    "google_compute_url_map": "compute.urlMaps.get",
    "google_eventarc_trigger": "eventarc.triggers.get",
    "google_firebaserules_release": "firebaserules.releases.get",
    "google_firebaserules_ruleset": "firebaserules.rulesets.get",
    "google_firestore_backup_schedule": "datastore.backupSchedules.get",
    "google_firestore_database": "datastore.databases.getMetadata",
    "google_firestore_field": "datastore.indexes.get",
    "google_firestore_index": "datastore.indexes.get",
    "google_logging_project_bucket_config": "logging.buckets.get",
    "google_logging_project_exclusion": "logging.exclusions.get",
    "google_logging_metric": "logging.logMetrics.get",
    "google_monitoring_alert_policy": "monitoring.alertPolicies.get",
    "google_monitoring_dashboard": "monitoring.dashboards.get",
    "google_monitoring_notification_channel": "monitoring.notificationChannels.get",
    "google_monitoring_custom_service": "monitoring.services.get",
    "google_monitoring_slo": "monitoring.slos.get",
    "google_monitoring_uptime_check_config": "monitoring.uptimeCheckConfigs.get",
    "google_project": "resourcemanager.projects.get",
    "google_project_iam_audit_config": "",  # a part of the project's policy
    "google_project_service": "serviceusage.services.list",
    "google_pubsub_subscription": "pubsub.subscriptions.get",
    "google_pubsub_topic": "pubsub.topics.get",
    "google_service_account": "iam.serviceAccounts.get",
    "google_storage_bucket": "storage.buckets.get",
    "google_storage_bucket_object": "",  # roles/storage.objectViewer, of two buckets
}
"""The right that a plan needs to read a kind of resource; policies are read with roles/iam.securityReviewer."""


@pytest.fixture(scope="module")
def prepared(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Return a project that was prepared for a repository."""
    with GoogleProvider() as google:
        workspace = Workspace(tmp_path_factory.mktemp("prepared"), google, zips)
        workspace.run("-chdir=bootstrap", "init", "-input=false")
        workspace.run("-chdir=bootstrap", "apply", "-input=false", "-auto-approve", *arguments())
        yield workspace


@pytest.fixture(scope="module")
def made(prepared: Workspace) -> Mapping[str, Resource]:
    return prepared.resources("bootstrap")


def arguments() -> list[str]:
    own = (f"-var=github_repository={REPOSITORY}", f"-var=github_repository_id={NUMBER}")
    return ["-var=project_id=demo-project", *own]


def test_preparing_it_again_changes_nothing(prepared: Workspace) -> None:
    again = prepared.run("-chdir=bootstrap", "plan", "-input=false", "-detailed-exitcode", *arguments(), check=False)
    assert again.returncode == 0, again.stdout


def test_without_a_repository_there_is_no_pool(prepared: Workspace) -> None:
    planned = prepared.run("-chdir=bootstrap", "plan", "-input=false", "-var=project_id=demo-project").stdout
    assert "google_iam_workload_identity_pool.github" in planned
    assert "will be destroyed" in planned


def test_only_the_repository_itself_is_let_in(made: Mapping[str, Resource]) -> None:
    provider = made['google_iam_workload_identity_pool_provider.github["repository"]'].values
    condition = f"assertion.repository_id == '{NUMBER}' && assertion.repository == '{REPOSITORY}'"
    assert provider["attribute_condition"] == condition
    assert provider["oidc"][0]["issuer_uri"] == "https://token.actions.githubusercontent.com"
    environment = "(has(assertion.environment) ? assertion.environment : '')"
    assert provider["attribute_mapping"] == {
        "google.subject": "assertion.sub",
        "attribute.repository": "assertion.repository_id",
        "attribute.deployment": f"assertion.repository_id + '@' + assertion.ref + '@' + {environment}",
    }


def test_the_environment_of_main_may_deploy_and_the_rest_may_only_read(made: Mapping[str, Resource]) -> None:
    federated = {
        each.values["service_account_id"].rpartition("/")[2].partition("@")[0]: each.values["member"]
        for each in made.values()
        if each.values.get("role") == "roles/iam.workloadIdentityUser"
    }
    set_of = rf"principalSet://iam\.googleapis\.com/{POOL}"
    assert set(federated) == {"signalbox-deployer", "signalbox-planner"}
    place = f"{NUMBER}@refs/heads/main@{parsed('deploy')['jobs']['deploy']['environment']}"
    assert re.fullmatch(rf"{set_of}/attribute\.deployment/{place}", federated["signalbox-deployer"])
    assert re.fullmatch(rf"{set_of}/attribute\.repository/{NUMBER}", federated["signalbox-planner"])


def test_the_planner_reads_and_nothing_else(made: Mapping[str, Resource]) -> None:
    planner = "serviceAccount:signalbox-planner@demo-project.iam.gserviceaccount.com"
    held = {
        each.values["role"] for each in made.values() if "iam_member" in each.kind and each.values["member"] == planner
    }
    assert held == PLANNER_ROLES
    [role] = [each.values for each in made.values() if each.kind == "google_project_iam_custom_role"]
    assert {name.rpartition(".")[2] for name in role["permissions"]} == {"get", "getMetadata", "list"}
    files = "\n".join(path.read_text("utf-8") for path in (*INFRA.glob("*.tf"), *INFRA.glob("modules/*/*.tf")))
    kinds = set(re.findall(r'^(?:resource|data) "(google_\w+)"', files, re.MULTILINE))
    assert {READ_BY[kind] for kind in kinds if not kind.endswith(("_iam_binding", "_iam_member"))} - {""} <= set(
        role["permissions"]
    )
    objects = made['google_project_iam_member.planner_reads["repository"]'].values
    assert "demo-project-signalbox-state" in objects["condition"][0]["expression"]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_one_that_github_takes(path: Path) -> None:
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows")
    ended = subprocess.run([*checker, path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_the_least_permissions_and_no_secret(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text("utf-8"))
    assert workflow["permissions"] == {"contents": "read"}
    for job in workflow["jobs"].values():
        steps = "\n".join(f"{each.get('uses', '')} {each.get('run', '')}" for each in job.get("steps", ()))
        takes_a_token = "google-github-actions/auth" in steps or "read_only_plan" in job.get("uses", "")
        attests = "actions/attest-build-provenance" in steps
        assert job.get("permissions") == (TO_ATTEST if attests else TO_CALL_GOOGLE if takes_a_token else None)
        assert not ((takes_a_token or attests) and re.search("make |uv build", steps.replace("make setup", ""))), (
            "code of tests and tools needs no account"
        )
    assert "secrets." not in path.read_text("utf-8")
    assert "pull_request_target" not in path.read_text("utf-8")  # its token names main, with a stranger's code


@pytest.mark.parametrize("path", [*WORKFLOWS, NEW_PROJECTS], ids=lambda path: path.stem)
def test_a_workflow_names_actions_by_their_commits_of_releases_that_runners_can_run(path: Path) -> None:
    uses = [line for line in path.read_text("utf-8").splitlines() if "uses: " in line and "uses: ./" not in line]
    found = {line: PINNED.search(line) for line in uses}
    assert [line for line, pinned in found.items() if not pinned] == []
    assert [line for line, pinned in found.items() if pinned and int(pinned[2]) < NODE_24_SINCE[pinned[1]]] == []


def test_packages_are_audited_each_night_and_on_pull_requests_and_before_a_deployment() -> None:
    assert {"run": "make audit"} in parsed("read_only_plan")["jobs"]["audit"]["steps"]
    before = [each.get("run", "") for each in parsed("deploy")["jobs"]["test"]["steps"]]
    assert before.index("make test") < before.index("make audit") < before.index("make sbom")
    assert parsed("deploy")["jobs"]["deploy"]["needs"] == "test"
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(r"(?m)^\t@.*pip-audit==\S+ --strict .*--require-hashes -r functions/requirements.txt$", makefile)


def test_pull_requests_are_tested_with_each_version_that_the_package_accepts() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", each) for each in project["classifiers"])
    accepted = [version[1] for version in found if version]
    assert parsed("test")["jobs"]["test"]["strategy"]["matrix"]["python"] == accepted
    assert project["requires-python"] == f">={accepted[0]}"
    [tests] = [each for each in parsed("test")["jobs"]["test"]["steps"] if each.get("run") == "make test"]
    assert tests["env"] == {"PYTHON": "python"}, "or make takes another version that the runner has"


def test_a_workflow_installs_only_a_provider_whose_checksum_is_committed() -> None:
    deploying, planning = parsed("deploy")["jobs"]["deploy"], parsed("read_only_plan")
    assert {each["env"]["TF_CLI_ARGS_init"] for each in (deploying, planning)} == {"-lockfile=readonly"}


def test_dependabot_renews_the_actions_and_every_lock() -> None:
    path = ROOT / ".github" / "dependabot.yml"
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot")
    ended = subprocess.run([*checker, path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    updates = yaml.safe_load(path.read_text("utf-8"))["updates"]
    renewed = {each["package-ecosystem"]: set(each.get("directories", [each.get("directory")])) for each in updates}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    folders = {
        ecosystem: {f"/{name.rpartition('/')[0]}" for name in tracked if re.fullmatch(pattern, name)}
        for ecosystem, pattern in LOCKED.items()
    }
    assert renewed == folders | {"github-actions": {"/"}}


def test_pull_requests_are_tested_with_the_versions_of_python_that_the_page_names() -> None:
    [versions] = [
        each["strategy"]["matrix"]["python"] for each in parsed("test")["jobs"].values() if "strategy" in each
    ]
    assert versions == ["3.11", "3.12", "3.13", "3.14"]
    page = (ROOT / "docs" / "github-actions.md").read_text("utf-8")
    assert f"tests with Python {', '.join(versions[:-1])} and {versions[-1]};" in page


def test_only_what_was_merged_runs_as_the_deployer() -> None:
    deploying = [path.stem for path in WORKFLOWS if "service_account: signalbox-deployer@" in path.read_text("utf-8")]
    workflow = parsed("deploy")
    assert deploying == ["deploy"]
    by_hand = triggers(workflow)["workflow_dispatch"]["inputs"]
    assert triggers(workflow) == {"push": {"branches": ["main"]}, "workflow_dispatch": {"inputs": by_hand}}
    assert by_hand.keys() == {"forward", "unchecked"}
    assert workflow["jobs"]["deploy"]["if"] == "github.ref == 'refs/heads/main'"
    for name in by_hand:
        assert workflow["jobs"]["deploy"]["env"][name.upper()] == f"${{{{ inputs.{name} && '1' || '' }}}}"
    assert workflow["concurrency"]["cancel-in-progress"] is False


def test_the_nightly_run_fails_on_a_difference_and_a_pull_request_does_not() -> None:
    assert triggers(parsed("drift")).keys() == {"schedule", "workflow_dispatch"}
    assert parsed("drift")["jobs"]["drift"]["with"] == {"drift": True}
    assert parsed("plan")["jobs"]["plan"]["with"] == {"drift": False}
    steps = parsed("read_only_plan")["jobs"]["plan"]["steps"]
    [planning] = [each for each in steps if " plan " in each.get("run", "")]
    assert planning["env"] == {"DETAILED": "${{ inputs.drift && '-detailed-exitcode' || '' }}"}
    assert "-lock=false" in planning["run"]


def test_the_workflows_use_the_builds_terraform_and_targets_of_the_makefile() -> None:
    text = "\n".join(path.read_text("utf-8") for path in WORKFLOWS)
    build = (ROOT / "cloudbuild.yaml").read_text("utf-8")
    versions = set(re.findall(r"terraform_version: (\S+)", text)) | set(re.findall(r"terraform:(\d\S+)", build))
    assert len(versions) == 1
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"run: make ([a-z-]+)", text)) <= targets


def test_the_images_of_a_build_are_named_by_an_exact_version_or_a_digest() -> None:
    build = yaml.safe_load((ROOT / "cloudbuild.yaml").read_text("utf-8"))
    images = {step["name"] for step in build["steps"]}
    assert images
    exact = re.compile(r".+(:\d+\.\d+\.\d+[\w-]*|@sha256:[0-9a-f]{64})")
    assert [each for each in images if not exact.fullmatch(each)] == []


def test_the_plan_of_a_workflow_names_variables_that_exist() -> None:
    [planning] = [each for each in parsed("read_only_plan")["jobs"]["plan"]["steps"] if " plan " in each.get("run", "")]
    declared = set(re.findall(r'^variable "(\w+)"', (INFRA / "variables.tf").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"-var=(\w+)=", planning["run"])) <= declared


def test_a_plan_of_the_workflow_is_made_as_the_account_that_deployed_last(deployed: Workspace, tmp_path: Path) -> None:
    """With another account, the plan would remove that account's right to call the functions."""
    [planning] = [each for each in parsed("read_only_plan")["jobs"]["plan"]["steps"] if " plan " in each.get("run", "")]
    choose = planning["run"].partition(";")[0].replace("-chdir=infra", f"-chdir={deployed.infra}")
    say = f'{choose}; echo "$deployer"'
    environment = deployed.google.environment() | {"PROJECT": "demo-project"}
    ended = subprocess.run(["bash", "-ec", say], env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout.strip() == "user:ann@example.com", ended.stderr


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yaml").read_text("utf-8"))
    return content


def triggers(workflow: dict[Any, Any]) -> dict[str, Any]:
    """Return when a workflow runs: YAML 1.1 reads the key `on` as true."""
    found: dict[str, Any] = workflow[True]
    return found
