# GitHub Actions, if `github_repository` is set: its runs exchange the token that GitHub gives them for a token of an account
# (Workload Identity Federation), so there is no key. Runs on main in the environment `signalbox` may deploy; all other runs of
# the repository, including those of pull requests, may only read.

locals {
  github = var.github_repository == null ? {} : { repository = var.github_repository }

  # A plan reads every deployed resource and its policies, but no data: no documents, logs, tasks or images, and no objects of
  # buckets except the state and the sources. A pull request's code has these rights.
  planner_permissions = [
    "artifactregistry.repositories.get",
    "cloudfunctions.functions.get",
    "cloudscheduler.jobs.get",
    "cloudtasks.queues.get",
    "compute.backendServices.get",
    "compute.globalAddresses.get",
    "compute.globalForwardingRules.get",
    "compute.regionNetworkEndpointGroups.get",
    "compute.sslCertificates.get",
    "compute.targetHttpsProxies.get",
    "compute.urlMaps.get",
    "datastore.backupSchedules.get",
    "datastore.databases.getMetadata",
    "datastore.indexes.get",
    "firebaserules.releases.get",
    "firebaserules.rulesets.get",
    "eventarc.triggers.get",
    "iam.serviceAccounts.get",
    "logging.buckets.get",
    "logging.exclusions.get",
    "logging.logMetrics.get",
    "monitoring.alertPolicies.get",
    "monitoring.dashboards.get",
    "monitoring.notificationChannels.get",
    "monitoring.services.get",
    "monitoring.slos.get",
    "monitoring.uptimeCheckConfigs.get",
    "pubsub.subscriptions.get",
    "pubsub.topics.get",
    "resourcemanager.projects.get",
    "run.services.get",
    "serviceusage.services.get",
    "serviceusage.services.list",
    "storage.buckets.get",
  ]
  buckets = join(" || ", [
    "resource.name.startsWith(\"projects/_/buckets/${var.project_id}-signalbox-state\")",
    "resource.name.extract(\"buckets/{name}/objects/\").startsWith(\"${var.project_id}-\") && resource.name.extract(\"buckets/{name}/objects/\").endsWith(\"sources\")",
  ])
}

resource "google_iam_workload_identity_pool" "github" {
  for_each                  = local.github
  workload_identity_pool_id = "signalbox-github"
  display_name              = "Signalbox on GitHub"
  depends_on                = [google_project_service.api]
}

# GitHub has one issuer for all repositories, so only the condition excludes the others. A repository's name can be registered by
# somebody else after it was given up; its id never comes back.
resource "google_iam_workload_identity_pool_provider" "github" {
  for_each                           = local.github
  workload_identity_pool_id          = google_iam_workload_identity_pool.github[each.key].workload_identity_pool_id
  workload_identity_pool_provider_id = "actions"
  display_name                       = "GitHub Actions"
  attribute_condition                = "assertion.repository_id == '${var.github_repository_id}' && assertion.repository == '${each.value}'"
  attribute_mapping = {
    "google.subject"       = "assertion.sub"
    "attribute.repository" = "assertion.repository_id"
    "attribute.deployment" = "assertion.repository_id + '@' + assertion.ref + '@' + (has(assertion.environment) ? assertion.environment : '')"
  }
  oidc {
    issuer_uri = "https://token.actions.githubusercontent.com"
  }
}

resource "google_service_account_iam_member" "github_deploys" {
  for_each           = local.github
  service_account_id = google_service_account.deployer.name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.github[each.key].name}/attribute.deployment/${var.github_repository_id}@refs/heads/main@signalbox"
}

resource "google_service_account" "planner" {
  for_each     = local.github
  account_id   = "signalbox-planner"
  display_name = "Plans Signalbox, and may only read"
  depends_on   = [google_project_service.api]
}

resource "google_service_account_iam_member" "github_plans" {
  for_each           = local.github
  service_account_id = google_service_account.planner[each.key].name
  role               = "roles/iam.workloadIdentityUser"
  member             = "principalSet://iam.googleapis.com/${google_iam_workload_identity_pool.github[each.key].name}/attribute.repository/${var.github_repository_id}"
}

resource "google_project_iam_custom_role" "planner" {
  for_each    = local.github
  role_id     = "signalboxPlanner"
  title       = "Signalbox planner"
  description = "Reads what Signalbox deploys, and no data."
  permissions = local.planner_permissions
}

resource "google_project_iam_member" "planner" {
  for_each = var.github_repository == null ? {} : {
    resources = google_project_iam_custom_role.planner["repository"].id
    policies  = "roles/iam.securityReviewer"
  }
  project = var.project_id
  role    = each.value
  member  = google_service_account.planner["repository"].member
}

resource "google_project_iam_member" "planner_reads" {
  for_each = local.github
  project  = var.project_id
  role     = "roles/storage.objectViewer"
  member   = google_service_account.planner[each.key].member
  condition {
    title      = "state-and-sources-only"
    expression = local.buckets
  }
}
