# Service level objectives, if `objectives` is set: the share of waits, grants and copies that are fast enough over four weeks,
# and an alert if the error budget is used up too fast. docs/operations.md, "Objectives".

locals {
  wait_filter = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${contains(keys(local.deployments), "semaphore_wait") ? local.deployments["semaphore_wait"].service : ""}\""

  # Durations in the log line of a request. The threshold of an objective is the bound of a bucket.
  durations = {
    grant_seconds = "Seconds from a grant to the claim by its task."
    copy_seconds  = "Seconds from the write of a document to the last copy that a page of its fan-out wrote."
  }
  # The functions and collections of the parts of the kit that an objective or a duration is about.
  measured = {
    waits         = contains(keys(local.deployments), "semaphore_wait")
    grants        = contains(local.catalogue.collections, "semaphores")
    copies        = contains(local.catalogue.collections, "documents")
    grant_seconds = contains(local.catalogue.collections, "semaphores")
    copy_seconds  = contains(local.catalogue.collections, "documents")
  }
  duration_metrics = { for name in keys(local.durations) : name => "${local.name_prefix}signalbox-${replace(name, "_", "-")}" }

  objectives = {
    waits = {
      title  = "Waits are slow"
      goal   = 0.999
      below  = 1000 # ms, of waits that succeeded
      metric = "metric.type=\"run.googleapis.com/request_latencies\" AND ${local.wait_filter} AND metric.labels.response_code_class=\"2xx\""
    }
    grants = {
      title  = "Grants are late"
      goal   = 0.99
      below  = 10
      metric = "metric.type=\"logging.googleapis.com/user/${local.duration_metrics.grant_seconds}\" AND resource.type=\"cloud_run_revision\""
    }
    copies = {
      title  = "Copies are late"
      goal   = 0.99
      below  = 60
      metric = "metric.type=\"logging.googleapis.com/user/${local.duration_metrics.copy_seconds}\" AND resource.type=\"cloud_run_revision\""
    }
  }

  # At the first rate, the error budget of four weeks is used up in three days; at the second rate, in two weeks.
  burn_rates = {
    fast = { seconds = 3600, above = 10 }
    slow = { seconds = 86400, above = 2 }
  }
}

resource "google_logging_metric" "duration" {
  for_each        = { for name, each in local.durations : name => each if var.objectives && local.measured[name] }
  name            = local.duration_metrics[each.key]
  description     = each.value
  filter          = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${local.service_names}) AND jsonPayload.message=\"handled\" AND jsonPayload.${each.key}>=0"
  value_extractor = "EXTRACT(jsonPayload.${each.key})"
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "DISTRIBUTION"
    unit        = "s"
  }
  bucket_options {
    explicit_buckets {
      bounds = [0.1, 0.3, 1, 3, 10, 30, 60, 180, 600, 3600]
    }
  }
}

resource "google_monitoring_custom_service" "signalbox" {
  count        = var.objectives ? 1 : 0
  service_id   = "${local.name_prefix}signalbox"
  display_name = "${local.name_prefix}signalbox"
}

# A metric on logs is known some minutes after it was created; the functions are built in the meantime.
resource "google_monitoring_slo" "objective" {
  for_each            = { for name, each in local.objectives : name => each if var.objectives && local.measured[name] }
  service             = google_monitoring_custom_service.signalbox[0].service_id
  slo_id              = each.key
  display_name        = "${each.value.goal * 100} % of ${each.key} within ${each.value.below} ${each.key == "waits" ? "ms" : "s"}"
  goal                = each.value.goal
  rolling_period_days = 28
  request_based_sli {
    distribution_cut {
      distribution_filter = each.value.metric
      range {
        max = each.value.below
      }
    }
  }
  depends_on = [module.function, google_logging_metric.duration]
}

resource "google_monitoring_alert_policy" "objective" {
  for_each              = { for name, each in local.objectives : name => each if var.objectives && local.measured[name] }
  display_name          = "${local.name_prefix}signalbox: ${each.value.title}"
  severity              = "WARNING"
  combiner              = "OR"
  notification_channels = local.channels
  dynamic "conditions" {
    for_each = local.burn_rates
    content {
      display_name = "${each.value.title} (${conditions.key})"
      condition_threshold {
        filter          = "select_slo_burn_rate(\"${google_monitoring_slo.objective[each.key].name}\", \"${conditions.value.seconds}s\")"
        comparison      = "COMPARISON_GT"
        threshold_value = conditions.value.above
        duration        = "0s"
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: ${each.value.title}"
    mime_type = "text/markdown"
    content   = format(local.runbook, each.value.title, "status")
  }
}
