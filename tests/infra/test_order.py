"""What takes minutes to become true in the cloud is asked for early, and what needs it waits."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from shared.testing.expiry_policies import POLICIES
from tests.infra.google_provider.server import GoogleProvider
from tests.infra.google_provider.servicer import Operation
from tests.infra.workspace import Workspace

RIGHTS = ("google_project_iam_member", "google_artifact_registry_repository_iam_member")
ACT_AS = "google_service_account_iam_member"
FUNCTION = "google_cloudfunctions2_function"
FIELD, INDEX = "google_firestore_field", "google_firestore_index"
NEAR = {"collection": "documents", "fields": ["tags[]", "name"]}


@pytest.fixture(scope="module")
def workspace(zips: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """Return a first deployment, in a cloud of its own."""
    with GoogleProvider() as google:
        made = Workspace(tmp_path_factory.mktemp("first"), google, zips)
        made.edit_catalogue(lambda catalogue: catalogue.update(indexes={"near": NEAR}))
        made.initialise()
        made.apply()
        yield made


@pytest.fixture(scope="module")
def created(workspace: Workspace) -> list[Operation]:
    """Return what was created, in order."""
    return [each for each in workspace.google.cloud.operations if each.verb == "create"]


def places(created: list[Operation], *kinds: str) -> list[int]:
    return [place for place, each in enumerate(created) if each.kind in kinds]


def test_no_function_is_built_before_the_rights_that_it_needs(created: list[Operation]) -> None:
    assert max(places(created, *RIGHTS, ACT_AS)) < min(places(created, FUNCTION))


def test_functions_wait_for_their_rights_to_take_effect(workspace: Workspace) -> None:
    workspace.run("state", "rm", "terraform_data.rights")
    waited = workspace.apply(rights_seconds=1)
    assert "sleep 1" in waited


def test_policies_that_were_deployed_each_in_a_block_of_its_own_are_left_as_they_are(workspace: Workspace) -> None:
    state = json.loads(workspace.run("state", "pull").stdout)
    expiring = next(each for each in state["resources"] if each["name"] == "expiring")
    state["resources"].remove(expiring)
    for instance in expiring["instances"]:
        name = instance.pop("index_key")
        state["resources"].append({**expiring, "name": name, "instances": [instance]})
    file = workspace.infra / "before.tfstate"
    file.write_text(json.dumps(state | {"serial": state["serial"] + 1}), "utf-8")
    workspace.run("state", "push", str(file))
    moved = workspace.plan().stdout
    assert moved.count("has moved to") == len(POLICIES)
    assert workspace.changes() == {}


def test_only_a_new_right_makes_them_wait_again(workspace: Workspace) -> None:
    workspace.plan(invokers=["group:all@example.com"])
    assert "terraform_data.rights" not in workspace.changes()
    with_another = {"folder": "examples/quilt", "invoked_by": ["people"]}
    workspace.edit_catalogue(lambda catalogue: catalogue["functions"].update(another=with_another))
    (workspace.infra.parent / "dist" / "another.zip").touch()
    workspace.plan()
    assert workspace.changes()["terraform_data.rights"] == ["delete", "create"]


def test_one_field_is_indexed_first_then_the_others_then_what_combines_them(created: list[Operation]) -> None:
    first, *others = places(created, FIELD)
    assert created[first].value["field"] == "_signalbox"
    assert {created[place].value["collection"] for place in others} > POLICIES.keys()
    assert max(others) < min(places(created, INDEX))
