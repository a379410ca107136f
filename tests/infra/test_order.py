"""Changes that take minutes to take effect in the cloud are made early, and the resources that need them wait."""

import pytest

from tests.expiry_policies import POLICIES
from tests.infra.google_provider.servicer import Operation
from tests.infra.workspace import Workspace

pytestmark = pytest.mark.slow

RIGHTS = (
    "google_project_iam_binding",
    "google_project_iam_member",
    "google_artifact_registry_repository_iam_member",
)
ACT_AS = "google_service_account_iam_binding"
FUNCTION = "google_cloudfunctions2_function"
FIELD, INDEX = "google_firestore_field", "google_firestore_index"


@pytest.fixture(scope="module")
def created(first: Workspace) -> list[Operation]:
    """Return the created resources, in order."""
    return [each for each in first.google.cloud.operations if each.verb == "create"]


def places(created: list[Operation], *kinds: str) -> list[int]:
    return [place for place, each in enumerate(created) if each.kind in kinds]


def test_no_function_is_built_before_the_rights_that_it_needs(created: list[Operation]) -> None:
    assert max(places(created, *RIGHTS, ACT_AS)) < min(places(created, FUNCTION))


def test_functions_wait_for_their_rights_to_take_effect(first: Workspace) -> None:
    first.run("state", "rm", "terraform_data.rights")
    waited = first.apply(rights_seconds=1)
    assert "sleep 1" in waited


def test_only_a_new_right_makes_them_wait_again(first: Workspace) -> None:
    first.plan(invokers=["group:all@example.com"])
    assert "terraform_data.rights" not in first.changes()
    with_another = {"folder": "examples/quilt", "invoked_by": ["people"], "tasks": []}
    first.edit_catalogue(lambda catalogue: catalogue["functions"].update(another=with_another))
    (first.infra.parent / "dist" / "another.zip").touch()
    first.plan()
    assert first.changes()["terraform_data.rights"] == ["delete", "create"]


def test_one_field_is_indexed_first_then_the_others_then_what_combines_them(created: list[Operation]) -> None:
    first, *others = places(created, FIELD)
    assert (created[first].value["collection"], created[first].value["field"]) == ("outbox", "*")
    assert {created[place].value["collection"] for place in others} > POLICIES.keys()
    assert max(others) < min(places(created, INDEX))
