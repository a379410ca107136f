# A trigger fires only if its region is the database's location. Any other region is accepted, but never fires.
locals {
  function_triggers = { for name, trigger in local.triggers : name => {
    function = trigger.function
    type     = trigger.event
    region   = local.database_location
    document = trigger.document
    account  = google_service_account.kit["events"].email
  } if trigger.path == "" }

  # A function may have any number of triggers with a handler. Cloud Functions does not know them: each delivers to the
  # function's service (the one for tasks if there are two), at its own path.
  handler_triggers = { for name, trigger in local.triggers : name => trigger if trigger.path != "" }
  event_receivers  = toset([for trigger in local.handler_triggers : trigger.deployment])
}

# Without a retry policy, Eventarc repeats a delivery until the event is acknowledged, given up or too old.
resource "google_eventarc_trigger" "document" {
  for_each                = local.handler_triggers
  name                    = "${local.name_prefix}${each.key}"
  location                = local.database_location
  event_data_content_type = "application/protobuf" # the only one that Firestore's events have
  service_account         = google_service_account.kit["events"].email
  matching_criteria {
    attribute = "type"
    value     = each.value.event
  }
  matching_criteria {
    attribute = "database"
    value     = local.database
  }
  matching_criteria {
    attribute = "document"
    value     = each.value.document
    operator  = "match-path-pattern"
  }
  destination {
    cloud_run_service {
      service = module.function[each.value.deployment].name # which exists, with its invokers
      region  = var.region
      path    = each.value.path
    }
  }
  lifecycle {
    precondition {
      condition     = length("${local.name_prefix}${each.key}") <= 63
      error_message = "The trigger ${local.name_prefix}${each.key} must have at most 63 characters: give the handler or the function a shorter name."
    }
  }
  depends_on = [google_project_iam_member.event_receiver, google_firestore_database.database]
}
