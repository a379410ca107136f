output "name" {
  description = "Name of the function in the cloud, known once it exists."
  value       = google_cloudfunctions2_function.function.name
}
