"""Plausible values for the attributes that services compute: the same values for the same arguments."""

import hashlib
from collections.abc import Callable
from typing import Any

from tests.infra.google_provider.resource_values import UNKNOWN, Block, Value, attributes, children

NAMED_BY = ("name", "account_id", "repository_id", "service", "field", "display_name")
ZEROS: dict[Any, Any] = {"string": "", "number": 0, "bool": False, "list": [], "set": [], "map": {}}


def number(*parts: str, digits: int = 12) -> str:
    """Return a number derived from the parts."""
    return str(int(hashlib.sha256("/".join(parts).encode()).hexdigest(), 16))[:digits]


def fill(kind: str, value: Value, block: Block, project: str, region: str) -> None:
    """Fill in what is `UNKNOWN`, after the resource was created or changed."""
    project = value["project"] if isinstance(value.get("project"), str) else project
    place = next((value[name] for name in ("location", "region") if isinstance(value.get(name), str)), region)
    name = next((value[name] for name in NAMED_BY if isinstance(value.get(name), str)), number(repr(value)))
    labels = value["labels"] if isinstance(value.get("labels"), dict) else {}
    known = {
        "project": project,
        "region": place,
        "location": place,
        "id": f"projects/{project}/{kind.removeprefix('google_')}/{name}",
        "effective_labels": labels,
        "terraform_labels": labels,
    }
    _fill(value, block, known | OWN.get(kind, _nothing)(value, project, place, name))


def _fill(value: Value, block: Block, known: dict[str, Any]) -> None:
    for name, attribute in attributes(block).items():
        if value.get(name) == UNKNOWN:
            value[name] = known.get(name, _zero(attribute["type"]))
    for path, inner, each in children(value, block):
        _fill(each, inner, known.get(str(path[0]), {}))


def _zero(kind: Any) -> Any:
    return ZEROS[kind[0] if isinstance(kind, list) else kind]


def _nothing(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {}


def _service_account(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    email = f"{name}@{project}.iam.gserviceaccount.com"
    path = f"projects/{project}/serviceAccounts/{email}"
    return {"email": email, "member": f"serviceAccount:{email}", "id": path, "name": path, "unique_id": number(email)}


def _function(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {
        "id": f"projects/{project}/locations/{place}/functions/{name}",
        "url": f"https://{place}-{project}.cloudfunctions.net/{name}",
        "state": "ACTIVE",
        "service_config": {
            "uri": f"https://{name}-{number(project)}.{place}.run.app",
            "service": f"projects/{project}/locations/{place}/services/{name}",
        },
    }


def _within(folder: str) -> Callable[[Value, str, str, str], dict[str, Any]]:
    def path(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
        return {"id": f"projects/{project}/locations/{place}/{folder}/{name}"}

    return path


def _global(folder: str, scope: str = "global") -> Callable[[Value, str, str, str], dict[str, Any]]:
    def path(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
        return {"id": f"projects/{project}/{scope.format(region=place)}/{folder}/{name}"}

    return path


def _of_project(folder: str) -> Callable[[Value, str, str, str], dict[str, Any]]:
    def path(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
        return {"id": f"projects/{project}/{folder}/{name}"}

    return path


def _metric(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": name}


def _slo(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    path = f"projects/{project}/services/{value['service']}/serviceLevelObjectives/{value['slo_id']}"
    return {"id": path, "name": path}


def _service(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    path = f"projects/{project}/services/{value['service_id']}"
    return {"id": path, "name": path}


def _uptime_check(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    own = number(value["display_name"])
    path = f"projects/{project}/uptimeCheckConfigs/{own}"
    return {"id": path, "name": path, "uptime_check_id": own}


def _repository(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return _within("repositories")(value, project, place, value["repository_id"]) | {"name": name}


def _bucket(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": name, "url": f"gs://{name}"}


def _object(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"{value['bucket']}-{name}", "output_name": name, "generation": 1 << 50 | int(number(name))}


def _database(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"projects/{project}/databases/{name}"}


def _backup_schedule(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    own = number(repr([value["database"], value["retention"]]))
    path = f"projects/{project}/databases/{value['database']}/backupSchedules/{own}"
    return {"id": path, "name": own}


def _field(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    group = f"projects/{project}/databases/{value['database']}/collectionGroups/{value['collection']}"
    return {"id": f"{group}/fields/{value['field']}", "name": f"{group}/fields/{value['field']}"}


def _index(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    group = f"projects/{project}/databases/{value['database']}/collectionGroups/{value['collection']}"
    own = number(repr([[each[key] for key in ("field_path", "order", "array_config")] for each in value["fields"]]))
    return {"id": f"{group}/indexes/{own}", "name": f"{group}/indexes/{own}"}


def _member(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    on = ("service_account_id", "secret_id", "service", "repository", "topic", "name", "bucket", "project")
    resource = next(value[key] for key in on if isinstance(value.get(key), str))
    condition = [each["title"] for each in value.get("condition") or []]
    member = [value["member"]] if "member" in value else []  # a binding has all members of its role
    return {"id": "/".join([resource, value["role"], *member, *condition]), "etag": "BwY="}


def _audit(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"{value['project']}/audit_config/{value['service']}", "etag": "BwY="}


def _exclusion(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"projects/{project}/exclusions/{name}"}


def _bucket_of_logs(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    path = f"projects/{project}/locations/{place}/buckets/{value['bucket_id']}"
    return {"id": path, "name": path, "lifecycle_state": "ACTIVE"}


def _ruleset(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"projects/{project}/rulesets/{name}", "name": name}


def _release(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    return {"id": f"projects/{project}/releases/{name}"}


def _custom_role(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    path = f"projects/{project}/roles/{value['role_id']}"
    return {"id": path, "name": path}


def _identity_pool(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    pool = f"locations/global/workloadIdentityPools/{value['workload_identity_pool_id']}"
    own = value.get("workload_identity_pool_provider_id")
    path = f"{pool}/providers/{own}" if own else pool
    return {"id": f"projects/{project}/{path}", "name": f"projects/{number(project)}/{path}", "state": "ACTIVE"}


def _project(value: Value, project: str, place: str, name: str) -> dict[str, Any]:
    own = value["project_id"] if isinstance(value.get("project_id"), str) else project
    return {"id": f"projects/{own}", "project_id": own, "number": number(own), "name": own}


OWN: dict[str, Callable[[Value, str, str, str], dict[str, Any]]] = {
    "google_artifact_registry_repository": _repository,
    "google_artifact_registry_repository_iam_member": _member,
    "google_cloud_run_service_iam_member": _member,
    "google_cloud_scheduler_job": _within("jobs"),
    "google_cloud_tasks_queue": _within("queues"),
    "google_cloud_tasks_queue_iam_binding": _member,
    "google_cloudfunctions2_function": _function,
    "google_compute_backend_service": _global("backendServices"),
    "google_compute_global_address": _global("addresses"),
    "google_compute_global_forwarding_rule": _global("forwardingRules"),
    "google_compute_managed_ssl_certificate": _global("sslCertificates"),
    "google_compute_region_network_endpoint_group": _global("networkEndpointGroups", "regions/{region}"),
    "google_compute_target_https_proxy": _global("targetHttpsProxies"),
    "google_compute_url_map": _global("urlMaps"),
    "google_eventarc_trigger": _within("triggers"),
    "google_firebaserules_release": _release,
    "google_firebaserules_ruleset": _ruleset,
    "google_firestore_backup_schedule": _backup_schedule,
    "google_firestore_database": _database,
    "google_firestore_field": _field,
    "google_firestore_index": _index,
    "google_logging_metric": _metric,
    "google_logging_project_bucket_config": _bucket_of_logs,
    "google_logging_project_exclusion": _exclusion,
    "google_iam_workload_identity_pool": _identity_pool,
    "google_iam_workload_identity_pool_provider": _identity_pool,
    "google_monitoring_custom_service": _service,
    "google_monitoring_slo": _slo,
    "google_monitoring_uptime_check_config": _uptime_check,
    "google_project": _project,
    "google_project_iam_audit_config": _audit,
    "google_project_iam_custom_role": _custom_role,
    "google_project_iam_binding": _member,
    "google_project_iam_member": _member,
    "google_pubsub_subscription": _of_project("subscriptions"),
    "google_pubsub_topic": _of_project("topics"),
    "google_pubsub_topic_iam_member": _member,
    "google_service_account": _service_account,
    "google_secret_manager_secret_iam_member": _member,
    "google_service_account_iam_binding": _member,
    "google_service_account_iam_member": _member,
    "google_storage_bucket": _bucket,
    "google_storage_bucket_iam_member": _member,
    "google_storage_bucket_object": _object,
}
