# The deploying account. The project's owner runs this once, and again for an upgrade of rights. `signalbox bootstrap` first creates the
# bucket for the states. It also has this folder's state, so any machine can continue from it.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "8.7.0"
    }
  }
  backend "gcs" {} # `terraform init -backend-config` sets bucket and prefix, as for a deployment
}

provider "google" {
  project = var.project_id
  region  = var.region
}

resource "google_project_service" "api" {
  for_each = toset([
    "cloudbuild.googleapis.com",
    "cloudresourcemanager.googleapis.com",
    "iam.googleapis.com",
    "iamcredentials.googleapis.com",
    "serviceusage.googleapis.com",
    "sts.googleapis.com", # exchanges GitHub's tokens
    "storage.googleapis.com",
  ])
  service            = each.key
  disable_on_destroy = false
}
