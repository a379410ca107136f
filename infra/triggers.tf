# A trigger fires only if its region is the database's location. Any other region is accepted, but never fires.
locals {
  events = { for name, trigger in local.triggers : name => {
    function = trigger.function
    type     = trigger.event
    region   = local.database_location
    document = trigger.document
    account  = google_service_account.trigger[trigger.function].email
  } }
}
