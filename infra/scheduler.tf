locals {
  # The schedule of a task calls the function `tasks`, which enqueues the task once for each scheduled time. So it is retried
  # like any task.
  scheduled = { for name, schedule in local.schedules : name => {
    cron     = schedule.cron
    zone     = lookup(schedule, "time_zone", "Etc/UTC")
    task     = lookup(schedule, "task", "") != ""
    audience = replace(local.function_url, "{function}", local.functions[lookup(schedule, "task", "") == "" ? schedule.function : "tasks"].segment)
    body = base64encode(jsonencode({
      function = schedule.function
      task     = lookup(schedule, "task", "")
      payload  = lookup(schedule, "arguments", {})
    }))
  } }
}

resource "google_cloud_scheduler_job" "schedule" {
  for_each         = local.scheduled
  name             = "${local.begin}${each.key}"
  region           = var.region
  schedule         = each.value.cron
  time_zone        = each.value.zone
  attempt_deadline = "180s"
  retry_config {
    retry_count = 1
  }
  http_target {
    http_method = "POST"
    uri         = "${each.value.audience}/"
    headers     = each.value.task ? { "Content-Type" = "application/json" } : null
    body        = each.value.task ? each.value.body : null
    oidc_token {
      service_account_email = google_service_account.kit["scheduler"].email
      audience              = each.value.audience
    }
  }
  depends_on = [module.function]
}
