resource "google_storage_bucket" "sources" {
  name                        = "${var.project_id}-${local.name_prefix}signalbox-sources"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true # its content can be rebuilt
}

resource "google_storage_bucket_object" "catalogue" {
  bucket       = google_storage_bucket.sources.name
  name         = local.catalogue_object
  content      = jsonencode(local.shared)
  content_type = "application/json"
}

# Large values, with `payloads: true` in the catalogue. No rule deletes those of runs by their age, since a run may wait for
# years: the sweeper deletes them with their run. What was deleted can be restored for as long as the database can (7 days).
resource "google_storage_bucket" "payloads" {
  count                       = local.catalogue.payloads ? 1 : 0
  name                        = "${var.project_id}-${local.name_prefix}signalbox-payloads"
  location                    = local.key_location == "europe" ? "eu" : local.key_location # as the database, and its key
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = local.data_deletion_policy == "DELETE"
  soft_delete_policy {
    retention_duration_seconds = 7 * 24 * 3600
  }
  dynamic "encryption" {
    for_each = var.cmek_key == null ? [] : [var.cmek_key]
    content {
      default_kms_key_name = encryption.value
    }
  }
  lifecycle_rule { # those that only tasks of a month name: 31 days until the last, 31 of deliveries, 30 of a kept failure, 31 of its retry
    action {
      type = "Delete"
    }
    condition {
      age            = 130
      matches_prefix = ["tasks/"]
    }
  }
}
