# Accounts, and their rights to invoke functions, enqueue tasks, use the database, and act as other accounts.

resource "google_service_account" "kit" {
  for_each = {
    scheduler = "What the schedules call functions as"
    build     = "Builds the functions"
  }
  account_id   = "kit-${local.name_prefix}${each.key}"
  display_name = each.value
  depends_on   = [google_project_service.api]
}

# Terraform evaluates the map of a `for_each` once for each of its resources, so these maps are small.
locals {
  account_ids = { for name, function in local.deployments : name => function.account_id }
  with_rights = { for name, function in local.deployments : name => function.account_id if !function.isolated }
}

resource "google_service_account" "runtime" {
  for_each     = local.account_ids
  account_id   = each.value
  display_name = "Runs ${local.deployments[each.key].service}"
  lifecycle {
    precondition {
      condition     = length(each.value) >= 6
      error_message = "The account ${each.value} must have 6 characters or more: give the function a longer name in catalogue.yaml."
    }
  }
  depends_on = [google_project_service.api]
}

# The account with which a queue calls functions. It may call only those whose `queues` in the catalogue name it. So an attacker
# who controls a function can call at most the functions that its queues call.
resource "google_service_account" "queue" {
  for_each     = local.queues
  account_id   = "qu-${local.name_prefix}${each.key}"
  display_name = "What the queue ${local.name_prefix}${each.key} calls functions as"
  lifecycle {
    precondition {
      condition     = length("qu-${local.name_prefix}${each.key}") >= 6 && length("qu-${local.name_prefix}${each.key}") <= 30
      error_message = "The account qu-${local.name_prefix}${each.key} must have 6 to 30 characters: give the queue another name in catalogue.yaml, or shorten the prefix."
    }
  }
  depends_on = [google_project_service.api]
}

# A trigger's account may receive events and invoke its function, and has no other right.
resource "google_service_account" "trigger" {
  for_each     = toset([for trigger in local.triggers : trigger.function])
  account_id   = replace(local.deployments[each.key].account_id, "/^fn-/", "ev-")
  display_name = "Invokes ${local.deployments[each.key].service} with events"
  depends_on   = [google_project_service.api]
}

locals {
  # The account that `signalbox bootstrap` creates. It keeps its rights when a person deploys, so that both may deploy in turn.
  builder = "serviceAccount:signalbox-deployer@${var.project_id}.iam.gserviceaccount.com"

  # If several people deploy in turn, each would take the right from the previous one, so a group has it for all of them.
  deployer_members = var.deployers != null ? [var.deployers] : var.deployer != null ? [var.deployer] : []
  people           = setunion(var.invokers, [local.builder], local.deployer_members)

  # The right itself is `invoker` in modules/function/main.tf, one for each member.
  invokers = { for name, function in local.deployments : name => merge(
    function.people ? { for member in local.people : member => member } : {},
    function.open ? { everybody = "allUsers" } : {},
    function.queue ? { for queue in function.queues : "queue ${queue}" => google_service_account.queue[queue].member } : {},
    function.schedule ? { scheduler = google_service_account.kit["scheduler"].member } : {},
    function.part == "tasks" ? {} : { for caller, other in local.deployments : "function ${caller}" => google_service_account.runtime[caller].member if contains(other.invokes, function.function) },
    contains(local.trigger_targets, name) ? { trigger = google_service_account.trigger[function.function].member } : {},
  ) }

  trigger_targets = setunion(local.event_receivers, [for trigger in local.function_triggers : trigger.function])

  enqueues  = merge([for name, function in local.deployments : { for queue in function.enqueues : "${name}/${queue}" => queue }]...)
  enqueuers = merge([for name, function in local.deployments : { for queue in function.enqueues : "${name}/${queue}" => name }]...)

  acting_accounts = merge(
    { for name, account in google_service_account.runtime : account.account_id => account.name },
    { for name, account in google_service_account.trigger : account.account_id => account.name },
    { for name in ["build", "scheduler"] : google_service_account.kit[name].account_id => google_service_account.kit[name].name },
  )
}

resource "google_cloud_tasks_queue_iam_member" "enqueuer" {
  for_each = local.enqueues
  name     = google_cloud_tasks_queue.queue[each.value].name
  location = var.region
  role     = "roles/cloudtasks.enqueuer"
  member   = google_service_account.runtime[local.enqueuers[each.key]].member
}

# A task is delivered with its queue's identity, so only an account that may act as that identity can create the task.
resource "google_service_account_iam_member" "act_as_queue" {
  for_each           = local.enqueues
  service_account_id = google_service_account.queue[each.value].name
  role               = "roles/iam.serviceAccountUser"
  member             = google_service_account.runtime[local.enqueuers[each.key]].member
}

# [open] The condition follows the documentation for named databases, and has not been tried in a real project.
resource "google_project_iam_member" "database" {
  for_each = local.with_rights
  project  = var.project_id
  role     = "roles/datastore.user"
  member   = google_service_account.runtime[each.key].member
  condition {
    title      = "one-database-only"
    expression = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  }
}

# Every function may read the shared part of the catalogue, and no other object of that bucket. [open] As above.
resource "google_project_iam_member" "catalogue" {
  for_each = local.with_rights
  project  = var.project_id
  role     = "roles/storage.objectViewer"
  member   = google_service_account.runtime[each.key].member
  condition {
    title      = "list-of-functions-only"
    expression = "resource.name == \"projects/_/buckets/${google_storage_bucket.sources.name}/objects/${local.catalogue_object}\""
  }
}

# The rights that a function's entry in the catalogue requests: its secrets, and roles of the project.
locals {
  secret_reads = merge([for name, function in local.deployments : {
    for secret in function.secrets : "${name}/${secret.secret}" => { account = name, secret = secret.secret }...
  }]...)
  project_roles = merge([for name, function in local.deployments : {
    for role in function.roles : "${name}/${role}" => { account = name, role = role }
  }]...)
}

# The buckets to which the code writes the archives of its flows. It does so in a task.
locals {
  archives = merge([for name, function in local.deployments : {
    for bucket in function.archives : "${name}/${bucket}" => { account = name, bucket = bucket }
  }]...)
}

resource "google_storage_bucket_iam_member" "archive" {
  for_each = local.archives
  bucket   = each.value.bucket
  role     = "roles/storage.objectUser" # creates objects, and checks whether one exists
  member   = google_service_account.runtime[each.value.account].member
}

resource "google_secret_manager_secret_iam_member" "reader" {
  for_each  = { for key, reads in local.secret_reads : key => reads[0] }
  project   = var.project_id
  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = google_service_account.runtime[each.value.account].member
}

resource "google_project_iam_member" "own_role" {
  for_each = local.project_roles
  project  = var.project_id
  role     = each.value.role
  member   = google_service_account.runtime[each.value.account].member
}

resource "google_project_iam_member" "event_receiver" {
  for_each = google_service_account.trigger
  project  = var.project_id
  role     = "roles/eventarc.eventReceiver"
  member   = each.value.member
}

# A deployment by Cloud Build creates resources that run as these accounts, so it needs the right to act as them.
resource "google_service_account_iam_member" "builder_acts_as" {
  for_each           = local.acting_accounts
  service_account_id = each.value
  role               = "roles/iam.serviceAccountUser"
  member             = local.builder
}

resource "google_project_iam_member" "build_logs" {
  project = var.project_id
  role    = "roles/logging.logWriter"
  member  = google_service_account.kit["build"].member
}

# Cloud Functions copies each zip to its own bucket, which exists only after the first deployment: hence a role on the
# project, limited by a condition to that bucket and to ours. [open] The condition has not been tried in a real project.
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

# A right takes effect a few minutes after it was granted ("typically 2 minutes, potentially 7 or longer": IAM, Access change
# propagation), and a function that is built earlier fails. So all functions wait once, after the rights that building and
# running them needs were granted, and again only when there is a new right.
resource "terraform_data" "rights" {
  triggers_replace = sort(concat(
    [google_project_iam_member.build_logs.id, google_project_iam_member.build_sources.id],
    [google_artifact_registry_repository_iam_member.build_images.id],
    [for right in google_project_iam_member.catalogue : right.id],
    [for right in google_project_iam_member.database : right.id],
    [for right in google_project_iam_member.event_receiver : right.id],
    [for right in google_project_iam_member.own_role : right.id],
    [for right in google_secret_manager_secret_iam_member.reader : right.id],
    [for right in google_service_account_iam_member.act_as_queue : right.id],
    [for right in google_service_account_iam_member.builder_acts_as : right.id],
    [for right in google_storage_bucket_iam_member.archive : right.id],
  ))
  provisioner "local-exec" {
    command = "sleep ${var.rights_seconds}"
  }
}
