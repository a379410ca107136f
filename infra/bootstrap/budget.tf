# A budget for the project that warns, if `billing_account` is set. Reading and changing it needs the role Billing Account Costs Manager
# on the billing account, which only a person has. So it is not a part of a deployment, which Cloud Build or GitHub also plans.

# The API of budgets needs to know against which project's quota a person's call counts (the provider's page of
# google_billing_budget).
provider "google" {
  alias                 = "billing"
  project               = var.project_id
  region                = var.region
  user_project_override = true
  billing_project       = var.project_id
}

data "google_project" "this" {
  project_id = var.project_id
}

locals {
  budgets = var.billing_account == null ? {} : { project = var.billing_account }
}

resource "google_project_service" "budgets" {
  for_each           = local.budgets
  service            = "billingbudgets.googleapis.com"
  disable_on_destroy = false
}

resource "google_billing_budget" "budget" {
  for_each        = local.budgets
  provider        = google.billing
  billing_account = each.value
  display_name    = "signalbox: ${var.project_id}"
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
    for_each = length(var.budget_channels) > 0 ? [var.budget_channels] : []
    content {
      monitoring_notification_channels = all_updates_rule.value
    }
  }
  depends_on = [google_project_service.budgets]
}
