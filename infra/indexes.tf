# Firestore's indexes beyond its default, one for every field: composite indexes of the catalogue, and exemptions for fields
# that no query names, since each index costs time at every write and storage.

locals {
  composite = { for name, index in local.indexes : name => {
    collection = index.collection
    fields = [for field in index.fields : {
      path  = trimsuffix(trimprefix(field, "-"), "[]")
      order = endswith(field, "[]") ? null : startswith(field, "-") ? "DESCENDING" : "ASCENDING"
      array = endswith(field, "[]") ? "CONTAINS" : null
    }]
  } }

  # All of the kit's own fields that no query names; a map's settings are those of its fields too. An index of values that
  # grow (times, numbers of units) takes some 500 writes a second.
  never_searched = {
    adjustments = ["moves", "units", "values", "yokes"]
    attempts    = ["attempt", "error", "errors", "function", "pause_seconds", "starts", "task", "trace", "traceback"]
    batches = [
      "concurrency", "deadline_at", "digest", "failed", "failures_max", "first_pages", "incarnation", "missing",
      "on_complete", "on_failure", "pages", "parent", "queues", "reason", "size", "succeeded", "task", "then"
    ]
    counters          = ["failures", "failures_max", "page", "passed", "units"]
    critical_sections = ["alarm_at", "ids", "next", "run", "token"]
    documents         = ["_resource.created", "_resource.modified", "_signalbox"]
    counted           = ["item", "keys", "logged", "revision", "since", "user", "value", "version"]
    entries           = ["crossed", "folded_at", "neutral", "recount", "units", "values", "yokes"]
    failures          = ["attempts", "call", "context", "detail", "error", "problem", "state", "trace", "traceback"]
    flows             = ["created_at", "ended_at", "flow", "id"]
    log               = ["entries"]
    histories         = ["counts", "digest", "firsts", "version"]
    mailbox = [
      "arguments", "begun", "body", "chunks", "digest", "end", "forwarded", "function", "generation", "held", "held_bytes",
      "incarnation", "kept", "kind", "later", "leases", "mark", "not_after", "on_complete", "outcome", "parent", "patches", "pending",
      "progress", "receipt", "revision", "start_at", "state", "stuck", "tail", "then", "written_by"
    ]
    objects  = ["class", "created_at", "key"]
    outbox   = ["enqueued", "tasks"]
    pages    = ["concurrency", "digest", "end", "first", "queues", "size", "task", "units"]
    receipts = ["digest", "result"]
    releases = ["id", "incarnation", "operation", "token"]
    semaphores = [
      "alarm_at", "clean_at", "delete_after_seconds", "ended", "head", "lease_seconds", "leases", "next_token", "permits", "revision"
    ]
    standing_declarations = ["kinds", "revision"]
    transforms            = ["botl"]
    units                 = ["attempt", "batch", "incarnation", "index", "offset", "page", "page_units", "text"]
    verifications         = ["cursor", "ended_at", "found", "moved_at", "pages"]
    versions              = ["action", "author", "packed", "patch", "whole"]
    waiters = [
      "answer", "continuation", "deadline_at", "grant", "holder", "incarnation", "joined", "lease_seconds", "on_timeout",
      "permits", "release_on_failure", "release_on_return", "resumed", "resumes", "state"
    ]
    walks = ["run"]
    yokes = ["attributes", "value"]
  }
  exempt = merge([for collection, fields in local.never_searched : {
    for field in fields : "${collection}.${field}" => { collection = collection, field = field }
  }]...)

  first_exempt = "documents._signalbox"
  later_exempt = { for name, exempt in local.exempt : name => exempt if name != local.first_exempt }

  # Which documents embed a document, and by which fields.
  searched_as_arrays = toset(["_signalbox.link_keys", "_signalbox.link_fields"])
}

resource "google_firestore_index" "composite" {
  for_each    = local.composite
  database    = local.database
  collection  = each.value.collection
  query_scope = "COLLECTION"
  dynamic "fields" {
    for_each = each.value.fields
    content {
      field_path   = fields.value.path
      order        = fields.value.order
      array_config = fields.value.array
    }
  }
  depends_on = [google_firestore_field.exempt, google_firestore_field.searched_as_array, google_firestore_field.expiring]
}

# A young database refuses changes of several indexes at once ("too much contention", 409) while it makes its first ones: so
# one field comes first, then the others, and the composite indexes last.
resource "google_firestore_field" "first" {
  database   = local.database
  collection = local.exempt[local.first_exempt].collection
  field      = local.exempt[local.first_exempt].field
  index_config {}
  depends_on = [google_firestore_database.database]
}

resource "google_firestore_field" "exempt" {
  for_each   = local.later_exempt
  database   = local.database
  collection = each.value.collection
  field      = each.value.field
  index_config {}
  depends_on = [google_firestore_field.first]
}

resource "google_firestore_field" "searched_as_array" {
  for_each   = local.searched_as_arrays
  database   = local.database
  collection = "documents"
  field      = each.key
  index_config {
    indexes {
      array_config = "CONTAINS"
      query_scope  = "COLLECTION"
    }
  }
  depends_on = [google_firestore_field.first]
}
