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
