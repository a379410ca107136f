# A trigger fires only where its region is the database's location; elsewhere it is accepted and never fires.
locals {
  events = { for name, trigger in local.triggers : name => {
    function = trigger.function
    type     = trigger.event
    region   = local.database_location
    document = trigger.document
    account  = google_service_account.trigger[trigger.function].email
  } }
}
