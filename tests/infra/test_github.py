"""GitHub Actions hold no key: main may deploy, everything else of the repository may read, others nothing."""

import re
import subprocess
import sys
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
PINNED = re.compile(r"uses: [\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\w.]+")
"""An action at a commit, and the commit's tag, which Dependabot reads and renews."""

REPOSITORY = "ann/signals"
POOL = r"projects/\d+/locations/global/workloadIdentityPools/signalbox-github"
PLANNER_ROLES = {
    "roles/iam.securityReviewer",
    "roles/storage.bucketViewer",
    "roles/storage.objectViewer",
    "roles/viewer",
}


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
    return ["-var=project_id=demo-project", f"-var=github_repository={REPOSITORY}"]


def test_preparing_it_again_changes_nothing(prepared: Workspace) -> None:
    again = prepared.run("-chdir=bootstrap", "plan", "-input=false", "-detailed-exitcode", *arguments(), check=False)
    assert again.returncode == 0, again.stdout


def test_without_a_repository_there_is_no_pool(prepared: Workspace) -> None:
    planned = prepared.run("-chdir=bootstrap", "plan", "-input=false", "-var=project_id=demo-project").stdout
    assert "google_iam_workload_identity_pool.github" in planned
    assert "will be destroyed" in planned


def test_only_the_repository_itself_is_let_in(made: Mapping[str, Resource]) -> None:
    provider = made['google_iam_workload_identity_pool_provider.github["repository"]'].values
    assert provider["attribute_condition"] == f"assertion.repository == '{REPOSITORY}'"
    assert provider["oidc"][0]["issuer_uri"] == "https://token.actions.githubusercontent.com"
    assert provider["attribute_mapping"]["attribute.branch"] == "assertion.repository + '@' + assertion.ref"


def test_main_may_deploy_and_the_rest_may_only_read(made: Mapping[str, Resource]) -> None:
    federated = {
        each.values["service_account_id"].rpartition("/")[2].partition("@")[0]: each.values["member"]
        for each in made.values()
        if each.values.get("role") == "roles/iam.workloadIdentityUser"
    }
    set_of = rf"principalSet://iam\.googleapis\.com/{POOL}"
    assert set(federated) == {"signalbox-deployer", "signalbox-planner"}
    assert re.fullmatch(rf"{set_of}/attribute\.branch/{REPOSITORY}@refs/heads/main", federated["signalbox-deployer"])
    assert re.fullmatch(rf"{set_of}/attribute\.repository/{REPOSITORY}", federated["signalbox-planner"])


def test_the_planner_reads_and_nothing_else(made: Mapping[str, Resource]) -> None:
    planner = "serviceAccount:signalbox-planner@demo-project.iam.gserviceaccount.com"
    held = {
        each.values["role"] for each in made.values() if "iam_member" in each.kind and each.values["member"] == planner
    }
    assert held == PLANNER_ROLES


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_is_one_that_github_takes(path: Path) -> None:
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows")
    ended = subprocess.run([*checker, path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_the_least_permissions_and_no_secret(path: Path) -> None:
    assert yaml.safe_load(path.read_text("utf-8"))["permissions"] == {"contents": "read", "id-token": "write"}
    assert "secrets." not in path.read_text("utf-8")
    assert "pull_request_target" not in path.read_text("utf-8")  # its token names main, with a stranger's code


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_names_actions_by_their_commits(path: Path) -> None:
    uses = [line for line in path.read_text("utf-8").splitlines() if "uses: " in line and "uses: ./" not in line]
    assert [line for line in uses if not PINNED.search(line)] == []


def test_dependabot_renews_the_actions() -> None:
    path = ROOT / ".github" / "dependabot.yml"
    checker = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.dependabot")
    ended = subprocess.run([*checker, path], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    ecosystems = [update["package-ecosystem"] for update in yaml.safe_load(path.read_text("utf-8"))["updates"]]
    assert ecosystems == ["github-actions"]


def test_only_what_was_merged_runs_as_the_deployer() -> None:
    deploying = [path.stem for path in WORKFLOWS if "service_account: signalbox-deployer@" in path.read_text("utf-8")]
    workflow = parsed("deploy")
    assert deploying == ["deploy"]
    assert triggers(workflow) == {"push": {"branches": ["main"]}}
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


def test_the_plan_of_a_workflow_names_variables_that_exist() -> None:
    [planning] = [each for each in parsed("read_only_plan")["jobs"]["plan"]["steps"] if " plan " in each.get("run", "")]
    declared = set(re.findall(r'^variable "(\w+)"', (INFRA / "variables.tf").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"-var=(\w+)=", planning["run"])) <= declared


def parsed(name: str) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / f"{name}.yaml").read_text("utf-8"))
    return content


def triggers(workflow: dict[Any, Any]) -> dict[str, Any]:
    """Return when a workflow runs: YAML 1.1 reads the key `on` as true."""
    found: dict[str, Any] = workflow[True]
    return found
