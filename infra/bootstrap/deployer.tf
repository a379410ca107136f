resource "google_service_account" "deployer" {
  account_id   = "signalbox-deployer"
  display_name = "Deploys Signalbox"
  depends_on   = [google_project_service.api]
}

# It has no right to act as all accounts of the project. A deployment grants it the right for each account that the kit creates (infra/iam.tf).
locals {
  deployer_roles = [
    "roles/artifactregistry.admin",
    "roles/cloudfunctions.developer",
    "roles/cloudscheduler.admin",
    "roles/cloudtasks.admin",
    "roles/eventarc.developer",      # the triggers of documents that have a handler
    "roles/datastore.owner",         # databases, indexes, times to live
    "roles/firebaserules.admin",     # the rules that keep browsers out of the database
    "roles/iam.serviceAccountAdmin", # creates accounts and grants rights to act as them, so it is as powerful as any account of the project
    "roles/logging.configWriter",    # the metric of tasks and events that were given up
    "roles/logging.logWriter",
    "roles/monitoring.editor",
    "roles/pubsub.admin",        # dead letters of triggers, and the right to move events there
    "roles/secretmanager.admin", # rights to read secrets, so it can grant itself the right to read any
    "roles/run.admin",           # the invokers of a function are a policy of its Cloud Run service
    "roles/serviceusage.serviceUsageAdmin",
    "roles/storage.admin",
  ]

  # The last ones are requested by functions. A new one needs another `signalbox bootstrap` by the project's owner.
  # Functions of other databases have their own locks.
  locks = [for name in fileset("${path.module}/..", "catalogue*.lock.yaml") : yamldecode(file("${path.module}/../${name}"))]
  grantable_roles = distinct(concat(
    [
      "roles/datastore.importExportAdmin", # for `exports`
      "roles/datastore.user",
      "roles/eventarc.eventReceiver",
      "roles/logging.logWriter",
      "roles/storage.objectViewer",
    ],
    sort(distinct(flatten([for lock in local.locks : [for row in values(lock.deployments) : row.roles]]))),
  ))
}

resource "google_project_iam_member" "deployer" {
  for_each = toset(local.deployer_roles)
  project  = var.project_id
  role     = each.key
  member   = google_service_account.deployer.member
}

# It may grant only these roles of the project, so it cannot make itself the owner directly. SECURITY.md lists what it can do.
resource "google_project_iam_member" "deployer_grants" {
  project = var.project_id
  role    = "roles/resourcemanager.projectIamAdmin"
  member  = google_service_account.deployer.member
  condition {
    title      = "only-what-signalbox-grants"
    expression = "api.getAttribute('iam.googleapis.com/modifiedGrantsByRole', []).hasOnly([${join(", ", [for role in local.grantable_roles : "'${role}'"])}])"
  }
}

# A build smoke-tests its deployment. For that, it needs identity tokens of the account that it runs as.
resource "google_service_account_iam_member" "deployer_tokens" {
  service_account_id = google_service_account.deployer.name
  role               = "roles/iam.serviceAccountOpenIdTokenCreator"
  member             = google_service_account.deployer.member
}
