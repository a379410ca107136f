resource "google_cloud_tasks_queue" "queue" {
  for_each = local.queues
  name     = "${local.begin}${each.key}"
  location = var.region
  rate_limits {
    max_dispatches_per_second = each.value.dispatches_per_second
    max_concurrent_dispatches = each.value.concurrent_max
  }
  retry_config {
    max_attempts  = each.value.attempts_max
    min_backoff   = "${each.value.backoff_min_seconds}s"
    max_backoff   = "${each.value.backoff_max_seconds}s"
    max_doublings = each.value.doublings_max
  }
  depends_on = [google_project_service.api]
}
