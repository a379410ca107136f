# One dashboard with the metrics of functions and queues.

locals {
  charts = [for chart in local.all_charts : chart if chart.label != "queue_id" || length(local.queues) > 0]
  all_charts = [
    { title = "Requests a second, by function", metric = "run.googleapis.com/request_count", resource = "cloud_run_revision", label = "service_name", names = local.service_groups, aligner = "ALIGN_RATE", reducer = "REDUCE_SUM" },
    { title = "99th percentile latency, ms", metric = "run.googleapis.com/request_latencies", resource = "cloud_run_revision", label = "service_name", names = local.service_groups, aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX" },
    { title = "Queue depth, by queue", metric = "cloudtasks.googleapis.com/queue/depth", resource = "cloud_tasks_queue", label = "queue_id", names = [local.queue_names], aligner = "ALIGN_MEAN", reducer = "REDUCE_SUM" },
    { title = "Instances, by function", metric = "run.googleapis.com/container/instance_count", resource = "cloud_run_revision", label = "service_name", names = local.service_groups, aligner = "ALIGN_MAX", reducer = "REDUCE_SUM" },
    { title = "Tasks and events given up", metric = "logging.googleapis.com/user/${google_logging_metric.given_up.name}", resource = "cloud_run_revision", label = "service_name", names = local.service_groups, aligner = "ALIGN_DELTA", reducer = "REDUCE_SUM" },
    { title = "Tasks' delay, 99th percentile, ms", metric = "cloudtasks.googleapis.com/queue/task_attempt_delays", resource = "cloud_tasks_queue", label = "queue_id", names = [local.queue_names], aligner = "ALIGN_PERCENTILE_99", reducer = "REDUCE_MAX" },
  ]
}

resource "google_monitoring_dashboard" "dashboard" {
  dashboard_json = jsonencode({
    displayName = "${local.name_prefix}signalbox"
    mosaicLayout = {
      columns = 12
      # The API omits zeros when it is read, so Terraform would find a change in each zero that is written here.
      tiles = [for place, chart in local.charts : merge(
        place % 2 == 0 ? {} : { xPos = 6 },
        place < 2 ? {} : { yPos = floor(place / 2) * 4 },
        { width = 6, height = 4, widget = { title = chart.title, xyChart = { dataSets = [for names in chart.names : { timeSeriesQuery = { timeSeriesFilter = {
          filter = "metric.type=\"${chart.metric}\" resource.type=\"${chart.resource}\" resource.labels.${chart.label}=one_of(${names})"
          aggregation = {
            alignmentPeriod    = "60s"
            perSeriesAligner   = chart.aligner
            crossSeriesReducer = chart.reducer
            groupByFields      = ["resource.label.${chart.label}"]
          }
        } } }] } } },
      )]
    }
  })
}
