# Exports of the database to a bucket in another location, if `exports` is set: a backup can only be restored where the database is.
# docs/region-outage.md says how an export is imported.

locals {
  exports    = var.exports == null ? {} : { database = var.exports }
  export_job = "${local.name_prefix}signalbox-export"
}

# The files contain all data of the database, so only people who administer the project may read them. The deletion of an
# old export is final: the database has the data, and the next export is a day away.
resource "google_storage_bucket" "exports" {
  for_each                    = local.exports
  name                        = "${var.project_id}-${local.name_prefix}signalbox-exports"
  location                    = each.value.bucket_location
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = var.environment != "prod"
  deletion_policy             = local.data_deletion_policy
  lifecycle_rule {
    action {
      type = "Delete"
    }
    condition {
      age = each.value.keep_days
    }
  }
  soft_delete_policy {
    retention_duration_seconds = 0
  }
  lifecycle {
    precondition {
      condition     = !contains([var.region, local.database_location], each.value.bucket_location)
      error_message = "exports.bucket_location is the location of the database or of the functions. Exports are for the outage of that location: choose another one."
    }
  }
}

# The account may only begin exports of this database, and write them into this bucket. [open] The condition follows the documentation
# for named databases, and has not been tried in a real project.
resource "google_project_iam_member" "exports" {
  for_each = local.exports
  project  = var.project_id
  role     = "roles/datastore.importExportAdmin"
  member   = google_service_account.kit["exports"].member
  condition {
    title      = "${local.name_prefix}signalbox-exports"
    expression = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  }
}

resource "google_storage_bucket_iam_member" "exports" {
  for_each = local.exports
  bucket   = google_storage_bucket.exports[each.key].name
  role     = "roles/storage.admin" # the role that Firestore's page of scheduled exports names
  member   = google_service_account.kit["exports"].member
}

# Firestore gives each export a folder, named after the time at which it began.
resource "google_cloud_scheduler_job" "export" {
  for_each         = local.exports
  name             = local.export_job
  description      = "Exports ${local.database} to ${google_storage_bucket.exports[each.key].name}"
  region           = var.region
  schedule         = each.value.schedule
  time_zone        = each.value.time_zone
  attempt_deadline = "180s"
  retry_config {
    retry_count = 1
  }
  http_target {
    http_method = "POST"
    uri         = "https://firestore.googleapis.com/v1/projects/${var.project_id}/databases/${local.database}:exportDocuments"
    headers     = { "Content-Type" = "application/json" }
    body        = base64encode(jsonencode({ outputUriPrefix = "gs://${google_storage_bucket.exports[each.key].name}" }))
    oauth_token {
      service_account_email = google_service_account.kit["exports"].email
      scope                 = "https://www.googleapis.com/auth/cloud-platform"
    }
  }
  depends_on = [google_firestore_database.database, google_project_iam_member.exports, google_storage_bucket_iam_member.exports]
}

# The schedule's call ends when Firestore has accepted it, so a green schedule does not mean that there is an export: one alert watches
# the end of each export (log_alerts.tf), this one the files. Its window and its pause make 25 hours, the longest that Cloud Monitoring
# takes, so it needs an export each day. [open] That Firestore's writes into the bucket are counted, under this method, has not been tried in a real project.
resource "google_monitoring_alert_policy" "no_exports" {
  for_each              = { for name, export in local.exports : name => export if endswith(export.schedule, " * * *") }
  display_name          = "${local.name_prefix}signalbox: Exports are missing"
  severity              = "ERROR"
  combiner              = "OR"
  notification_channels = local.channels
  conditions {
    display_name = "Exports are missing"
    condition_threshold {
      filter                  = "resource.type=\"gcs_bucket\" AND resource.labels.bucket_name=\"${google_storage_bucket.exports[each.key].name}\" AND metric.type=\"storage.googleapis.com/api/request_count\" AND metric.labels.method=\"WriteObject\" AND metric.labels.response_code=\"OK\""
      comparison              = "COMPARISON_LT"
      threshold_value         = 1
      duration                = "3600s"
      evaluation_missing_data = "EVALUATION_MISSING_DATA_ACTIVE"
      aggregations {
        alignment_period     = "86400s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: Exports are missing"
    mime_type = "text/markdown"
    content   = format(local.runbook, "Exports are missing", "status")
  }
}
