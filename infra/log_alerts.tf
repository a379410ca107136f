# Alerts on log lines that matter from the first one: a threshold on their rate would hide it. Each is sent once an hour at most.
# An ERROR line of the code is either in `error_lines` or has "No alert" in docs/operations.md; a test compares them.

locals {
  service_names = join(" OR ", [for function in local.deployments : "\"${function.service}\""])
  jobs          = concat([for name in keys(local.schedules) : "${local.name_prefix}${name}"], [for export in local.exports : local.export_job])
  job_groups    = [for names in chunklist(local.jobs, 30) : join(" OR ", [for name in names : "\"${name}\""])]
  pausable      = [for names in chunklist(concat([for name in keys(local.queues) : "${local.name_prefix}${name}"], local.jobs), 30) : join("|", names)]
  errors        = "resource.type=\"cloud_run_revision\" AND severity=\"ERROR\" AND jsonPayload.database=\"${local.database}\"${local.own_services}"

  # A function can log a line with any database in it, so lines of services with names of other databases do not count.
  own_services = join("", concat(
    var.prefix == "" ? [] : [" AND resource.labels.service_name=~\"^${local.name_prefix}\""],
    length(local.databases) == 0 ? [] : [" AND NOT resource.labels.service_name=~\"^${local.name_prefix}(${join("|", local.databases)})-\""],
  ))

  # CRITICAL: work has stopped, or an intrusion was attempted. ERROR: some work waits for a person. WARNING: it can wait for a week.
  error_lines = {
    refusals = {
      title    = "Tasks cannot be enqueued"
      severity = "CRITICAL"
      messages = ["deployment cannot enqueue", "task refused", "outbox tasks refused by the queue"]
    }
    unknown = {
      title    = "Calls or records were refused"
      severity = "CRITICAL"
      messages = ["caller refused", "event refused", "outbox record kept aside"]
    }
    given_up = {
      title    = "Tasks or events are given up"
      severity = "ERROR"
      messages = ["task abandoned", "event abandoned", "scheduled call abandoned", "call given up"]
    }
    calls = {
      title    = "Calls may be missing"
      severity = "ERROR"
      messages = ["task made fewer calls than before"]
    }
    stuck = {
      title    = "Flows or objects are stuck"
      severity = "ERROR"
      messages = ["flow stuck", "turn refused", "payload damaged"]
    }
    unreadable = {
      title    = "Records cannot be read"
      severity = "ERROR"
      messages = ["batch cannot be swept", "completion cannot be swept", "critical section cannot be swept", "flow cannot be swept", "rate cannot be swept", "semaphore cannot be swept", "standing cannot be read, emptied", "standing refused, not recounted"]
    }
    copies = {
      title    = "Copies are wrong"
      severity = "WARNING"
      messages = ["copies had drifted", "copy refresh rejected", "document normalization rejected", "transform output is not an object"]
    }
    standings = {
      title    = "Standings are wrong"
      severity = "WARNING"
      messages = ["standing had drifted, repaired", "yoke with an invalid id, not counted", "yoke refused, not counted", "yoke refused, not removed"]
    }
    archives = {
      title    = "Runs are not archived"
      severity = "WARNING"
      messages = ["run not archived"]
    }
  }

  # Alerts on the records of a part of the kit, and a collection that is there if the part is.
  lines_of_parts = { stuck = "mailbox", copies = "documents", standings = "yokes", archives = "flows" }

  log_alerts = merge({
    for name, alert in local.error_lines : name => {
      title    = alert.title
      severity = alert.severity
      filter   = "${local.errors} AND jsonPayload.message=(${join(" OR ", [for message in alert.messages : "\"${message}\""])})"
    } if !contains(keys(local.lines_of_parts), name) || contains(local.catalogue.collections, lookup(local.lines_of_parts, name, ""))
    }, {
    # Admin activity is always logged. A queue that is paused has no attempts, so no metric of it changes until 10,000 tasks wait.
    for number, names in local.pausable : number == 0 ? "paused" : "paused-${number + 1}" => {
      title    = "A queue or a schedule was paused"
      severity = "WARNING"
      filter   = "protoPayload.serviceName=(\"cloudtasks.googleapis.com\" OR \"cloudscheduler.googleapis.com\") AND protoPayload.methodName=~\"[.](PauseQueue|PurgeQueue|DeleteQueue|PauseJob|DeleteJob)$\" AND protoPayload.resourceName=~\"/locations/${var.region}/(queues|jobs)/(${names})$\""
    }
    }, {
    # The audit log of an operation has an entry when it begins and one when it ends. [open] The form follows the documentation, and has
    # not been tried in a real project.
    for name, export in local.exports : "exports" => {
      title    = "An export failed"
      severity = "ERROR"
      filter   = "protoPayload.serviceName=\"firestore.googleapis.com\" AND protoPayload.methodName=\"google.firestore.admin.v1.FirestoreAdmin.ExportDocuments\" AND protoPayload.resourceName=~\"/databases/${replace(replace(local.database, "(", "[(]"), ")", "[)]")}$\" AND severity>=\"ERROR\""
    }
    }, {
    for number, names in local.job_groups : number == 0 ? "schedules" : "schedules-${number + 1}" => {
      title    = "A schedule's call failed" # Cloud Scheduler publishes no metric, only its log
      severity = "ERROR"
      filter   = "resource.type=\"cloud_scheduler_job\" AND resource.labels.job_id=(${names}) AND severity>=\"ERROR\" AND NOT httpRequest.status=503"
    }
  })
}

# For the dashboard. An alert on this metric would fail in a first deployment: its name is unknown for up to ten minutes.
resource "google_logging_metric" "given_up" {
  name        = "${local.name_prefix}signalbox-given-up"
  description = "Tasks, events and scheduled calls that failed permanently."
  filter      = local.log_alerts.given_up.filter
  metric_descriptor {
    metric_kind = "DELTA"
    value_type  = "INT64"
  }
}

resource "google_monitoring_alert_policy" "logged" {
  for_each              = local.log_alerts
  display_name          = "${local.name_prefix}signalbox: ${each.value.title}"
  severity              = each.value.severity
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
    auto_close = startswith(each.key, "paused") ? "604800s" : "3600s" # no line says that a queue runs again: a person closes it, or a week does
    notification_rate_limit {
      period = "3600s"
    }
  }
  lifecycle {
    precondition {
      condition     = length(each.value.filter) <= 2048
      error_message = "The filter of the alert \"${each.value.title}\" has more than 2,048 characters. Shorten the names of the catalogue's schedules."
    }
  }
}

# The project's log bucket. It exists already: it is only changed, and is kept by `signalbox destroy`.
resource "google_logging_project_bucket_config" "default" {
  count          = var.log_retention_days == null ? 0 : 1
  project        = var.project_id
  location       = "global"
  bucket_id      = "_Default"
  retention_days = var.log_retention_days
}

# Cloud Run logs each request with its address, which contains the values of a query (`where=email=…`), for $0.50 a GiB. Entries
# of successful requests are not kept: metrics count them, and the functions' own log lines describe them.
resource "google_logging_project_exclusion" "requests" {
  name        = "${local.name_prefix}signalbox-requests"
  description = "Successful requests: their addresses contain the values of queries."
  filter      = "resource.type=\"cloud_run_revision\" AND resource.labels.service_name=(${local.service_names}) AND log_id(\"run.googleapis.com/requests\") AND severity<WARNING"
}
