terraform {
  required_version = ">= 1.9" # validations that look at more than their own variable
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "~> 8.7" # the version whose schema the tests hold these files to
    }
  }
  backend "gcs" {} # bucket and prefix come with `terraform init -backend-config`: they differ by project and environment
}

provider "google" {
  project = var.project_id
  region  = var.region
  default_labels = {
    app         = "signalbox"
    environment = var.environment
  }
}
