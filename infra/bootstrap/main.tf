# Run once a project, by its owner, and again for an upgrade of rights: the deploying account. `make bootstrap` creates the
# bucket for the states before, and this folder's state is there too, so that every machine continues from it.

terraform {
  required_version = ">= 1.9"
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "8.7.0"
    }
  }
  backend "gcs" {} # bucket and prefix come with `terraform init -backend-config`, as those of a deployment
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
