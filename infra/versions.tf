terraform {
  required_version = ">= 1.9" # validations that refer to other variables
  required_providers {
    google = {
      source  = "hashicorp/google"
      version = "8.7.0" # the version whose schema the tests check these files against
    }
  }
  backend "gcs" {} # bucket and prefix come with `terraform init -backend-config`: they depend on project and environment
}

provider "google" {
  project = var.project_id
  region  = var.region
  default_labels = merge(
    { app = "signalbox", environment = var.environment },
    local.of_database == "" ? {} : { database = local.of_database },
  )
}
