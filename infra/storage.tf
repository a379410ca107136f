resource "google_storage_bucket" "sources" {
  name                        = "${var.project_id}-${local.begin}signalbox-sources"
  location                    = var.region
  uniform_bucket_level_access = true
  public_access_prevention    = "enforced"
  force_destroy               = true # its content can be rebuilt
  depends_on                  = [google_project_service.api]
}

resource "google_storage_bucket_object" "catalogue" {
  bucket       = google_storage_bucket.sources.name
  name         = local.catalogue_object
  content      = jsonencode(local.of_all_functions)
  content_type = "application/json"
}
