resource "google_firestore_database" "database" {
  count                             = var.create_database ? 1 : 0
  name                              = local.database
  location_id                       = local.database_location
  type                              = "FIRESTORE_NATIVE"
  concurrency_mode                  = "OPTIMISTIC" # every commit has a precondition; the kit takes no locks
  point_in_time_recovery_enablement = var.environment == "prod" ? "POINT_IN_TIME_RECOVERY_ENABLED" : "POINT_IN_TIME_RECOVERY_DISABLED"
  delete_protection_state           = var.environment == "prod" ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = local.of_data
  dynamic "cmek_config" {
    for_each = var.cmek_key == null ? [] : [var.cmek_key]
    content {
      kms_key_name = cmek_config.value
    }
  }
  lifecycle {
    precondition {
      condition     = var.cmek_key == null || strcontains(coalesce(var.cmek_key, "none"), "/locations/${local.key_location}/")
      error_message = "Firestore takes a key only in the location of the database: cmek_key must be in ${local.key_location}."
    }
  }
  depends_on = [google_project_service.api]
}

# Firestore's audit logs are set under the name of Datastore. This is all that the project logs of it: it replaces what was set.
resource "google_project_iam_audit_config" "data_access" {
  count   = var.data_access_logs ? 1 : 0
  project = var.project_id
  service = "datastore.googleapis.com"
  dynamic "audit_log_config" {
    for_each = ["ADMIN_READ", "DATA_READ", "DATA_WRITE"]
    content {
      log_type = audit_log_config.value
    }
  }
}

# Nothing that a rule needs may have a time-to-live policy, so the receipts of waits have none. The policies and their
# reasons are listed in tests/expiry_policies.py.
locals {
  key_location = lookup({ nam5 = "us", eur3 = "europe" }, local.database_location, local.database_location)

  # Of prod, `make destroy` leaves the data, and all that is set on it.
  of_data = var.environment == "prod" ? "ABANDON" : "DELETE"

  expiring = {
    # How often a user's task was started. A record that is missing counts as none, so deleting one early only lets a task
    # run more often; 31 days after its last count, Cloud Tasks has dropped the task.
    attempts = { field = "counted_at", offset = "2678400s" }

    # What is counted of a yoke that is gone: nothing. The record must outlive the last delivery of the yoke's events, a day.
    counted = { field = "gone_at", offset = "604800s" }

    # A critical section without a call for a week: only an idle one has that field.
    critical_sections = { field = "idle_since", offset = "604800s" }

    # A task that was given up. Deleted, it cannot be run again from there; a late delivery of the task would record it again.
    failures = { field = "recorded_at", offset = "2592000s" }

    # The receipt of a call on an object: it has its time itself. What waits, and an object's state, has none.
    mailbox = { field = "expires_at", offset = null }

    # What was enqueued under an id, or by a task. As long as Cloud Tasks may deliver that task again, and a day.
    receipts = { field = "written_at", offset = "2764800s" }
  }
}

# No query names these fields.
resource "google_firestore_field" "expiring" {
  for_each   = local.expiring
  database   = local.database
  collection = each.key
  field      = each.value.field
  ttl_config {
    expiration_offset = each.value.offset
  }
  index_config {}
  deletion_policy = local.of_data
  depends_on      = [google_firestore_field.first]
}

# Each policy had a block of its own: what is deployed stays as it is.
moved {
  from = google_firestore_field.attempts
  to   = google_firestore_field.expiring["attempts"]
}

moved {
  from = google_firestore_field.counted
  to   = google_firestore_field.expiring["counted"]
}

moved {
  from = google_firestore_field.critical_sections
  to   = google_firestore_field.expiring["critical_sections"]
}

moved {
  from = google_firestore_field.failures
  to   = google_firestore_field.expiring["failures"]
}

moved {
  from = google_firestore_field.mailbox
  to   = google_firestore_field.expiring["mailbox"]
}

moved {
  from = google_firestore_field.receipts
  to   = google_firestore_field.expiring["receipts"]
}
