# Alerts: thresholds on metrics, and the absence of sweeps. Alerts on log lines are in log_alerts.tf.

locals {
  services        = join(",", [for function in local.deployments : "\"${function.service}\""])
  queue_names     = join(",", [for name in keys(local.queues) : "\"${local.name_prefix}${name}\""])
  queue_filter    = "resource.type=\"cloud_tasks_queue\" AND resource.labels.queue_id=one_of(${local.queue_names})"
  service_filter  = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=one_of(${local.services})"
  requests        = "metric.type=\"run.googleapis.com/request_count\""
  database_filter = "resource.type=\"firestore.googleapis.com/Database\" AND resource.labels.database_id=\"${local.database}\" AND metric.type=\"firestore.googleapis.com/api/request_count\""

  # Eventarc delivers events through Pub/Sub, in a subscription named after the trigger's region and the trigger, which Cloud
  # Functions names after the function.
  subscriptions = join("|", concat(
    [for event in local.function_triggers : "eventarc-${event.region}-${local.deployments[event.function].service}-.*"],
    [for name in keys(local.handler_triggers) : "eventarc-${local.database_location}-${local.name_prefix}${name}-sub-.*"],
  ))

  thresholds = merge({
    failures = {
      title       = "Functions fail"
      filter      = "${local.service_filter} AND ${local.requests} AND metric.labels.response_code_class=\"5xx\" AND metric.labels.response_code!=\"503\""
      denominator = "${local.service_filter} AND ${local.requests}"
      aligner     = "ALIGN_RATE"
      reducer     = "REDUCE_SUM"
      group       = "resource.label.service_name"
      above       = 0.01 # of the function's requests
    }
    unavailable = {
      title       = "Functions are unavailable"
      filter      = "${local.service_filter} AND ${local.requests} AND metric.labels.response_code=\"503\""
      denominator = "${local.service_filter} AND ${local.requests}"
      aligner     = "ALIGN_RATE"
      reducer     = "REDUCE_SUM"
      group       = "resource.label.service_name"
      above       = 0.25 # of the function's requests: contention is transient, and answered with 503 so that it is tried again
    }
    refused = {
      title       = "Functions have no free instance"
      filter      = "${local.service_filter} AND ${local.requests} AND metric.labels.response_code=\"429\""
      denominator = "${local.service_filter} AND ${local.requests}"
      aligner     = "ALIGN_RATE"
      reducer     = "REDUCE_SUM"
      group       = "resource.label.service_name"
      above       = 0.05 # of the function's requests: Cloud Run refuses what exceeds instances_max × concurrency, and queues slow down
    }
    firestore = {
      title       = "Firestore fails"
      filter      = "${local.database_filter} AND metric.labels.response_code=one_of(\"DEADLINE_EXCEEDED\",\"INTERNAL\",\"PERMISSION_DENIED\",\"RESOURCE_EXHAUSTED\",\"UNAVAILABLE\")"
      denominator = local.database_filter
      aligner     = "ALIGN_RATE"
      reducer     = "REDUCE_SUM"
      group       = "resource.label.database_id"
      above       = 0.01 # of the database's requests; a lost precondition or a contended record is normal, and not counted
    }
    depth = {
      title   = "Queue depth is high"
      filter  = "${local.queue_filter} AND metric.type=\"cloudtasks.googleapis.com/queue/depth\""
      aligner = "ALIGN_MIN"
      reducer = "REDUCE_MAX"
      group   = "resource.label.queue_id"
      above   = 10000 # half an hour's work of a queue at some six tasks a second; tasks that are due later count too
    }
    delay = {
      title   = "Tasks are late"
      filter  = "${local.queue_filter} AND metric.type=\"cloudtasks.googleapis.com/queue/task_attempt_delays\""
      aligner = "ALIGN_PERCENTILE_99"
      reducer = "REDUCE_MAX"
      group   = "resource.label.queue_id"
      above   = 600000 # ms from when an attempt was due to when it began
    }
    }, local.subscriptions == "" ? {} : {
    events = {
      title   = "Events are not delivered"
      filter  = "resource.type=\"pubsub_subscription\" AND metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.labels.subscription_id=monitoring.regex.full_match(\"${local.subscriptions}\")"
      aligner = "ALIGN_MAX"
      reducer = "REDUCE_MAX"
      group   = "resource.label.subscription_id"
      above   = 600 # seconds; a fresh trigger is silent for up to two minutes
    }
    dead_letters = {
      title   = "Events were given up"
      filter  = "resource.type=\"pubsub_subscription\" AND metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.labels.subscription_id=\"${local.dead_letters["events"]}\""
      aligner = "ALIGN_MAX"
      reducer = "REDUCE_MAX"
      group   = "resource.label.subscription_id"
      above   = 0 # until they are delivered again, or 30 days old
    }
  })

  # The alert's message: the heading in docs/operations.md, and the command to run first.
  runbook_arguments = "-p ${var.project_id} -e ${var.environment} --region ${var.region}"
  runbook           = "Open docs/operations.md at \"Alerts\", row \"%s\". First run `signalbox %s ${local.runbook_arguments}`."
  runbook_commands  = { depth = "status", delay = "status", events = "status", schedules = "status", dead_letters = "failures", given_up = "failures" } # for all others, the log

  channels = [for channel in google_monitoring_notification_channel.email : channel.id]
}

resource "google_monitoring_notification_channel" "email" {
  for_each     = var.alert_email == null ? {} : { email = var.alert_email }
  display_name = "${local.name_prefix}signalbox"
  type         = "email"
  labels       = { email_address = each.value }
  depends_on   = [google_project_service.api]
}

check "alerts_have_a_recipient" {
  assert {
    condition     = var.alert_email != null
    error_message = "Alerts are raised and not sent to anyone: set `alert_email` in the environment's file."
  }
}

resource "google_monitoring_alert_policy" "alert" {
  for_each              = local.thresholds
  display_name          = "${local.name_prefix}signalbox: ${each.value.title}"
  combiner              = "OR"
  notification_channels = local.channels
  conditions {
    display_name = each.value.title
    condition_threshold {
      filter             = each.value.filter
      denominator_filter = lookup(each.value, "denominator", null)
      comparison         = "COMPARISON_GT"
      threshold_value    = each.value.above
      duration           = "300s"
      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = each.value.aligner
        cross_series_reducer = each.value.reducer
        group_by_fields      = [each.value.group]
      }
      dynamic "denominator_aggregations" {
        for_each = contains(keys(each.value), "denominator") ? [each.value] : []
        content {
          alignment_period     = "60s"
          per_series_aligner   = denominator_aggregations.value.aligner
          cross_series_reducer = denominator_aggregations.value.reducer
          group_by_fields      = [denominator_aggregations.value.group]
        }
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: ${each.value.title}"
    mime_type = "text/markdown"
    content   = format(local.runbook, each.value.title, lookup(local.runbook_commands, each.key, "logs"))
  }
  depends_on = [module.function, google_cloud_tasks_queue.queue]
}

# Only the sweeper completes the work that crashed processes leave, and if it fails every minute, its failures are far below the threshold
# above. So both conditions watch its successes: there is no value, or the value is zero.
locals {
  sweeps = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${local.deployments["sweep"].service}\" AND ${local.requests} AND metric.labels.response_code_class=\"2xx\""
}

resource "google_monitoring_alert_policy" "no_sweeps" {
  display_name          = "${local.name_prefix}signalbox: Sweeps have stopped"
  combiner              = "OR"
  notification_channels = local.channels
  conditions {
    display_name = "No sweep is reported"
    condition_absent {
      filter   = local.sweeps
      duration = "600s"
      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
  conditions {
    display_name = "No sweep succeeds"
    condition_threshold {
      filter          = local.sweeps
      comparison      = "COMPARISON_LT"
      threshold_value = 1
      duration        = "600s"
      aggregations {
        alignment_period     = "60s"
        per_series_aligner   = "ALIGN_DELTA"
        cross_series_reducer = "REDUCE_SUM"
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: Sweeps have stopped"
    mime_type = "text/markdown"
    content   = format(local.runbook, "No sweep succeeds", "status")
  }
  depends_on = [module.function]
}
