# The topic of events that their function could not handle. Without it, Eventarc drops an event after 24 hours. Eventarc
# creates a trigger's subscription, and no resource of the provider sets its dead-letter topic (terraform-provider-google#17697).
# So `signalbox deploy` sets it after each apply (deploy/dead_letter_subscriptions.py). The alert on its events is in monitoring.tf.

locals {
  dead_letters = length(local.triggers) == 0 ? {} : { events = "${local.name_prefix}signalbox-dead-events" }
  pubsub_agent = "serviceAccount:service-${data.google_project.this.number}@gcp-sa-pubsub.iam.gserviceaccount.com"
}

resource "google_pubsub_topic" "dead_letters" {
  for_each = local.dead_letters
  name     = each.value
}

# Keeps the events until `signalbox failures --replay` delivers them again. They contain documents: SECURITY.md, "Erasing a person's data".
resource "google_pubsub_subscription" "dead_letters" {
  for_each                   = local.dead_letters
  name                       = each.value
  topic                      = google_pubsub_topic.dead_letters[each.key].id
  ack_deadline_seconds       = 60
  message_retention_duration = "2592000s" # 30 days, as failures are kept
  expiration_policy {
    ttl = "" # never: by default a subscription that is not used for 31 days is deleted
  }
}

# Pub/Sub moves an event to the topic as its service agent, which exists once there are triggers.
resource "google_pubsub_topic_iam_member" "dead_letters" {
  for_each   = local.dead_letters
  topic      = google_pubsub_topic.dead_letters[each.key].name
  role       = "roles/pubsub.publisher"
  member     = local.pubsub_agent
  depends_on = [module.function, google_eventarc_trigger.document]
}
