# Alerts on log lines that matter from the first one: a threshold on their rate would hide it. Each is sent once an hour at most.

locals {
  service_names = join(" OR ", [for function in local.deployments : "\"${function.service}\""])
  job_names     = join(" OR ", [for name in keys(local.schedules) : "\"${local.name_prefix}${name}\""])
  errors        = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${local.service_names}) AND severity=\"ERROR\""
  given_up      = "${local.errors} AND jsonPayload.message=(\"task abandoned\" OR \"event abandoned\" OR \"scheduled call abandoned\" OR \"call given up\")"

  log_alerts = merge({
    refusals = {
      title  = "Tasks cannot be enqueued"
      filter = "${local.errors} AND jsonPayload.message=(\"deployment cannot enqueue\" OR \"task refused\")"
    }
    given_up = {
      title  = "Tasks or events are given up"
      filter = local.given_up
    }
    }, local.job_names == "" ? {} : {
    schedules = {
      title  = "A schedule's call failed" # Cloud Scheduler publishes no metric, only its log
      filter = "resource.type=\"cloud_scheduler_job\" AND resource.labels.job_id=(${local.job_names}) AND severity>=\"ERROR\" AND NOT httpRequest.status=503"
    }
  })
}

# For the dashboard. An alert on this metric would fail in a first deployment: its name is unknown for up to ten minutes.
resource "google_logging_metric" "given_up" {
  name        = "${local.name_prefix}signalbox-given-up"
  description = "Tasks, events and scheduled calls that failed permanently."
  filter      = local.given_up
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
  depends_on = [google_project_service.api]
}

resource "google_monitoring_alert_policy" "logged" {
  for_each              = local.log_alerts
  display_name          = "${local.name_prefix}signalbox: ${each.value.title}"
  combiner              = "OR"
  notification_channels = local.channels
  conditions {
    display_name = each.value.title
    condition_matched_log {
      filter = each.value.filter
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: ${each.value.title}"
    mime_type = "text/markdown"
    content   = format(local.runbook, each.value.title, lookup(local.runbook_commands, each.key, "logs"))
  }
  alert_strategy {
    auto_close = "3600s"
    notification_rate_limit {
      period = "3600s"
    }
  }
  depends_on = [google_project_service.api]
}

# The project's log bucket. It exists already: it is only changed, and is kept by `signalbox destroy`.
resource "google_logging_project_bucket_config" "default" {
  count          = var.log_retention_days == null ? 0 : 1
  project        = var.project_id
  location       = "global"
  bucket_id      = "_Default"
  retention_days = var.log_retention_days
  depends_on     = [google_project_service.api]
}

# Cloud Run logs each request with its address, which contains the values of a query (`where=email=…`), for $0.50 a GiB. Entries
# of successful requests are not kept: metrics count them, and the functions' own log lines describe them.
resource "google_logging_project_exclusion" "requests" {
  name        = "${local.name_prefix}signalbox-requests"
  description = "Successful requests: their addresses contain the values of queries."
  filter      = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${local.service_names}) AND log_id(\"run.googleapis.com/requests\") AND severity<WARNING"
  depends_on  = [google_project_service.api]
}
