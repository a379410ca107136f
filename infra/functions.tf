locals {
  # Cloud Run verifies the caller of a private function, and removes the token's signature before it calls the function. It
  # admits every caller of an open one, so there a token without a signature proves nothing.
  # A function has a setting only if it needs it, so that a new origin, for instance, deploys one function only.
  of_browsers = { for name, function in local.deployments : name => merge(
    length(function.origins) > 0 ? { SIGNALBOX_ORIGINS = jsonencode({ (name) = function.origins }) } : {},
    function.auth != "" ? { SIGNALBOX_AUTH = jsonencode({ (name) = function.auth }) } : {},
    function.open ? { SIGNALBOX_OPEN = jsonencode({ (name) = function.exposes }) } : {},
    function.part != "" ? { SIGNALBOX_PART = function.part } : {},
  ) }

  # Cloud Run verifies the triggers' account, and the function compares it: people may call the same service.
  of_triggers = { for name, function in local.deployments : name => contains(local.receiving, name) ? {
    SIGNALBOX_EVENTS_ACCOUNT = google_service_account.trigger[function.function].email
  } : {} }

  signatures = { for name, function in local.deployments : name => function.open ? "checked" : "removed" }
}

module "function" {
  source   = "./modules/function"
  for_each = local.deployments

  name        = each.value.service
  entry_point = each.value.function
  project_id  = var.project_id
  account     = google_service_account.runtime[each.key].email
  region      = var.region
  database    = local.database
  secrets     = { for name, secret in each.value.secrets : name => split(":", "${secret}:latest") }
  environment = merge(each.value.env, local.environment, local.of_one_function[each.key], local.of_browsers[each.key], local.of_triggers[each.key], {
    SIGNALBOX_SIGNATURES      = local.signatures[each.key]
    SIGNALBOX_TIMEOUT_SECONDS = tostring(coalesce(each.value.resources.timeout_seconds, 540))
    }, each.value.queue ? {
    THREADED_TIMEOUT_ENABLED = "true" # functions-framework ends a request at its time-out. Otherwise it would continue while it is delivered again
  } : {})
  resources     = each.value.resources
  vpc           = each.value.vpc
  ingress       = !each.value.people ? "ALLOW_INTERNAL_ONLY" : var.domain_only ? "ALLOW_INTERNAL_AND_GCLB" : "ALLOW_ALL"
  invokers      = local.invokers[each.key]
  trigger       = one([for trigger in local.events : trigger if trigger.function == each.value.function])
  source_bucket = google_storage_bucket.sources.name
  source_zip    = "${var.dist_dir}/${each.value.function}.zip"
  build_account = google_service_account.kit["build"].id
  repository    = google_artifact_registry_repository.images.id
  ready         = terraform_data.rights.id

  depends_on = [google_project_service.api, google_firestore_database.database, google_storage_bucket_object.catalogue]
}

check "nothing_is_public_by_mistake" {
  assert {
    condition     = alltrue([for function in local.functions : !function.public])
    error_message = "Anybody in the world may call ${join(", ", [for name, function in local.functions : name if function.public])}: catalogue.yaml sets `public: true`."
  }
}
