# Accounts, and their rights to invoke functions, enqueue tasks, use the database, and act as other accounts.

# The functions of the kit share one account: they share the database, so separate accounts would protect little (SECURITY.md). A
# function of the kit that its entry gives more rights, or opens, has its own account, as every function of a user has.
locals {
  own_accounts = { for name, function in local.deployments : name => function.account_id if !function.kit_account }
  kit_accounts = merge({
    scheduler = "What the schedules call functions as"
    build     = "Builds the functions"
    },
    length(local.own_accounts) < length(local.deployments) ? { functions = "Runs the functions of the kit" } : {},
    length(local.triggers) > 0 ? { events = "Invokes functions with events" } : {},
    var.exports == null ? {} : { exports = "Exports the database" },
  )
  queue_accounts = toset([for queue in local.queues : queue.account])
}

# Only Cloud Scheduler, Cloud Build and Eventarc use the accounts of schedules, exports, builds and triggers. Functions cannot act as them, so
# there is one of each.
resource "google_service_account" "kit" {
  for_each     = local.kit_accounts
  account_id   = "kit-${local.name_prefix}${each.key}"
  display_name = each.value
}

resource "google_service_account" "runtime" {
  for_each     = local.own_accounts
  account_id   = each.value
  display_name = "Runs ${local.deployments[each.key].service}"
  lifecycle {
    precondition {
      condition     = length(each.value) >= 6
      error_message = "The account ${each.value} must have 6 characters or more: give the function a longer name in the catalogue."
    }
  }
}

# The account with which queues call functions: one for the queues of the kit's workers, one for those of users' tasks, flows and
# objects, and one for each other queue. It may call only the functions that its queues call. So an attacker who controls a function
# can call at most the functions that its queues' accounts may call.
resource "google_service_account" "queue" {
  for_each     = local.queue_accounts
  account_id   = "qu-${local.name_prefix}${each.key}"
  display_name = "What ${join(", ", [for name, queue in local.queues : name if queue.account == each.key])} call as"
  lifecycle {
    precondition {
      condition     = length("qu-${local.name_prefix}${each.key}") >= 6 && length("qu-${local.name_prefix}${each.key}") <= 30
      error_message = "The account qu-${local.name_prefix}${each.key} must have 6 to 30 characters: give the queue another name in the catalogue, or shorten the prefix."
    }
  }
}

# Terraform evaluates the map of a `for_each` once for each of its resources, so these maps are small.
locals {
  accounts = { for name, function in local.deployments : name =>
    function.kit_account ? google_service_account.kit["functions"] : google_service_account.runtime[name]
  }

  # The account that `signalbox bootstrap` creates. It keeps its rights when a person deploys, so that both may deploy in turn.
  builder = "serviceAccount:signalbox-deployer@${var.project_id}.iam.gserviceaccount.com"

  # If several people deploy in turn, each would take the right from the previous one, so a group has it for all of them.
  deployer_members = var.deployers != null ? [var.deployers] : var.deployer != null ? [var.deployer] : []
  people           = setunion(var.invokers, [local.builder], local.deployer_members)

  # The right itself is `invoker` in modules/function/main.tf, one for each member.
  invokers = { for name, function in local.deployments : name => merge(
    function.people ? { for member in local.people : member => member } : {},
    function.open ? { everybody = "allUsers" } : {},
    function.queue ? { for account in toset([for queue in function.queues : local.queues[queue].account]) : "queue ${account}" => google_service_account.queue[account].member } : {},
    function.schedule ? { scheduler = google_service_account.kit["scheduler"].member } : {},
    function.part == "tasks" ? {} : { for caller, other in local.deployments : "function ${caller}" => local.accounts[caller].member if contains(other.invokes, function.function) },
    { for caller in function.invokers_elsewhere : "function ${caller} of another database" => "serviceAccount:fn-${local.first_prefix}${caller}@${var.project_id}.iam.gserviceaccount.com" },
    contains(local.trigger_targets, name) ? { trigger = google_service_account.kit["events"].member } : {},
  ) }

  trigger_targets = setunion(local.event_receivers, [for trigger in local.function_triggers : trigger.function])

  # The members that may enqueue to a queue, and those that may act as an account of queues.
  enqueuers = { for queue in keys(local.queues) : queue => distinct([
    for name, function in local.deployments : local.accounts[name].member if contains(function.enqueues, queue)
  ]) }
  enqueued    = setunion([], [for function in local.deployments : function.enqueues]...)
  acted_as    = toset([for queue in local.enqueued : local.queues[queue].account])
  with_rights = [for name, function in local.deployments : name if !function.isolated]
  members     = distinct([for name in local.with_rights : local.accounts[name].member])

  acting_accounts = merge(
    { for name, account in google_service_account.runtime : account.account_id => account.name },
    { for name, account in google_service_account.kit : account.account_id => account.name },
  )
}

# A binding replaces all members of its role and condition, so each of these is of a queue or an account that the kit creates, or has a
# condition with a title that only this deployment has. It is one request for any number of functions.
resource "google_cloud_tasks_queue_iam_binding" "enqueuers" {
  for_each = local.enqueued
  name     = google_cloud_tasks_queue.queue[each.key].name
  location = var.region
  role     = "roles/cloudtasks.enqueuer"
  members  = local.enqueuers[each.key]
}

# A task is delivered with its queue's identity, so only an account that may act as that identity can create the task.
resource "google_service_account_iam_binding" "act_as_queue" {
  for_each           = local.acted_as
  service_account_id = google_service_account.queue[each.key].name
  role               = "roles/iam.serviceAccountUser"
  members            = distinct(flatten([for queue, members in local.enqueuers : members if local.queues[queue].account == each.key]))
}

# [open] The condition follows the documentation for named databases, and has not been tried in a real project.
resource "google_project_iam_binding" "database" {
  count   = length(local.with_rights) > 0 ? 1 : 0
  project = var.project_id
  role    = "roles/datastore.user"
  members = local.members
  condition {
    title      = "${local.name_prefix}signalbox-database"
    expression = "resource.name == \"projects/${var.project_id}/databases/${local.database}\""
  }
}

# Every function may read the shared part of the catalogue, and no other object of that bucket. [open] As above.
resource "google_project_iam_binding" "catalogue" {
  count   = length(local.with_rights) > 0 ? 1 : 0
  project = var.project_id
  role    = "roles/storage.objectViewer"
  members = local.members
  condition {
    title      = "${local.name_prefix}signalbox-list-of-functions"
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
  member   = local.accounts[each.value.account].member
}

# Functions create and read payloads. Without the right to delete an object, they cannot replace one either. The sweeper deletes them.
resource "google_storage_bucket_iam_member" "payloads" {
  for_each = { for right in flatten([
    for bucket in google_storage_bucket.payloads : concat(
      [for name in local.with_rights : { bucket = bucket.name, account = name, role = "roles/storage.objectCreator" }],
      [for name in local.with_rights : { bucket = bucket.name, account = name, role = "roles/storage.objectViewer" }],
      [{ bucket = bucket.name, account = "sweep", role = "roles/storage.objectUser" }],
    )
  ]) : "${right.account}/${right.role}" => right if !local.deployments[right.account].kit_account || right.account == "sweep" }
  bucket = each.value.bucket
  role   = each.value.role
  member = local.accounts[each.value.account].member
}

resource "google_secret_manager_secret_iam_member" "reader" {
  for_each  = { for key, reads in local.secret_reads : key => reads[0] }
  project   = var.project_id
  secret_id = each.value.secret
  role      = "roles/secretmanager.secretAccessor"
  member    = local.accounts[each.value.account].member
}

resource "google_project_iam_member" "own_role" {
  for_each = local.project_roles
  project  = var.project_id
  role     = each.value.role
  member   = local.accounts[each.value.account].member
}

resource "google_project_iam_member" "event_receiver" {
  count   = length(local.triggers) > 0 ? 1 : 0
  project = var.project_id
  role    = "roles/eventarc.eventReceiver"
  member  = google_service_account.kit["events"].member
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
    [for right in google_project_iam_binding.catalogue : "${right.id} ${join(" ", sort(right.members))}"],
    [for right in google_project_iam_binding.database : "${right.id} ${join(" ", sort(right.members))}"],
    [for right in google_project_iam_member.event_receiver : right.id],
    [for right in google_project_iam_member.own_role : right.id],
    [for right in google_secret_manager_secret_iam_member.reader : right.id],
    [for right in google_service_account_iam_binding.act_as_queue : "${right.id} ${join(" ", sort(right.members))}"],
    [for right in google_service_account_iam_member.builder_acts_as : right.id],
    [for right in google_storage_bucket_iam_member.archive : right.id],
    [for right in google_storage_bucket_iam_member.payloads : right.id],
  ))
  provisioner "local-exec" {
    command = "sleep ${var.rights_seconds}"
  }
}
