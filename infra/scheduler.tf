locals {
  scheduled = { for name, schedule in local.schedules : name => {
    cron     = schedule.cron
    audience = replace(local.function_url, "{function}", local.functions[schedule.function].segment)
  } }
}

resource "google_cloud_scheduler_job" "schedule" {
  for_each         = local.scheduled
  name             = "${local.begin}${each.key}"
  region           = var.region
  schedule         = each.value.cron
  time_zone        = "Etc/UTC"
  attempt_deadline = "180s"
  retry_config {
    retry_count = 1
  }
  http_target {
    http_method = "POST"
    uri         = "${each.value.audience}/"
    oidc_token {
      service_account_email = google_service_account.kit["scheduler"].email
      audience              = each.value.audience
    }
  }
  depends_on = [module.function]
}
