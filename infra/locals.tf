# The rows of the catalogue, and the names and addresses that depend on the environment and the project.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  of_database = var.catalogue_database

  # `signalbox catalogue` and every deployment write it. The functions of another database are a deployment with another lock.
  catalogue = yamldecode(file("${path.module}/catalogue${local.of_database == "" ? "" : "."}${local.of_database}.lock.yaml"))

  # The kit's examples are in its own catalogue, and not in the catalogue of a user's project.
  rows      = { for name, row in local.catalogue.deployments : name => row if var.examples || !row.example }
  own_rows  = [for row in local.rows : row if !row.kit_account] # of functions with their own accounts
  functions = toset([for row in local.rows : row.function])
  triggers  = { for name, trigger in local.catalogue.triggers : name => trigger if contains(local.functions, trigger.function) }
  schedules = { for name, schedule in local.catalogue.schedules : name => schedule if contains(local.functions, schedule.function) }
  queues    = local.catalogue.queues

  # The other databases of the environment: names of their resources also begin with this prefix.
  databases = local.of_database == "" ? [for name in fileset(path.module, "catalogue.*.lock.yaml") : split(".", name)[1]] : []

  name_prefix       = var.prefix == "" ? "" : "${var.prefix}-"
  first_prefix      = trimsuffix(local.name_prefix, "${local.of_database}-") # of the functions without a database
  database          = coalesce(var.database, "signalbox-${var.environment}")
  database_location = coalesce(var.database_location, var.region)

  # A function that is open and has tasks is deployed twice: NAME serves people, and NAME_tasks serves tasks.
  deployments = { for name, row in local.rows : name => merge(row, {
    service    = "${local.name_prefix}${row.segment}"
    account_id = "fn-${local.name_prefix}${row.segment}" # an account's id has at least 6 characters, a name may have fewer
    people     = contains(row.callers, "people")
    queue      = contains(row.callers, "queue")
    schedule   = contains(row.callers, "schedule")
  }) }

  # A URL for people passes the path after the name to the function; deployment_target.py has the same rule. Queues and schedules call the
  # deterministic address, which is known before any function exists, so functions can enqueue tasks for each other.
  base_url     = var.domain_only ? "https://${var.domain}/" : "https://${var.region}-${var.project_id}.cloudfunctions.net/${local.name_prefix}"
  function_url = "https://${local.name_prefix}{function}-${data.google_project.this.number}.${var.region}.run.app"

  # The variables that all functions have in common. The others are in the rows.
  environment = merge({ for bucket in google_storage_bucket.payloads : "SIGNALBOX_PAYLOADS" => "gs://${bucket.name}" }, {
    SIGNALBOX_PROJECT           = var.project_id
    SIGNALBOX_LOCATION          = var.region
    SIGNALBOX_DATABASE          = local.database
    SIGNALBOX_BASE_URL          = local.base_url
    SIGNALBOX_FUNCTION_URL      = local.function_url
    SIGNALBOX_QUEUE_PREFIX      = local.name_prefix
    SIGNALBOX_TASKS_ACCOUNT     = "qu-${local.name_prefix}{queue}@${var.project_id}.iam.gserviceaccount.com"
    SIGNALBOX_SCHEDULER_ACCOUNT = google_service_account.kit["scheduler"].email
    SIGNALBOX_HISTORY           = jsonencode(local.catalogue.history)
    SIGNALBOX_DOCUMENT_WRITERS  = local.catalogue.document_writers
    SIGNALBOX_CATALOGUE         = "${google_storage_bucket.sources.name}/${local.catalogue_object}"
  })

  # One object has the data that each function needs about the others, without the functions that this environment does not deploy.
  catalogue_object = "catalogue.json"
  shared = merge(local.catalogue.shared, {
    for section in ["task_functions", "task_parameters", "calling_queues"] :
    section => { for name, value in local.catalogue.shared[section] : name => value if contains(local.functions, name) }
    }, {
    for section in ["object_classes", "flow_functions"] :
    section => { for code, name in local.catalogue.shared[section] : code => name if contains(local.functions, name) }
    }, {
    split_functions = [for name in local.catalogue.shared.split_functions : name if contains(local.functions, name)]
  })
}
