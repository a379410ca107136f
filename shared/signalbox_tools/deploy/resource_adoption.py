"""Import resources that exist but are not in Terraform's state: those that a killed apply left, queues that a destroy
kept.

For each resource that the plan would create and whose id follows from its name, an `import` block is written to a file
next to Terraform's own, and the plan is made with it. Terraform names the resources that do not exist, and their blocks
are removed. The file is deleted after the plan is saved, since the plan contains the imports. Rights, APIs, fields and
objects need no import: creating them again sets them.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from signalbox_tools.deploy.plan_summary import Plan

FILE = "adopted.generated.tf"
QUEUE = "google_cloud_tasks_queue"
IDS: Mapping[str, str] = {
    "google_artifact_registry_repository": "projects/{project}/locations/{location}/repositories/{repository_id}",
    "google_cloud_scheduler_job": "projects/{project}/locations/{region}/jobs/{name}",
    QUEUE: "projects/{project}/locations/{location}/queues/{name}",
    "google_cloudfunctions2_function": "projects/{project}/locations/{location}/functions/{name}",
    "google_compute_backend_service": "projects/{project}/global/backendServices/{name}",
    "google_compute_global_address": "projects/{project}/global/addresses/{name}",
    "google_compute_global_forwarding_rule": "projects/{project}/global/forwardingRules/{name}",
    "google_compute_managed_ssl_certificate": "projects/{project}/global/sslCertificates/{name}",
    "google_compute_region_network_endpoint_group": "projects/{project}/regions/{region}/networkEndpointGroups/{name}",
    "google_compute_target_https_proxy": "projects/{project}/global/targetHttpsProxies/{name}",
    "google_compute_url_map": "projects/{project}/global/urlMaps/{name}",
    "google_eventarc_trigger": "projects/{project}/locations/{location}/triggers/{name}",
    "google_firebaserules_release": "projects/{project}/releases/{name}",
    "google_firestore_database": "projects/{project}/databases/{name}",
    "google_iam_workload_identity_pool": (
        "projects/{project}/locations/global/workloadIdentityPools/{workload_identity_pool_id}"
    ),
    "google_iam_workload_identity_pool_provider": (
        "projects/{project}/locations/global/workloadIdentityPools/{workload_identity_pool_id}"
        "/providers/{workload_identity_pool_provider_id}"
    ),
    "google_logging_metric": "{name}",
    "google_logging_project_exclusion": "projects/{project}/exclusions/{name}",
    "google_monitoring_custom_service": "projects/{project}/services/{service_id}",
    "google_monitoring_slo": "projects/{project}/services/{service}/serviceLevelObjectives/{slo_id}",
    "google_project_iam_custom_role": "projects/{project}/roles/{role_id}",
    "google_pubsub_subscription": "projects/{project}/subscriptions/{name}",
    "google_pubsub_topic": "projects/{project}/topics/{name}",
    "google_service_account": "projects/{project}/serviceAccounts/{account_id}@{project}.iam.gserviceaccount.com",
    "google_storage_bucket": "{name}",
}
"""The form of the id by which a resource of each type is imported. Values of the plan fill the braces."""
MARKS = re.compile(r"^[│╷╵] ?", re.MULTILINE)
"""The marks that Terraform puts in front of the lines of an error."""

ABSENT = re.compile(
    r'Cannot import non-existent remote object\s+While attempting to import an existing object to\s+"(\S+)",'
)
ROUNDS_MAX = 30  # Terraform does not name all absent resources at once: those that depend on others come later


def importable(plan: Plan, project: str, region: str) -> dict[str, str]:
    """Return the ids, by address, of resources that the plan would create and whose ids follow from their names."""
    found = {}
    for address, values in plan.created_values.items():
        kind = next((each for each in IDS if re.search(rf"(^|\.){each}\.", address)), None)
        if kind:
            known = {name: value for name, value in values.items() if value is not None}
            found[address] = IDS[kind].format_map({"project": project, "location": region, "region": region} | known)
    return found


def indexes(plan: Plan, there: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the ids of composite indexes that the plan would create, by address: Google numbers them."""
    names = {_index(each["name"].split("/")[-3], each["fields"]): each["name"] for each in there}
    wanted = {
        address: _index(values["collection"], values["fields"])
        for address, values in plan.created_values.items()
        if "google_firestore_index." in address
    }
    return {address: names[each] for address, each in wanted.items() if each in names}


def backup_schedules(plan: Plan, there: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the ids of backup schedules that the plan would create, by address: a database has one of each kind."""
    names = {"weekly" if "weeklyRecurrence" in each else "daily": each["name"] for each in there}
    wanted = {
        address: "weekly" if values.get("weekly_recurrence") else "daily"
        for address, values in plan.created_values.items()
        if "google_firestore_backup_schedule." in address
    }
    return {address: names[each] for address, each in wanted.items() if each in names}


def _index(collection: str, fields: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return a tuple that identifies an index, in gcloud's listing as in a plan.

    The record's name, which both contain, is left out.
    """
    own = (
        f"{each.get('fieldPath') or each.get('field_path')} "
        f"{each.get('order') or each.get('arrayConfig') or each.get('array_config')}"
        for each in fields
    )
    return (collection, *(each for each in own if not each.startswith("__name__ ")))


def queues(ids: Mapping[str, str], there: Iterable[str]) -> dict[str, str]:
    """Return the entries of `ids`, the ids of resources by address, that are queues with a name in `there`."""
    names = frozenset(there)
    return {
        address: each for address, each in ids.items() if f"{QUEUE}." in address and each.rpartition("/")[2] in names
    }


def adopted(folder: Path, ids: Mapping[str, str], plan: Callable[[], Plan], refusal: type[Exception]) -> Plan:
    """Plan with an import of each id that exists; ids that do not exist are left out.

    Raises all other errors of the plan.
    """
    for _ in range(ROUNDS_MAX):
        if not ids:
            break
        with _blocks(folder, ids):
            try:
                return plan()
            except refusal as error:
                absent = {each.replace('\\"', '"') for each in ABSENT.findall(MARKS.sub("", str(error)))}
                if not absent & ids.keys():
                    raise
                ids = {address: each for address, each in ids.items() if address not in absent}
    return plan()


@contextmanager
def _blocks(folder: Path, ids: Mapping[str, str]) -> Iterator[None]:
    file = folder / FILE
    file.write_text("".join(f'import {{\n  to = {address}\n  id = "{each}"\n}}\n' for address, each in ids.items()))
    try:
        yield
    finally:
        clear(folder)


def clear(folder: Path) -> None:
    """Delete the import blocks, including those that a killed command left.

    Otherwise every later plan would import by them.
    """
    (folder / FILE).unlink(missing_ok=True)
