output "account" {
  description = "The account that the function runs as."
  value       = google_service_account.runtime
}
