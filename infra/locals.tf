# The catalogue in the cloud's terms. Only this file determines names and addresses.

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  catalogue = yamldecode(file("${path.module}/catalogue.lock.yaml")) # `signalbox catalogue` and every deployment write it
  queues    = local.catalogue.queues
  triggers  = { for name, trigger in local.catalogue.triggers : name => trigger if contains(keys(local.entries), trigger.function) }
  schedules = local.catalogue.schedules
  indexes   = lookup(local.catalogue, "indexes", null) == null ? {} : local.catalogue.indexes
  history   = values(merge({}, lookup(local.catalogue, "history", null))) # in the order of their names

  # The kit's examples are in its own catalogue, and not in the catalogue of a user's project.
  entries = { for name, entry in local.catalogue.functions : name => entry if var.examples || !startswith(lookup(entry, "folder", ""), "examples/") }

  segments = { for name in keys(local.entries) : name => replace(name, "_", "-") } # in URLs and names in the cloud

  begin             = var.prefix == "" ? "" : "${var.prefix}-"
  database          = coalesce(var.database, "signalbox-${var.environment}")
  database_location = coalesce(var.database_location, var.region)

  # The queues of the kit's own functions take no other tasks. The others take users' tasks if they retry without a limit.
  kits_queues = flatten([for name, entry in local.entries : lookup(entry, "queues", []) if startswith(lookup(entry, "folder", "functions/${name}"), "functions/")])
  # The queue `objects` carries the wake-ups of objects, `flows` those of flows.
  task_queues = [for name, queue in local.queues : name if queue.attempts_max == -1 && !contains(local.kits_queues, name) && !contains(["flows", "objects"], name)]

  functions = { for name, entry in local.entries : name => {
    segment    = local.segments[name]
    service    = "${local.begin}${local.segments[name]}"
    account_id = "fn-${local.begin}${local.segments[name]}" # an account's id has at least 6 characters, a name may have fewer
    people     = contains(entry.invoked_by, "people")
    queue      = contains(entry.invoked_by, "queue")
    schedule   = contains(entry.invoked_by, "schedule")
    public     = lookup(entry, "public", false)
    queues = toset(!contains(entry.invoked_by, "queue") ? [] : concat(
      length(lookup(entry, "queues", [])) > 0 ? entry.queues : local.task_queues,
      length(lookup(entry, "objects", [])) > 0 ? ["objects"] : [],
      length(lookup(entry, "flows", [])) > 0 ? ["flows"] : [],
    ))
    env       = merge({}, lookup(entry, "env", null))
    secrets   = merge({}, lookup(entry, "secrets", null))
    roles     = lookup(entry, "roles", [])
    invokes   = lookup(entry, "invokes", [])
    archives  = lookup(entry, "archives", [])
    isolated  = lookup(entry, "isolated", false)
    vpc       = length(merge({}, lookup(entry, "vpc", null))) == 0 ? null : merge({ network = null, subnetwork = null, egress = "private-ranges" }, entry.vpc)
    auth      = lookup(entry, "auth", "")
    open      = lookup(entry, "public", false) || lookup(entry, "auth", "") != "" # the platform admits everybody
    origins   = sort(lookup(entry, "cors", []))
    exposes   = sort(lookup(entry, "exposes", []))
    enqueues  = toset(lookup(entry, "enqueues", []))
    objects   = lookup(entry, "objects", [])
    flows     = lookup(entry, "flows", [])
    tasks     = sort(concat(lookup(entry, "tasks", []), length(lookup(entry, "objects", [])) > 0 ? ["call_object"] : [])) # the kit's own task
    users_own = !startswith(lookup(entry, "folder", "functions/${name}"), "functions/")
    resources = {
      memory          = lookup(entry, "memory", null)
      cpu             = lookup(entry, "cpu", null)
      concurrency     = lookup(entry, "concurrency", null)
      timeout_seconds = lookup(entry, "timeout_seconds", null)
      instances_max   = lookup(entry, "instances_max", null)
      instances_min   = lookup(entry, "instances_min", null)
      runtime         = lookup(entry, "runtime", null)
    }
  } }

  has_secrets = anytrue([for function in local.functions : length(function.secrets) > 0])

  # A function that is open and has tasks is deployed twice: NAME serves everything but tasks, and NAME-tasks serves only tasks.
  # Only the tasks' account may call NAME-tasks, so Cloud Run verifies it (also in shared/signalbox_tools/function_deployments.py).
  split = toset([for name, entry in local.entries : name if contains(entry.invoked_by, "queue") && (lookup(entry, "public", false) || lookup(entry, "auth", "") != "")])

  segments_deployed = concat(values(local.segments), [for name in local.split : "${local.segments[name]}-tasks"])

  deployments = merge(
    { for name, function in local.functions : name => merge(function, {
      function = name
      part     = contains(local.split, name) ? "people" : ""
      queue    = function.queue && !contains(local.split, name)
      # Tasks that were created before the function was open have NAME's address, and NAME enqueues them again.
      enqueues = contains(local.split, name) ? setunion(function.enqueues, function.queues) : function.enqueues
    }) },
    { for name in local.split : "${name}_tasks" => merge(local.functions[name], {
      function   = name
      part       = "tasks"
      segment    = "${local.functions[name].segment}-tasks"
      service    = "${local.functions[name].service}-tasks"
      account_id = "${local.functions[name].account_id}-tasks"
      people     = false
      public     = false
      open       = false
      auth       = ""
      origins    = []
    }) },
  )

  # A URL for people passes the path after the name to the function; deployment_target.py has the same rule. Queues and schedules call the
  # deterministic address, which is known before any function exists, so functions can enqueue tasks for each other.
  base_url     = var.domain_only ? "https://${var.domain}/" : "https://${var.region}-${var.project_id}.cloudfunctions.net/${local.begin}"
  function_url = "https://${local.begin}{function}-${data.google_project.this.number}.${var.region}.run.app"

  environment = {
    SIGNALBOX_PROJECT           = var.project_id
    SIGNALBOX_LOCATION          = var.region
    SIGNALBOX_DATABASE          = local.database
    SIGNALBOX_BASE_URL          = local.base_url
    SIGNALBOX_FUNCTION_URL      = local.function_url
    SIGNALBOX_QUEUE_PREFIX      = local.begin
    SIGNALBOX_TASKS_ACCOUNT     = "qu-${local.begin}{queue}@${var.project_id}.iam.gserviceaccount.com"
    SIGNALBOX_SCHEDULER_ACCOUNT = google_service_account.kit["scheduler"].email
    SIGNALBOX_HISTORY           = jsonencode(local.history)
    SIGNALBOX_DOCUMENT_WRITERS  = local.catalogue.documents.written_by
    SIGNALBOX_CATALOGUE         = "${google_storage_bucket.sources.name}/${local.catalogue_object}"
  }

  # One object has what each function must know of the others; a function reads it when it first needs it. If it were in their
  # environments, a new function would update all of them.
  catalogue_object = "catalogue.json"
  of_all_functions = {
    format          = 1
    task_functions  = { for name, function in local.functions : name => function.tasks if function.queue && (function.users_own || length(function.tasks) > 0) }
    task_queues     = local.task_queues
    calling_queues  = { for name, function in local.functions : name => sort(function.queues) if function.queue }
    object_classes  = merge([for name, function in local.functions : { for class in function.objects : class => name }]...)
    flow_functions  = merge([for name, function in local.functions : { for flow in function.flows : flow => name }]...)
    split_functions = local.split
    task_parameters = { for name, entry in local.entries : name => entry.parameters if length(merge({}, lookup(entry, "parameters", null))) > 0 }
  }

  # A function's own entries decide who may call it, so they are in its environment, which no function can change.
  of_one_function = { for name, function in local.deployments : name => {
    SIGNALBOX_CALLING_QUEUES  = jsonencode(length(function.queues) > 0 ? { (function.function) = sort(function.queues) } : {})
    SIGNALBOX_QUEUE_BACKOFFS  = jsonencode({ for name in function.queues : name => local.backoffs[name] })
    SIGNALBOX_SPLIT_FUNCTIONS = jsonencode([for name in [function.function] : name if contains(local.split, name)])
  } }
  backoffs = { for name, queue in local.queues : name => [queue.backoff_min_seconds, queue.backoff_max_seconds, queue.doublings_max] }
}
