# A schedule calls its function. The schedule of a task calls the function `tasks`, which enqueues the task once for each
# scheduled time, so the task is retried like any other. The interval of each, including the sweep, is `cron` in catalogue.yaml.
locals {
  audiences = { for name, schedule in local.schedules : name => replace(local.function_url, "{function}", schedule.segment) }
}

resource "google_cloud_scheduler_job" "schedule" {
  for_each         = local.schedules
  name             = "${local.name_prefix}${each.key}"
  region           = var.region
  schedule         = each.value.cron
  time_zone        = each.value.time_zone
  attempt_deadline = "180s"
  retry_config {
    retry_count = 1
  }
  http_target {
    http_method = "POST"
    uri         = "${local.audiences[each.key]}/"
    headers     = each.value.call == null ? null : { "Content-Type" = "application/json" }
    body        = each.value.call == null ? null : base64encode(jsonencode(each.value.call))
    oidc_token {
      service_account_email = google_service_account.kit["scheduler"].email
      audience              = local.audiences[each.key]
    }
  }
  depends_on = [module.function]
}
