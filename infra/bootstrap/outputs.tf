output "state_bucket" {
  description = "Bucket for the state: terraform init -backend-config=bucket=…"
  value       = google_storage_bucket.state.name
}

output "deployer" {
  description = "The deploying account, as the variable `deployer` takes it."
  value       = google_service_account.deployer.member
}
