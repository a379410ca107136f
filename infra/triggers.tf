# A trigger fires only if its region is the database's location. Any other region is accepted, but never fires.
locals {
  events = { for name, trigger in local.triggers : name => {
    function = trigger.function
    type     = trigger.event
    region   = local.database_location
    document = trigger.document
    account  = google_service_account.trigger[trigger.function].email
  } if lookup(trigger, "handler", "") == "" }

  # A function may have any number of triggers with a handler, of which Cloud Functions knows nothing: each delivers to the
  # function's service, to that for tasks if there are two, at a path of its own (shared/signalbox/core/kit_names.py).
  handled = { for name, trigger in local.triggers : name => {
    name     = "${local.begin}${name}"
    to       = contains(local.split, trigger.function) ? "${trigger.function}_tasks" : trigger.function
    function = trigger.function
    type     = trigger.event
    document = trigger.document
    path     = "/document-events/${trigger.handler}"
  } if lookup(trigger, "handler", "") != "" }

  receiving = toset([for trigger in local.handled : trigger.to])
}

# Without a retry policy, Eventarc repeats a delivery until the event is acknowledged, given up or too old.
resource "google_eventarc_trigger" "document" {
  for_each                = local.handled
  name                    = each.value.name
  location                = local.database_location
  event_data_content_type = "application/protobuf" # the only one that Firestore's events have
  service_account         = google_service_account.trigger[each.value.function].email
  matching_criteria {
    attribute = "type"
    value     = each.value.type
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
      service = module.function[each.value.to].name # which exists, with its invokers
      region  = var.region
      path    = each.value.path
    }
  }
  lifecycle {
    precondition {
      condition     = length(each.value.name) <= 63
      error_message = "The trigger ${each.value.name} must have at most 63 characters: give the handler or the function a shorter name."
    }
  }
  depends_on = [google_project_iam_member.event_receiver, google_firestore_database.database]
}
