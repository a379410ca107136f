# Alerts: thresholds on metrics, and the absence of sweeps. Alerts on log lines are in log_alerts.tf.

locals {
  # A policy takes filters of 2,048 characters, and six conditions. So services and subscriptions are listed in groups, one for each condition.
  service_groups  = [for group in chunklist([for function in local.deployments : "\"${function.service}\""], 50) : join(",", group)]
  queue_names     = join(",", [for name in keys(local.queues) : "\"${local.name_prefix}${name}\""])
  queue_filter    = "resource.type=\"cloud_tasks_queue\" AND resource.labels.queue_id=one_of(${local.queue_names})"
  requests        = "metric.type=\"run.googleapis.com/request_count\""
  service_filters = [for names in local.service_groups : "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=one_of(${names}) AND ${local.requests}"]
  attempts        = "${local.queue_filter} AND metric.type=\"cloudtasks.googleapis.com/queue/task_attempt_count\""
  database_filter = "resource.type=\"firestore.googleapis.com/Database\" AND resource.labels.database_id=\"${local.database}\" AND metric.type=\"firestore.googleapis.com/api/request_count\""

  # Eventarc delivers events through Pub/Sub, in a subscription named after the trigger's region and the trigger, which Cloud
  # Functions names after the function.
  subscriptions = [for names in chunklist(concat(
    [for event in local.function_triggers : "eventarc-${event.region}-${local.deployments[event.function].service}-.*"],
    [for name in keys(local.handler_triggers) : "eventarc-${local.database_location}-${local.name_prefix}${name}-sub-.*"],
  ), 15) : join("|", names)]

  thresholds = merge({
    failures = {
      title        = "Functions fail"
      severity     = "CRITICAL"
      filters      = [for services in local.service_filters : "${services} AND metric.labels.response_code_class=\"5xx\" AND metric.labels.response_code!=\"503\""]
      denominators = local.service_filters
      aligner      = "ALIGN_RATE"
      reducer      = "REDUCE_SUM"
      group        = "resource.label.service_name"
      above        = 0.01 # of the function's requests
    }
    unavailable = {
      title        = "Functions are unavailable"
      severity     = "ERROR"
      filters      = [for services in local.service_filters : "${services} AND metric.labels.response_code=\"503\""]
      denominators = local.service_filters
      aligner      = "ALIGN_RATE"
      reducer      = "REDUCE_SUM"
      group        = "resource.label.service_name"
      above        = 0.25 # of the function's requests: contention is transient, and answered with 503 so that it is tried again
    }
    refused = {
      title        = "Functions have no free instance"
      severity     = "ERROR"
      filters      = [for services in local.service_filters : "${services} AND metric.labels.response_code=\"429\""]
      denominators = local.service_filters
      aligner      = "ALIGN_RATE"
      reducer      = "REDUCE_SUM"
      group        = "resource.label.service_name"
      above        = 0.05 # of the function's requests: Cloud Run refuses what exceeds instances_max × concurrency, and queues slow down
    }
    firestore = {
      title        = "Firestore fails"
      severity     = "CRITICAL"
      filters      = ["${local.database_filter} AND metric.labels.response_code=one_of(\"DEADLINE_EXCEEDED\",\"INTERNAL\",\"PERMISSION_DENIED\",\"RESOURCE_EXHAUSTED\",\"UNAVAILABLE\")"]
      denominators = [local.database_filter]
      aligner      = "ALIGN_RATE"
      reducer      = "REDUCE_SUM"
      group        = "resource.label.database_id"
      above        = 0.01 # of the database's requests; a lost precondition or a contended record is normal, and not counted
    }
    }, length(local.queues) == 0 ? {} : {
    depth = {
      title        = "Queue depth is high"
      severity     = "WARNING"
      filters      = ["${local.queue_filter} AND metric.type=\"cloudtasks.googleapis.com/queue/depth\""]
      denominators = []
      aligner      = "ALIGN_MIN"
      reducer      = "REDUCE_MAX"
      group        = "resource.label.queue_id"
      above        = 10000 # half an hour's work of a queue at some six tasks a second; tasks that are due later count too
    }
    delay = {
      title        = "Tasks are late"
      severity     = "ERROR"
      filters      = ["${local.queue_filter} AND metric.type=\"cloudtasks.googleapis.com/queue/task_attempt_delays\""]
      denominators = []
      aligner      = "ALIGN_PERCENTILE_99"
      reducer      = "REDUCE_MAX"
      group        = "resource.label.queue_id"
      above        = 600000 # ms from when an attempt was due to when it began
    }
    rejected = {
      title        = "Functions reject their queue"
      severity     = "CRITICAL"
      filters      = ["${local.attempts} AND metric.labels.response_code=monitoring.regex.full_match(\"(?i)(40[134]|unauthenticated|permission_denied|not_found)\")"]
      denominators = [local.attempts]
      aligner      = "ALIGN_RATE"
      reducer      = "REDUCE_SUM"
      group        = "resource.label.queue_id"
      above        = 0.05 # of the queue's attempts: a right or a function is missing, which Cloud Run answers before the function runs
    }
    }, length(local.subscriptions) == 0 ? {} : {
    events = {
      title        = "Events are not delivered"
      severity     = "ERROR"
      filters      = [for names in local.subscriptions : "resource.type=\"pubsub_subscription\" AND metric.type=\"pubsub.googleapis.com/subscription/oldest_unacked_message_age\" AND resource.labels.subscription_id=monitoring.regex.full_match(\"${names}\")"]
      denominators = []
      aligner      = "ALIGN_MAX"
      reducer      = "REDUCE_MAX"
      group        = "resource.label.subscription_id"
      above        = 600 # seconds; a fresh trigger is silent for up to two minutes
    }
    dead_letters = {
      title        = "Events were given up"
      severity     = "ERROR"
      filters      = ["resource.type=\"pubsub_subscription\" AND metric.type=\"pubsub.googleapis.com/subscription/num_undelivered_messages\" AND resource.labels.subscription_id=\"${local.dead_letters["events"]}\""]
      denominators = []
      aligner      = "ALIGN_MAX"
      reducer      = "REDUCE_MAX"
      group        = "resource.label.subscription_id"
      above        = 0 # until they are delivered again, or 30 days old
    }
  })

  # The alert's message: the heading in docs/operations.md, and the command to run first.
  runbook_arguments = "-p ${var.project_id} -e ${coalesce(var.environment_name, var.environment)} --region ${var.region}"
  runbook           = "Open docs/operations.md at \"Alerts\", row \"%s\". First run `signalbox %s ${local.runbook_arguments}`."
  runbook_commands  = { depth = "status", rejected = "status", paused = "status", stuck = "status", delay = "status", events = "status", schedules = "status", dead_letters = "failures", given_up = "failures" } # for all others, the log

  channels = concat([for channel in google_monitoring_notification_channel.email : channel.id], sort(var.notification_channels))
}

resource "google_monitoring_notification_channel" "email" {
  for_each     = var.alert_email == null ? {} : { email = var.alert_email }
  display_name = "${local.name_prefix}signalbox"
  type         = "email"
  labels       = { email_address = each.value }
}

check "alerts_have_a_recipient" {
  assert {
    condition     = length(local.channels) > 0
    error_message = "Alerts are raised and not sent to anyone: set `alert_email` or `notification_channels` in the environment's file."
  }
}

resource "google_monitoring_alert_policy" "alert" {
  for_each              = local.thresholds
  display_name          = "${local.name_prefix}signalbox: ${each.value.title}"
  severity              = each.value.severity
  combiner              = "OR"
  notification_channels = local.channels
  dynamic "conditions" {
    for_each = each.value.filters
    content {
      display_name = conditions.key == 0 ? each.value.title : "${each.value.title} (${conditions.key + 1})"
      condition_threshold {
        filter             = conditions.value
        denominator_filter = length(each.value.denominators) == 0 ? null : each.value.denominators[conditions.key]
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
          for_each = length(each.value.denominators) == 0 ? [] : [each.value]
          content {
            alignment_period     = "60s"
            per_series_aligner   = denominator_aggregations.value.aligner
            cross_series_reducer = denominator_aggregations.value.reducer
            group_by_fields      = [denominator_aggregations.value.group]
          }
        }
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: ${each.value.title}"
    mime_type = "text/markdown"
    content   = format(local.runbook, each.value.title, lookup(local.runbook_commands, each.key, "logs"))
  }
  lifecycle {
    precondition {
      condition     = length(each.value.filters) <= 6 && alltrue([for filter in each.value.filters : length(filter) <= 2048])
      error_message = "The alert \"${each.value.title}\" needs more than six conditions or a filter of more than 2,048 characters: the catalogue has too many functions, queues or triggers with long names."
    }
  }
  depends_on = [module.function, google_cloud_tasks_queue.queue]
}

# Only the sweeper completes the work that crashed processes leave, and if it fails every minute, its failures are far below the threshold
# above. So both conditions watch its successes: there is no value, or the value is zero.
locals {
  sweepers = [for function in local.deployments : function.service if function.function == "sweep"] # none if nothing is durable
  sweeps   = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=\"${join("", local.sweepers)}\" AND ${local.requests} AND metric.labels.response_code_class=\"2xx\""
}

resource "google_monitoring_alert_policy" "no_sweeps" {
  for_each              = toset(local.sweepers)
  display_name          = "${local.name_prefix}signalbox: Sweeps have stopped"
  severity              = "CRITICAL"
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
