"""After an apply the fields of the database are read back, and one that has other indexes than deployed is named."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from signalbox_tools.deploy import deployment_target, field_settings
from signalbox_tools.deploy.deployment_steps import Deployment
from signalbox_tools.deploy.programs import Outcome
from tests.infra.deploy import real_gcloud
from tests.infra.deploy.gcloud import PROJECT
from tests.infra.deploy.scripted_programs import Script

LIST = f"gcloud firestore indexes fields list --database=signalbox-dev --project={PROJECT}"
NAME = f"projects/{PROJECT}/databases/signalbox-dev/collectionGroups"
DEFAULT = {"name": f"{NAME}/__default__/fields/*", "indexConfig": {"indexes": [{"queryScope": "COLLECTION"}]}}


def field(collection: str, name: str, *indexes: tuple[str, str]) -> dict[str, Any]:
    """Return a resource of Terraform's state."""
    kinds = [{"order": "", "array_config": "", key: kind, "query_scope": "COLLECTION"} for key, kind in indexes]
    values = {
        "database": "signalbox-dev",
        "collection": collection,
        "field": name,
        "index_config": [{"indexes": kinds}],
    }
    return {"type": field_settings.FIELD, "address": f"a.{name}", "values": values}


def there(collection: str, name: str, *kinds: str) -> dict[str, Any]:
    """Return a field as gcloud prints it: Firestore's REST interface."""
    indexes = [
        {"queryScope": "COLLECTION", "state": "READY", "fields": [{"fieldPath": name, key: kind}]}
        for kind in kinds
        for key in ["arrayConfig" if kind == "CONTAINS" else "order"]
    ]
    return {"name": f"{NAME}/{collection}/fields/{name}", "indexConfig": {"indexes": indexes} if indexes else {}}


STATE = {
    "values": {
        "root_module": {
            "resources": [
                field("outbox", "*"),
                field("batches", "state", ("order", "ASCENDING"), ("order", "DESCENDING")),
                field("flows", "labels", ("array_config", "CONTAINS")),
            ]
        }
    }
}
AS_DEPLOYED = [
    DEFAULT,
    there("outbox", "*"),
    there("batches", "state", "DESCENDING", "ASCENDING"),
    there("flows", "`labels`", "CONTAINS"),
]


def checked(place: deployment_target.Target, listed: Any) -> tuple[bool, list[str]]:
    said: list[str] = []
    answer = listed if listed is None else json.dumps(listed)
    return field_settings.check(place, STATE, Script(**{LIST: answer}), said.append), said


def test_fields_that_are_as_deployed_are_not_named(place: deployment_target.Target) -> None:
    assert checked(place, AS_DEPLOYED) == (True, [])


@pytest.mark.parametrize(
    ("place_in_list", "other", "named", "options"),
    [
        (1, there("outbox", "*", "ASCENDING", "DESCENDING"), "outbox.*", ["--disable-indexes"]),
        (1, DEFAULT, "outbox.*", ["--disable-indexes"]),
        (2, there("batches", "state"), "batches.state", ["--index=order=ascending", "--index=order=descending"]),
        (3, there("flows", "labels", "ASCENDING"), "flows.labels", ["--index=array-config=contains"]),
    ],
)
def test_a_field_with_other_indexes_is_named_with_the_command_that_sets_them(
    place: deployment_target.Target,
    tmp_path: Path,
    place_in_list: int,
    other: dict[str, Any],
    named: str,
    options: list[str],
) -> None:
    listed = [*AS_DEPLOYED[:place_in_list], other, *AS_DEPLOYED[place_in_list + 1 :]]
    is_right, [said] = checked(place, listed)
    assert not is_right
    assert said.startswith(f"The indexes of {named} are not as deployed.")
    command = shlex.split(said.splitlines()[1])
    assert command[6 : 6 + len(options)] == options
    assert real_gcloud.refused([command], tmp_path) == []


@pytest.mark.parametrize("listed", [None, []])
def test_a_list_that_cannot_be_read_is_a_warning(place: deployment_target.Target, listed: Any) -> None:
    is_right, [said] = checked(place, listed)
    assert (is_right, said.partition(":")[0]) == (True, "Warning")


def test_a_deployment_fails_whose_fields_are_not_as_deployed(place: deployment_target.Target) -> None:
    script = Script(**{LIST: json.dumps([DEFAULT])})
    plan = script.answers["terraform show"]
    script.answers |= {"terraform show -json": json.dumps(STATE), f"terraform show -json {place.work}": plan}
    steps = Deployment(place, lambda _: None, lambda _: "y", script, base_url="http://x/")
    assert steps.deploy() is False
    script.answers[LIST] = json.dumps(AS_DEPLOYED)
    assert steps.deploy() is True
    script.answers[LIST] = Outcome(1)
    assert steps.adopt() is True
