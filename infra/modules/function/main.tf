# One function: its zip, its invokers, and its trigger if it has one. Its accounts and their rights are created before it.

terraform {
  required_providers {
    google = {
      source = "hashicorp/google"
    }
  }
}

locals {
  triggers = var.trigger == null ? {} : { trigger = var.trigger }
}

# Named by its content, so that unchanged code is not deployed again. The new object exists before the old one is deleted.
resource "google_storage_bucket_object" "source" {
  bucket         = var.source_bucket
  name           = "${var.name}/${filesha256(var.source_zip)}.zip"
  source         = var.source_zip
  source_md5hash = filemd5(var.source_zip)
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_cloudfunctions2_function" "function" {
  name     = var.name
  location = var.region
  build_config {
    runtime           = var.resources.runtime
    entry_point       = var.entry_point
    service_account   = var.build_account
    docker_repository = var.repository
    # The build compiles the code, and then sets the time of each file to 1980. Python would take the compiled code for out
    # of date, and compile all modules at each cold start. With this variable it compares hashes instead of times.
    environment_variables = { SOURCE_DATE_EPOCH = "315532801" }
    source {
      storage_source {
        bucket = var.source_bucket
        object = google_storage_bucket_object.source.name
      }
    }
    automatic_update_policy {}
  }
  service_config {
    service_account_email            = var.account
    available_memory                 = var.resources.memory
    available_cpu                    = tostring(var.resources.cpu)
    max_instance_request_concurrency = var.resources.concurrency
    timeout_seconds                  = var.resources.timeout_seconds
    max_instance_count               = var.resources.instances_max
    min_instance_count               = var.resources.instances_min
    ingress_settings                 = var.ingress
    all_traffic_on_latest_revision   = true
    environment_variables = merge(var.environment, {
      THREADS = tostring(var.resources.concurrency)
      # Orders the deployments of a function's code: Cloud Storage's number of the zip, which it derives from the time of the upload. It
      # also grows when the function is recreated or gets another address, unlike the number of a Cloud Run revision.
      SIGNALBOX_REVISION = tostring(google_storage_bucket_object.source.generation)
    })
    direct_vpc_egress = var.vpc == null ? null : var.vpc.egress == "all-traffic" ? "VPC_EGRESS_ALL_TRAFFIC" : "VPC_EGRESS_PRIVATE_RANGES_ONLY"
    dynamic "direct_vpc_network_interface" {
      for_each = var.vpc == null ? [] : [var.vpc]
      content {
        network    = direct_vpc_network_interface.value.network
        subnetwork = direct_vpc_network_interface.value.subnetwork
      }
    }
    dynamic "secret_environment_variables" {
      for_each = var.secrets
      content {
        key        = secret_environment_variables.key
        project_id = var.project_id
        secret     = secret_environment_variables.value.secret
        version    = secret_environment_variables.value.version
      }
    }
  }
  dynamic "event_trigger" {
    for_each = local.triggers
    content {
      event_type            = event_trigger.value.type
      trigger_region        = event_trigger.value.region
      retry_policy          = "RETRY_POLICY_RETRY" # the kit relies on every event being handled eventually
      service_account_email = event_trigger.value.account
      event_filters {
        attribute = "database"
        value     = var.database
      }
      event_filters {
        attribute = "document"
        value     = event_trigger.value.document
        operator  = "match-path-pattern"
      }
    }
  }
  lifecycle {
    precondition {
      condition     = var.resources.concurrency == 1 || var.resources.cpu >= 1
      error_message = "${var.name} has ${var.resources.cpu} CPU: below a full one an instance handles one request at a time. Set `concurrency: 1` or `cpu: 1`."
    }
  }
  depends_on = [var.ready]
}

# A resource of Cloud Run, since that of Cloud Functions rejects the role. Recreating a function deletes its policy.
resource "google_cloud_run_service_iam_member" "invoker" {
  for_each = var.invokers
  location = var.region
  service  = google_cloudfunctions2_function.function.name
  role     = "roles/run.invoker"
  member   = each.value
  lifecycle {
    replace_triggered_by = [google_cloudfunctions2_function.function.id]
  }
}
