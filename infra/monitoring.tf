# Three alerts: functions fail, tasks are not dispatched, or none can be enqueued. Everything else is on the dashboard.

locals {
  services    = join(",", [for function in local.deployments : "\"${function.service}\""])
  queue_names = join(",", [for name in keys(local.queues) : "\"${local.begin}${name}\""])

  alerts = {
    failures = {
      title     = "Functions fail"
      filter    = "resource.type=\"cloud_run_revision\" AND metric.type=\"run.googleapis.com/request_count\" AND metric.labels.response_code_class=\"5xx\" AND resource.labels.service_name=one_of(${local.services})"
      aligner   = "ALIGN_RATE"
      reducer   = "REDUCE_SUM"
      group     = "resource.label.service_name"
      threshold = 0.1 # a second: transient contention also responds 503
    }
    depth = {
      title     = "Queue depth is high"
      filter    = "resource.type=\"cloud_tasks_queue\" AND metric.type=\"cloudtasks.googleapis.com/queue/depth\" AND resource.labels.queue_id=one_of(${local.queue_names})"
      aligner   = "ALIGN_MIN"
      reducer   = "REDUCE_MAX"
      group     = "resource.label.queue_id"
      threshold = 10000 # half an hour's work of a queue at some six tasks a second
    }
  }
}

resource "google_monitoring_notification_channel" "email" {
  for_each     = var.alert_email == null ? {} : { email = var.alert_email }
  display_name = "${local.begin}signalbox"
  type         = "email"
  labels       = { email_address = each.value }
  depends_on   = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "alert" {
  for_each              = local.alerts
  display_name          = "${local.begin}signalbox: ${each.value.title}"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  conditions {
    display_name = each.value.title
    condition_threshold {
      filter          = each.value.filter
      comparison      = "COMPARISON_GT"
      threshold_value = each.value.threshold
      duration        = "300s"
      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = each.value.reducer
        group_by_fields      = [each.value.group]
      }
    }
  }
  depends_on = [module.function, google_cloud_tasks_queue.queue]
}

locals {
  service_names    = join(" OR ", [for function in local.deployments : "\"${function.service}\""])
  refusal_messages = join(" OR ", ["\"deployment cannot enqueue\"", "\"task refused\""])
}

# On log lines: the retries of a few tasks are too few for the rate of 5xx responses above.
resource "google_monitoring_alert_policy" "refusals" {
  display_name          = "${local.begin}signalbox: Tasks cannot be enqueued"
  combiner              = "OR"
  notification_channels = [for channel in google_monitoring_notification_channel.email : channel.id]
  conditions {
    display_name = "Tasks cannot be enqueued"
    condition_matched_log {
      filter = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${local.service_names}) AND severity=\"ERROR\" AND jsonPayload.message=(${local.refusal_messages})"
    }
  }
  alert_strategy {
    auto_close = "3600s"
    notification_rate_limit {
      period = "3600s"
    }
  }
  depends_on = [google_project_service.api]
}

locals {
  charts = [
    { title = "Requests a second, by function", metric = "run.googleapis.com/request_count", resource = "cloud_run_revision", label = "service_name", names = local.services, aligner = "ALIGN_RATE", reducer = "REDUCE_SUM" },
    { title = "99th percentile latency, ms", metric = "run.googleapis.com/request_latencies", resource = "cloud_run_revision", label = "service_name", names = local.services, aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX" },
    { title = "Queue depth, by queue", metric = "cloudtasks.googleapis.com/queue/depth", resource = "cloud_tasks_queue", label = "queue_id", names = local.queue_names, aligner = "ALIGN_MEAN", reducer = "REDUCE_SUM" },
    { title = "Instances, by function", metric = "run.googleapis.com/container/instance_count", resource = "cloud_run_revision", label = "service_name", names = local.services, aligner = "ALIGN_MAX", reducer = "REDUCE_SUM" },
  ]
}

resource "google_monitoring_dashboard" "dashboard" {
  dashboard_json = jsonencode({
    displayName = "${local.begin}signalbox"
    mosaicLayout = {
      columns = 12
      tiles = [for place, chart in local.charts : {
        xPos = place % 2 * 6, yPos = floor(place / 2) * 4, width = 6, height = 4
        widget = { title = chart.title, xyChart = { dataSets = [{ timeSeriesQuery = { timeSeriesFilter = {
          filter = "metric.type=\"${chart.metric}\" resource.type=\"${chart.resource}\" resource.labels.${chart.label}=one_of(${chart.names})"
          aggregation = {
            alignmentPeriod    = "60s"
            perSeriesAligner   = chart.aligner
            crossSeriesReducer = chart.reducer
            groupByFields      = ["resource.label.${chart.label}"]
          }
        } } }] } }
      }]
    }
  })
  depends_on = [google_project_service.api]
}
