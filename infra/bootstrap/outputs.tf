output "deployer" {
  description = "The deploying account, as the variable `deployer` takes it."
  value       = google_service_account.deployer.member
}

output "identity_provider" {
  description = "The value for the variable SIGNALBOX_IDENTITY_PROVIDER of the repository on GitHub, or null."
  value       = one([for provider in google_iam_workload_identity_pool_provider.github : provider.name])
}
