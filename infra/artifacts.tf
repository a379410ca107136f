resource "google_artifact_registry_repository" "images" {
  repository_id = "${local.name_prefix}signalbox"
  location      = var.region
  format        = "DOCKER"
  description   = "Images of the functions, made by Cloud Build."
  cleanup_policies {
    id     = "keep-the-newest"
    action = "KEEP"
    most_recent_versions {
      keep_count = 5
    }
  }
  cleanup_policies {
    id     = "delete-after-30-days"
    action = "DELETE"
    condition {
      older_than = "2592000s"
    }
  }
}
