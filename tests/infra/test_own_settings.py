"""The settings of a function's entry: variables, secrets that no other account may read, roles, minimum instances."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from signalbox.catalogue.reading import load
from tests.bench.cold_start import BUILD_ENVIRONMENT
from tests.infra import applied_state
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.test_iam import rights
from tests.infra.workspace import Resource, Workspace

pytestmark = pytest.mark.slow

FUNCTION = 'module.function["{}"].google_cloudfunctions2_function.function'
ENTRY = {
    "env": {"SHOP_NAME": "Print"},
    "secrets": {"STRIPE_KEY": "stripe-key", "OLD_KEY": "stripe-key:3", "MAIL_KEY": "mail"},
    "roles": ["roles/aiplatform.user"],
    "archives": ["shop-archive"],
    "instances_min": 1,
    "runtime": "python314",
    "vpc": {"network": "office", "subnetwork": "office-1", "egress": "all-traffic"},
}


def ask(catalogue: dict[str, Any]) -> None:
    catalogue["functions"]["quilt"] |= {**ENTRY, "auth": "firebase"}  # deployed twice: both halves have them
    catalogue["functions"]["todos"] |= {"secrets": {"MAIL_KEY": "mail"}, "vpc": {"network": "default"}}


@pytest.fixture(scope="module")
def asked(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("asked"), google, zips)
        made.edit_catalogue(ask)
        made.initialise()
        made.apply()
        yield made


@pytest.fixture(scope="module")
def resources(asked: Workspace) -> Mapping[str, Resource]:
    return asked.resources()


def test_each_half_of_the_function_has_its_variables_and_secrets(resources: Mapping[str, Resource]) -> None:
    for name in ("quilt", "quilt_tasks"):
        service = resources[FUNCTION.format(name)].values["service_config"][0]
        assert service["environment_variables"]["SHOP_NAME"] == "Print"
        assert service["min_instance_count"] == 1
        secrets = service["secret_environment_variables"]
        assert sorted((each["key"], each["secret"], each["version"]) for each in secrets) == [
            ("MAIL_KEY", "mail", "latest"),
            ("OLD_KEY", "stripe-key", "3"),
            ("STRIPE_KEY", "stripe-key", "latest"),
        ]
        assert resources[FUNCTION.format(name)].values["build_config"][0]["runtime"] == "python314"
        assert resources[FUNCTION.format(name)].values["build_config"][0]["environment_variables"] == BUILD_ENVIRONMENT
    others = [resources[FUNCTION.format(name)].values["service_config"][0] for name in ("documents", "sweep")]
    assert [(each["min_instance_count"], each["secret_environment_variables"]) for each in others] == [(0, [])] * 2


def test_only_what_names_a_network_leaves_through_it(resources: Mapping[str, Resource]) -> None:
    found = {}
    for name in ("quilt", "quilt_tasks", "todos", "documents"):
        service = resources[FUNCTION.format(name)].values["service_config"][0]
        joined = [(each["network"], each["subnetwork"]) for each in service["direct_vpc_network_interface"]]
        found[name] = (joined, service["direct_vpc_egress"] if joined else "")
    office = ([("office", "office-1")], "VPC_EGRESS_ALL_TRAFFIC")
    assert found == {
        "quilt": office,
        "quilt_tasks": office,
        "todos": ([("default", None)], "VPC_EGRESS_PRIVATE_RANGES_ONLY"),
        "documents": ([], ""),
    }


def test_what_was_applied_reads_back_with_its_network(asked: Workspace) -> None:
    catalogue = load()
    folders = {name: function.folder for name, function in catalogue.functions.items()}
    found = applied_state.read(asked.shown(), folders, catalogue.root).catalogue.functions
    networks = [found[name].vpc for name in ("quilt", "todos", "documents")]
    assert networks == [ENTRY["vpc"], {"network": "default"}, {}]


def test_no_other_account_reads_the_secrets_or_has_the_role(resources: Mapping[str, Resource]) -> None:
    held = set(rights(resources))
    assert {right for right in held if "secretmanager" in right[1]} == {
        (f"fn-{account}", "roles/secretmanager.secretAccessor", secret)
        for account, secret in [
            ("quilt", "mail"),
            ("quilt", "stripe-key"),
            ("quilt-tasks", "mail"),
            ("quilt-tasks", "stripe-key"),
            ("todos", "mail"),
        ]
    }
    assert {member for member, role, _ in held if role == "roles/aiplatform.user"} == {"fn-quilt", "fn-quilt-tasks"}


def test_only_the_tasks_of_a_function_write_its_archives(asked: Workspace, resources: Mapping[str, Resource]) -> None:
    writers = [right for right in rights(resources) if right[1] == "roles/storage.objectUser"]
    assert writers == [("fn-quilt-tasks", "roles/storage.objectUser", "shop-archive")]
    catalogue = load()
    folders = {name: function.folder for name, function in catalogue.functions.items()}
    found = applied_state.read(asked.shown(), folders, catalogue.root).catalogue.functions
    assert [found[name].archives for name in ("quilt", "documents")] == [("shop-archive",), ()]


def test_the_deployer_may_grant_the_roles_that_functions_ask_for(asked: Workspace) -> None:
    asked.run("-chdir=bootstrap", "init", "-input=false")
    asked.run("-chdir=bootstrap", "apply", "-input=false", "-auto-approve", "-var=project_id=demo-project")
    granting = asked.resources("bootstrap")["google_project_iam_member.deployer_grants"].values
    assert "roles/aiplatform.user" in re.findall(r"'(roles/[^']+)'", granting["condition"][0]["expression"])
