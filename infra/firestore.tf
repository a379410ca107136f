# Its address contains its name, so a restored database is another resource. `signalbox adopt` imports it; prod's old one leaves the state.
resource "google_firestore_database" "database" {
  for_each                          = toset(var.create_database ? [local.database] : [])
  name                              = each.key
  location_id                       = local.database_location
  type                              = "FIRESTORE_NATIVE"
  concurrency_mode                  = "OPTIMISTIC" # every commit has a precondition; the kit takes no locks
  point_in_time_recovery_enablement = var.environment == "prod" ? "POINT_IN_TIME_RECOVERY_ENABLED" : "POINT_IN_TIME_RECOVERY_DISABLED"
  delete_protection_state           = var.environment == "prod" ? "DELETE_PROTECTION_ENABLED" : "DELETE_PROTECTION_DISABLED"
  deletion_policy                   = local.data_deletion_policy
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
}

# Firebase's libraries reach a database from a browser, and only its rules limit what a signed-in user may do there. All data goes
# through the functions, so the rules permit nothing. The database that is in use has them, also one that was restored.
resource "google_firebaserules_ruleset" "denied" {
  source {
    files {
      name    = "firestore.rules"
      content = <<-EOT
        rules_version = '2';
        service cloud.firestore {
          match /databases/{database}/documents {
            match /{document=**} {
              allow read, write: if false;
            }
          }
        }
      EOT
    }
  }
  deletion_policy = local.data_deletion_policy
  lifecycle {
    create_before_destroy = true # a set of rules that is released cannot be deleted
  }
}

resource "google_firebaserules_release" "denied" {
  name            = local.database == "(default)" ? "cloud.firestore" : "cloud.firestore/${local.database}"
  ruleset_name    = "projects/${var.project_id}/rulesets/${google_firebaserules_ruleset.denied.name}"
  deletion_policy = local.data_deletion_policy
  depends_on      = [google_firestore_database.database]
}

# Firestore's audit logs are configured under the name of Datastore. This replaces the project's earlier configuration of them.
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

# No record on which a decision depends may have a time-to-live policy, so the receipts of waits have none. The policies and their
# reasons are listed in tests/expiry_policies.py.
locals {
  key_location = lookup({ nam5 = "us", eur3 = "europe" }, local.database_location, local.database_location)

  # `signalbox destroy` keeps prod's data, and all settings on it.
  data_deletion_policy = var.environment == "prod" ? "ABANDON" : "DELETE"

  # The indexes of single fields go with their database. A time to live is removed when it is no longer declared, as it would
  # delete data.
  index_deletion_policy = var.create_database ? "ABANDON" : local.data_deletion_policy

  expiring = {
    # The number of starts of a user's task. A missing record counts as zero, so deleting one early only lets a task run more
    # often. 31 days after the last start, Cloud Tasks has dropped the task.
    attempts = { field = "counted_at", offset = "2678400s" }

    # The record of a deleted yoke, which no standing contains. It is kept until the last delivery of the yoke's events, a day.
    counted = { field = "gone_at", offset = "604800s" }

    # A critical section that had no call for a week. Only an idle one has this field.
    critical_sections = { field = "idle_since", offset = "604800s" }

    # The newest event of a document that a handler has begun. After twice the time for which an event or its task may be delivered,
    # no older event can arrive.
    document_events = { field = "begun_at", offset = "5529600s" }

    # A task that was given up. After this time it cannot be run again; a late delivery of the task would record it again.
    failures = { field = "recorded_at", offset = "2592000s" }

    # The receipt of a rate's wait contains the time. Waits that are not granted have no time to live.
    rate_waits = { field = "expires_at", offset = null }

    # The receipt of a call of an object contains the time. Waiting calls and an object's state have no time to live.
    mailbox = { field = "expires_at", offset = null }

    # The receipt of a call that was enqueued under an id, or by a task: for as long as Cloud Tasks may deliver that task
    # again, and one day more.
    receipts = { field = "written_at", offset = "2764800s" }
  }
}

# No query names these fields.
resource "google_firestore_field" "expiring" {
  for_each   = { for collection, each in local.expiring : collection => each if contains(local.catalogue.collections, collection) }
  database   = local.database
  collection = each.key
  field      = each.value.field
  ttl_config {
    expiration_offset = each.value.offset
  }
  index_config {}
  deletion_policy = local.data_deletion_policy
  depends_on      = [google_firestore_field.first]
}
