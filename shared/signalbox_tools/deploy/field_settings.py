"""Read the index settings of the database's fields back after an apply, and report each that is not as deployed.

One setting of Terraform removes the indexes of all fields of a collection ("*"). A setting that Firestore accepts and
does not apply would cost money and slow down writes, and no error would name it. Pure, except for `check`.
"""

import json
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from signalbox_tools.deploy import plan_summary
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Run

FIELD = "google_firestore_field"
KINDS = {"ASCENDING": "order=ascending", "DESCENDING": "order=descending", "CONTAINS": "array-config=contains"}
EVERYWHERE = "COLLECTION_GROUP"

Settings = Mapping[tuple[str, str], frozenset[tuple[str, str]]]
"""The indexes of fields, each with its kind and its scope, by collection and field."""


def check(target: Target, state: Mapping[str, Any], run: Run, say: Callable[[str], None]) -> bool:
    """Report each field whose indexes are not those in Terraform's state, and return whether there is none.

    A list that cannot be read is reported, and is not an error. It is never empty, since it has the database's default.
    """
    wanted = in_state(state, target.database)
    if not wanted:
        return True
    where = (f"--database={target.database}", f"--project={target.project}")
    outcome = run(("gcloud", "firestore", "indexes", "fields", "list", *where, "--format=json"), folder=target.root)
    if not outcome.ok or not (listed := json.loads(outcome.text or "[]")):
        say("Warning: gcloud cannot list the indexes of fields, so they were not checked.")
        return True
    there = in_database(listed)
    wrong = sorted(key for key, indexes in wanted.items() if there.get(key) != indexes)
    for collection, field in wrong:
        options = (*_options(wanted[collection, field]), f"--collection-group={collection}", *where)
        command = shlex.join(("gcloud", "firestore", "indexes", "fields", "update", field, *options))
        say(f"The indexes of {collection}.{field} are not as deployed. Set them, and deploy again:\n  {command}")
    return not wrong


def in_state(state: Mapping[str, Any], database: str) -> Settings:
    """Return the settings in the JSON of `terraform show -json`."""
    values = [
        each["values"]
        for each in plan_summary.resources(state)
        if each["type"] == FIELD and each["values"]["database"] == database
    ]
    return {(each["collection"], each["field"]): _of_state(each["index_config"]) for each in values}


def in_database(listed: Iterable[Mapping[str, Any]]) -> Settings:
    """Return the settings that gcloud lists."""
    return {_place(each["name"]): _of_database(each.get("indexConfig", {})) for each in listed}


def _of_state(config: Iterable[Mapping[str, Any]]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (index.get("order") or index["array_config"], index["query_scope"])
        for each in config
        for index in each["indexes"]
    )


def _of_database(config: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (field.get("order") or field.get("arrayConfig", ""), index["queryScope"])
        for index in config.get("indexes", ())
        for field in index.get("fields", ())
    )


def _place(name: str) -> tuple[str, str]:
    """Return collection and field of a name, which ends with ``collectionGroups/COLLECTION/fields/FIELD``."""
    collection, _, field = name.partition("/collectionGroups/")[2].partition("/fields/")
    return collection, field.replace("`", "")


def _options(indexes: frozenset[tuple[str, str]]) -> list[str]:
    """Return the options of `gcloud firestore indexes fields update` that set these indexes."""
    if not indexes:
        return ["--disable-indexes"]
    return [
        f"--index={KINDS[kind]}{',query-scope=collection-group' if scope == EVERYWHERE else ''}"
        for kind, scope in sorted(indexes)
    ]
