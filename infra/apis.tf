resource "google_project_service" "api" {
  for_each = toset(concat([
    "artifactregistry.googleapis.com",
    "cloudbuild.googleapis.com",
    "cloudfunctions.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "cloudscheduler.googleapis.com",
    "cloudtasks.googleapis.com",
    "firebaserules.googleapis.com",
    "firestore.googleapis.com",
    "iam.googleapis.com",
    "logging.googleapis.com",
    "monitoring.googleapis.com",
    "run.googleapis.com",
    "storage.googleapis.com",
    ],
    length(local.triggers) == 0 ? [] : ["eventarc.googleapis.com", "eventarcpublishing.googleapis.com", "pubsub.googleapis.com"],
    var.domain == null ? [] : ["compute.googleapis.com"],
  anytrue([for row in local.deployments : length(row.secrets) > 0]) ? ["secretmanager.googleapis.com"] : []))
  service            = each.key
  disable_on_destroy = false # other applications of the project may use it
}
