# Who may invoke functions, enqueue tasks and act as service accounts. A function's own roles are in its module.

resource "google_service_account" "kit" {
  for_each = {
    tasks     = "What the queues call functions as"
    scheduler = "What the schedules call functions as"
    build     = "Builds the functions"
  }
  account_id   = "kit-${local.begin}${each.key}"
  display_name = each.value
  depends_on   = [google_project_service.api]
}

locals {
  people = setunion(var.invokers, var.deployer == null ? [] : [var.deployer])

  invokers = { for name, function in local.deployments : name => merge(
    function.people ? { for member in local.people : member => member } : {},
    function.open ? { everybody = "allUsers" } : {},
    function.queue ? { tasks = google_service_account.kit["tasks"].member } : {},
    function.schedule ? { scheduler = google_service_account.kit["scheduler"].member } : {},
  ) }

  enqueues = merge([for name, function in local.deployments : {
    for queue in function.enqueues : "${name}/${queue}" => { function = name, queue = queue }
  }]...)
}

resource "google_cloud_tasks_queue_iam_member" "enqueuer" {
  for_each = local.enqueues
  name     = google_cloud_tasks_queue.queue[each.value.queue].name
  location = var.region
  role     = "roles/cloudtasks.enqueuer"
  member   = module.function[each.value.function].account.member
}

# A task carries the tasks' identity, and only an account that may act as it can create such a task.
resource "google_service_account_iam_member" "act_as_tasks" {
  for_each           = toset([for name, function in local.deployments : name if length(function.enqueues) > 0])
  service_account_id = google_service_account.kit["tasks"].name
  role               = "roles/iam.serviceAccountUser"
  member             = module.function[each.key].account.member
}

resource "google_project_iam_member" "build_logs" {
  project = var.project_id
  role    = "roles/logging.logWriter"
  member  = google_service_account.kit["build"].member
}

# Cloud Functions copies each zip to a bucket of its own, which exists only after the first deployment: hence a role on the
# project, limited by a condition to that bucket and to ours. [open] the condition was never run in a real project.
resource "google_project_iam_member" "build_sources" {
  project = var.project_id
  role    = "roles/storage.objectViewer"
  member  = google_service_account.kit["build"].member
  condition {
    title = "sources-of-functions-only"
    expression = join(" || ", [
      for bucket in ["gcf-v2-sources-${data.google_project.this.number}-${var.region}", google_storage_bucket.sources.name] :
      "resource.name.startsWith(\"projects/_/buckets/${bucket}\")"
    ])
  }
}

resource "google_artifact_registry_repository_iam_member" "build_images" {
  repository = google_artifact_registry_repository.images.name
  location   = var.region
  role       = "roles/artifactregistry.writer"
  member     = google_service_account.kit["build"].member
}
