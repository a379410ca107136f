locals {
  # Cloud Run verifies the triggers' account, and the function compares it: people may call the same service.
  event_variables = { for name in local.event_receivers : name => {
    SIGNALBOX_EVENTS_ACCOUNT = google_service_account.kit["events"].email
  } }
}

module "function" {
  source   = "./modules/function"
  for_each = local.deployments

  name          = each.value.service
  entry_point   = each.value.function
  project_id    = var.project_id
  account       = local.accounts[each.key].email
  region        = var.region
  database      = local.database
  secrets       = each.value.secrets
  environment   = merge(each.value.env, local.environment, lookup(local.event_variables, each.key, {}))
  resources     = each.value.resources
  vpc           = each.value.vpc
  ingress       = !each.value.people ? "ALLOW_INTERNAL_ONLY" : var.domain_only ? "ALLOW_INTERNAL_AND_GCLB" : "ALLOW_ALL"
  invokers      = local.invokers[each.key]
  trigger       = one([for trigger in local.function_triggers : trigger if trigger.function == each.value.function])
  source_bucket = google_storage_bucket.sources.name
  source_zip    = "${var.dist_dir}/${each.value.function}.zip"
  build_account = google_service_account.kit["build"].id
  repository    = google_artifact_registry_repository.images.id
  ready         = [terraform_data.rights.id, google_storage_bucket_object.catalogue.id]

  # Not the catalogue's object: the module's zips are created before they are destroyed, so Terraform would do so with all that the
  # whole module depends on. It would delete the object under the name that it has just written.
  depends_on = [google_firestore_database.database]
}

check "nothing_is_public_by_mistake" {
  assert {
    condition     = alltrue([for row in local.deployments : !row.public])
    error_message = "Anybody in the world may call ${join(", ", [for name, row in local.deployments : name if row.public])}: the catalogue sets `public: true`."
  }
}
