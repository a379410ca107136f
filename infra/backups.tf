# Backups of the database, which are kept after the database is deleted, and a budget that warns.

# Firestore allows one daily and one weekly schedule for a database, and keeps a backup for at most 14 weeks.
resource "google_firestore_backup_schedule" "daily" {
  count     = var.backups ? 1 : 0
  database  = local.database
  retention = "${7 * 86400}s"
  daily_recurrence {}
  deletion_policy = local.data_deletion_policy
  depends_on      = [google_firestore_database.database]
}

resource "google_firestore_backup_schedule" "weekly" {
  count     = var.backups ? 1 : 0
  database  = local.database
  retention = "${14 * 7 * 86400}s"
  weekly_recurrence {
    day = "SUNDAY"
  }
  deletion_policy = local.data_deletion_policy
  depends_on      = [google_firestore_backup_schedule.daily] # of one database, one change at a time
}

# Deploying the budget needs the role Billing Account Costs Manager on the billing account, so a person deploys it.
resource "google_billing_budget" "budget" {
  for_each        = var.billing_account == null ? {} : { project = var.billing_account }
  provider        = google.billing
  billing_account = each.value
  display_name    = "${local.name_prefix}signalbox: ${var.project_id}"
  budget_filter {
    projects        = ["projects/${data.google_project.this.number}"]
    calendar_period = "MONTH"
  }
  amount {
    specified_amount {
      units = tostring(var.budget)
    }
  }
  dynamic "threshold_rules" {
    for_each = [0.5, 0.9, 1]
    content {
      threshold_percent = threshold_rules.value
    }
  }
  threshold_rules {
    threshold_percent = 1
    spend_basis       = "FORECASTED_SPEND"
  }
  dynamic "all_updates_rule" {
    for_each = length(local.channels) > 0 ? [local.channels] : []
    content {
      monitoring_notification_channels = all_updates_rule.value
    }
  }
  depends_on = [google_project_service.api]
}
