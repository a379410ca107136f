resource "google_firestore_database" "database" {
  count                             = var.create_database ? 1 : 0
  name                              = local.database
  location_id                       = local.database_location
  type                              = "FIRESTORE_NATIVE"
  concurrency_mode                  = "OPTIMISTIC" # every commit has a precondition; the kit takes no locks
  point_in_time_recovery_enablement = var.environment == "prod" ? "POINT_IN_TIME_RECOVERY_ENABLED" : "POINT_IN_TIME_RECOVERY_DISABLED"
  delete_protection_state           = var.environment == "prod" ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = var.environment == "prod" ? "ABANDON" : "DELETE"
  depends_on                        = [google_project_service.api]
}

# Nothing that a rule needs may have a time-to-live policy, so the receipts of waits have none. The policies and their
# reasons are listed in shared/testing/expiry_policies.py.

# How often a user's task was started. A record that is missing counts as none, so deleting one early only lets a task
# run more often; 31 days after its last count, Cloud Tasks has dropped the task. No query names its fields.
resource "google_firestore_field" "attempts" {
  database   = local.database
  collection = "attempts"
  field      = "counted_at"
  ttl_config {
    expiration_offset = "2678400s"
  }
  index_config {}
  depends_on = [google_firestore_field.first]
}

# What is counted of a yoke that is gone: nothing. The record must outlive the last delivery of the yoke's events, a day.
resource "google_firestore_field" "counted" {
  database   = local.database
  collection = "counted"
  field      = "gone_at"
  ttl_config {
    expiration_offset = "604800s"
  }
  index_config {}
  depends_on = [google_firestore_field.first]
}

# A task that was given up. Deleted, it cannot be run again from there; a late delivery of the task would record it anew.
resource "google_firestore_field" "failures" {
  database   = local.database
  collection = "failures"
  field      = "recorded_at"
  ttl_config {
    expiration_offset = "2592000s"
  }
  index_config {}
  depends_on = [google_firestore_field.first]
}

# The receipt of a call on an object: it has its time itself. What waits, and an object's state, has none.
resource "google_firestore_field" "mailbox" {
  database   = local.database
  collection = "mailbox"
  field      = "expires_at"
  ttl_config {}
  index_config {}
  depends_on = [google_firestore_field.first]
}

# A critical section that nobody has called for a week: only an idle one has that field. No query names its fields.
resource "google_firestore_field" "critical_sections" {
  database   = local.database
  collection = "critical_sections"
  field      = "idle_since"
  ttl_config {
    expiration_offset = "604800s"
  }
  index_config {}
  depends_on = [google_firestore_field.first]
}

# What was enqueued under an id, or by a task. As long as Cloud Tasks may deliver that task again, and a day.
resource "google_firestore_field" "receipts" {
  database   = local.database
  collection = "receipts"
  field      = "written_at"
  ttl_config {
    expiration_offset = "2764800s"
  }
  index_config {}
  depends_on = [google_firestore_field.first]
}
