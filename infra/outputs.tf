output "base_url" {
  description = "Base of the URLs for people; a function's name follows directly."
  value       = local.base_url
}

output "urls" {
  description = "The URLs of the functions that people call, by the function's name."
  value       = { for name, row in local.deployments : name => "${local.base_url}${row.segment}" if row.people }
}

output "accounts" {
  description = "The service account that each function runs as, and those of queues, schedules and builds."
  value = merge(
    { for name, account in local.accounts : name => account.email },
    { for name, account in google_service_account.kit : "kit ${name}" => account.email },
    { for name, queue in local.queues : "queue ${name}" => google_service_account.queue[queue.account].email },
  )
}

output "database" {
  description = "Name of the Firestore database."
  value       = local.database
}

output "queues" {
  description = "Resource names of the Cloud Tasks queues, by their names in the catalogue."
  value       = { for name, queue in google_cloud_tasks_queue.queue : name => queue.id }
}

output "domain_address" {
  description = "The IP address that an A record of the domain must name, or null."
  value       = one([for address in google_compute_global_address.domain : address.address])
}

output "dead_letters" {
  description = "The topic and the subscription of events that were given up, and the account with which Pub/Sub moves them; null without triggers."
  value = one([for name in values(local.dead_letters) : {
    topic        = "projects/${var.project_id}/topics/${name}"
    subscription = "projects/${var.project_id}/subscriptions/${name}"
    agent        = local.pubsub_agent
  }])
}

output "deployer" {
  description = "IAM member that deployed last. A plan that is compared with the deployment is made with the same member."
  value       = var.deployer
}

output "region" {
  description = "Region of the deployment. A command that names another one is refused."
  value       = var.region
}

output "prefix" {
  description = "Prefix of the names. A command with another one is refused."
  value       = var.prefix
}
