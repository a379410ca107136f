# The name of a deleted queue stays taken for days (3 documented, 7 reported), and an idle queue costs nothing. So `signalbox destroy`
# empties the queues and keeps them, and the next `signalbox deploy` imports them into its state again.

resource "google_cloud_tasks_queue" "queue" {
  for_each = local.queues
  name     = "${local.name_prefix}${each.key}"
  location = var.region
  rate_limits {
    max_dispatches_per_second = each.value.dispatches_per_second
    max_concurrent_dispatches = each.value.concurrent_max
  }
  retry_config {
    max_attempts  = each.value.attempts_max
    min_backoff   = each.value.backoff_min
    max_backoff   = each.value.backoff_max
    max_doublings = each.value.doublings_max
  }
  deletion_policy = "ABANDON"
}
