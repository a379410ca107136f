"""The services' requirements of each kind of resource that the provider's schema does not state.

The sources are the provider's and Google's pages.

`NAMES` are the patterns of names. `REPLACED_BY` lists what cannot be changed in place. `ONE_OF` names arguments of
which a block takes exactly one, and `AT_MOST_ONE_OF` those that exclude each other; a block is named by its path.
"""

SHARED_BY_DEPLOYMENTS = frozenset({"google_project_service"})
"""Kinds that may be created twice and stay when their creator is destroyed, such as an enabled API."""

MADE_TWICE = SHARED_BY_DEPLOYMENTS | {
    "google_artifact_registry_repository_iam_member",
    "google_cloud_run_service_iam_member",
    "google_cloud_tasks_queue_iam_binding",
    "google_firestore_field",
    "google_project_iam_audit_config",
    "google_logging_project_bucket_config",
    "google_project_iam_binding",
    "google_project_iam_member",
    "google_pubsub_topic_iam_member",
    "google_secret_manager_secret_iam_member",
    "google_service_account_iam_binding",
    "google_service_account_iam_member",
    "google_storage_bucket_iam_member",
    "google_storage_bucket_object",
}
"""Kinds whose creation sets what is there already: a right, an object, the settings of a field."""

NUMBERED = frozenset(
    {
        "google_billing_budget",
        "google_firebaserules_ruleset",
        "google_monitoring_alert_policy",
        "google_monitoring_dashboard",
        "google_monitoring_notification_channel",
        "google_monitoring_uptime_check_config",
    }
)
"""Kinds that Google numbers: there may be two with the same name."""

ACCOUNT = r"[a-z]([-a-z0-9]{4,28}[a-z0-9])"
SERVICE = r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?"
PUBSUB = r"(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}"
DURATION = r"[0-9]+(\.[0-9]{1,9})?s"

NAMES: dict[str, dict[str, str]] = {
    "google_artifact_registry_repository": {"repository_id": r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?"},
    "google_cloud_scheduler_job": {"name": r"[A-Za-z0-9_-]{1,500}", "attempt_deadline": DURATION},
    "google_cloud_tasks_queue": {
        "name": r"[A-Za-z0-9-]{1,100}",
        "retry_config.min_backoff": DURATION,
        "retry_config.max_backoff": DURATION,
    },
    "google_cloudfunctions2_function": {
        "name": SERVICE,
        "build_config.runtime": r"python3[0-9]+",
        "build_config.entry_point": r"[A-Za-z_][A-Za-z0-9_]*",
        "build_config.service_account": rf"projects/[^/]+/serviceAccounts/{ACCOUNT}@.+",
        "build_config.docker_repository": r"projects/[^/]+/locations/[^/]+/repositories/[^/]+",
        "service_config.available_memory": r"[0-9]+(M|Mi|G|Gi)",
        "service_config.service_account_email": rf"{ACCOUNT}@.+",
    },
    "google_billing_budget": {"billing_account": r"[0-9A-F]{6}(-[0-9A-F]{6}){2}"},
    "google_compute_backend_service": {"name": SERVICE},
    "google_compute_global_address": {"name": SERVICE},
    "google_compute_managed_ssl_certificate": {"name": SERVICE},
    "google_compute_region_network_endpoint_group": {"name": SERVICE},
    "google_eventarc_trigger": {
        "name": SERVICE,
        "event_data_content_type": r"application/protobuf",
        "destination.cloud_run_service.path": r"/.*",
        "service_account": rf"{ACCOUNT}@.+",
    },
    "google_firebaserules_release": {
        "name": r"cloud\.firestore(/[a-z][a-z0-9-]{2,61}[a-z0-9])?",
        "ruleset_name": r"projects/[^/]+/rulesets/[^/]+",
    },
    "google_firestore_backup_schedule": {"retention": DURATION},
    "google_firestore_database": {"name": r"\(default\)|[a-z][a-z0-9-]{2,61}[a-z0-9]"},
    "google_firestore_field": {"field": r"\*|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*"},
    "google_iam_workload_identity_pool": {"workload_identity_pool_id": r"[a-z0-9-]{4,32}", "display_name": r".{0,32}"},
    "google_iam_workload_identity_pool_provider": {"workload_identity_pool_provider_id": r"[a-z0-9-]{4,32}"},
    "google_logging_metric": {"name": r"[A-Za-z0-9_./-]{1,100}"},
    "google_pubsub_subscription": {
        "name": PUBSUB,
        "topic": r"projects/[^/]+/topics/[^/]+",
        "message_retention_duration": DURATION,
    },
    "google_pubsub_topic": {"name": PUBSUB},
    "google_service_account": {"account_id": ACCOUNT, "display_name": r".{0,100}"},
    "google_storage_bucket": {"name": r"[a-z0-9][a-z0-9_.-]{1,61}[a-z0-9]"},
}

REPLACED_BY: dict[str, frozenset[str]] = {
    "google_artifact_registry_repository": frozenset({"repository_id", "location", "project", "format"}),
    "google_artifact_registry_repository_iam_member": frozenset({"repository", "location", "role", "member"}),
    "google_cloud_run_service_iam_member": frozenset({"service", "location", "role", "member"}),
    "google_cloud_scheduler_job": frozenset({"name", "region", "project"}),
    "google_cloud_tasks_queue": frozenset({"name", "location", "project"}),
    "google_cloud_tasks_queue_iam_binding": frozenset({"name", "location", "role"}),
    "google_cloudfunctions2_function": frozenset({"name", "location", "project"}),
    "google_billing_budget": frozenset({"billing_account"}),
    "google_compute_backend_service": frozenset({"name", "load_balancing_scheme", "project"}),
    "google_compute_global_address": frozenset({"name", "project"}),
    "google_compute_global_forwarding_rule": frozenset({"name", "ip_address", "port_range", "project"}),
    "google_compute_managed_ssl_certificate": frozenset({"name", "managed", "type", "project"}),
    "google_compute_region_network_endpoint_group": frozenset(
        {"name", "region", "network_endpoint_type", "cloud_run", "project"}
    ),
    "google_compute_target_https_proxy": frozenset({"name", "project"}),
    "google_compute_url_map": frozenset({"name", "project"}),
    "google_eventarc_trigger": frozenset({"name", "location", "matching_criteria", "project"}),
    "google_firebaserules_release": frozenset({"name", "project"}),
    "google_firebaserules_ruleset": frozenset({"source", "project"}),
    "google_firestore_backup_schedule": frozenset({"database", "daily_recurrence", "weekly_recurrence", "project"}),
    "google_firestore_database": frozenset({"name", "location_id", "cmek_config", "project"}),
    "google_firestore_field": frozenset({"database", "collection", "field", "project"}),
    "google_firestore_index": frozenset({"database", "collection", "query_scope", "fields", "project"}),
    "google_iam_workload_identity_pool": frozenset({"workload_identity_pool_id", "project"}),
    "google_iam_workload_identity_pool_provider": frozenset(
        {"workload_identity_pool_id", "workload_identity_pool_provider_id", "project"}
    ),
    "google_logging_metric": frozenset({"name", "project"}),
    "google_monitoring_alert_policy": frozenset({"project"}),
    "google_monitoring_dashboard": frozenset({"project"}),
    "google_monitoring_custom_service": frozenset({"service_id", "project"}),
    "google_monitoring_notification_channel": frozenset({"project"}),
    "google_monitoring_slo": frozenset({"service", "slo_id", "project"}),
    "google_monitoring_uptime_check_config": frozenset({"monitored_resource", "checker_type", "project"}),
    "google_project_iam_audit_config": frozenset({"project", "service"}),
    "google_project_iam_binding": frozenset({"project", "role", "condition"}),
    "google_project_iam_member": frozenset({"project", "role", "member", "condition"}),
    "google_project_service": frozenset({"project", "service"}),
    "google_pubsub_subscription": frozenset({"name", "topic", "project"}),
    "google_pubsub_topic": frozenset({"name", "project"}),
    "google_pubsub_topic_iam_member": frozenset({"topic", "role", "member", "project"}),
    "google_logging_project_bucket_config": frozenset({"bucket_id", "location", "project"}),
    "google_logging_project_exclusion": frozenset({"name", "project"}),
    "google_project_iam_custom_role": frozenset({"role_id", "project"}),
    "google_service_account": frozenset({"account_id", "project"}),
    "google_secret_manager_secret_iam_member": frozenset({"project", "secret_id", "role", "member"}),
    "google_service_account_iam_binding": frozenset({"service_account_id", "role"}),
    "google_service_account_iam_member": frozenset({"service_account_id", "role", "member"}),
    "google_storage_bucket": frozenset({"name", "location", "project"}),
    "google_storage_bucket_iam_member": frozenset({"bucket", "role", "member"}),
    "google_storage_bucket_object": frozenset(
        {"bucket", "name", "source", "content"}
    ),  # not source_md5hash: it updates
}

ONE_OF: dict[tuple[str, str], frozenset[str]] = {
    ("google_cloud_scheduler_job", ""): frozenset({"http_target", "pubsub_target", "app_engine_http_target"}),
    ("google_iam_workload_identity_pool_provider", ""): frozenset({"aws", "oidc", "saml", "x509"}),
    ("google_compute_region_network_endpoint_group", ""): frozenset({"app_engine", "cloud_function", "cloud_run"}),
    ("google_firestore_backup_schedule", ""): frozenset({"daily_recurrence", "weekly_recurrence"}),
    ("google_firestore_index", "fields"): frozenset({"order", "array_config", "vector_config", "search_config"}),
    ("google_monitoring_slo", ""): frozenset({"basic_sli", "request_based_sli", "windows_based_sli"}),
    ("google_monitoring_slo", "request_based_sli"): frozenset({"distribution_cut", "good_total_ratio"}),
    ("google_monitoring_uptime_check_config", ""): frozenset({"http_check", "tcp_check", "synthetic_monitor"}),
    ("google_storage_bucket_object", ""): frozenset({"source", "content", "content_wo"}),
}

AT_MOST_ONE_OF: dict[tuple[str, str], frozenset[str]] = {
    ("google_cloud_scheduler_job", "http_target"): frozenset({"oauth_token", "oidc_token"}),
    ("google_cloudfunctions2_function", "build_config"): frozenset(
        {"automatic_update_policy", "on_deploy_update_policy"}
    ),
    ("google_firestore_field", "index_config.indexes"): frozenset({"order", "array_config"}),
}

EVENT_SECONDS_MAX = 540
"""For a function to handle an event; others have 3,600."""

API_OF: dict[str, tuple[str, ...]] = {
    "google_artifact_registry_repository": ("artifactregistry.googleapis.com",),
    "google_artifact_registry_repository_iam_member": ("artifactregistry.googleapis.com",),
    "google_cloud_run_service_iam_member": ("run.googleapis.com",),
    "google_cloud_scheduler_job": ("cloudscheduler.googleapis.com",),
    "google_cloud_tasks_queue": ("cloudtasks.googleapis.com",),
    "google_cloud_tasks_queue_iam_binding": ("cloudtasks.googleapis.com",),
    "google_cloudfunctions2_function": (
        "cloudfunctions.googleapis.com",
        "cloudbuild.googleapis.com",
        "run.googleapis.com",
    ),
    "google_eventarc_trigger": ("eventarc.googleapis.com", "eventarcpublishing.googleapis.com"),
    "google_firebaserules_release": ("firebaserules.googleapis.com",),
    "google_firebaserules_ruleset": ("firebaserules.googleapis.com",),
    "google_firestore_database": ("firestore.googleapis.com",),
    "google_firestore_field": ("firestore.googleapis.com",),
    "google_firestore_index": ("firestore.googleapis.com",),
    "google_monitoring_alert_policy": ("monitoring.googleapis.com",),
    "google_monitoring_dashboard": ("monitoring.googleapis.com",),
    "google_monitoring_custom_service": ("monitoring.googleapis.com",),
    "google_monitoring_slo": ("monitoring.googleapis.com",),
    "google_monitoring_uptime_check_config": ("monitoring.googleapis.com",),
    "google_monitoring_notification_channel": ("monitoring.googleapis.com",),
    "google_pubsub_subscription": ("pubsub.googleapis.com",),
    "google_pubsub_topic": ("pubsub.googleapis.com",),
    "google_pubsub_topic_iam_member": ("pubsub.googleapis.com",),
    "google_secret_manager_secret_iam_member": ("secretmanager.googleapis.com",),
    "google_service_account": ("iam.googleapis.com",),
    "google_service_account_iam_binding": ("iam.googleapis.com",),
    "google_service_account_iam_member": ("iam.googleapis.com",),
    "google_storage_bucket": ("storage.googleapis.com",),
    "google_storage_bucket_object": ("storage.googleapis.com",),
}
"""The APIs that must be enabled before a resource of a kind can be made."""
