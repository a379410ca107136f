# Firestore indexes every field by default. These are the composite indexes of the kit and of the catalogue, and exemptions for
# fields that no query names, since each index costs storage, and time at every write.

locals {
  # Lists of runs by the time of their start, the newest first: all of a flow, those in a state, and those with a label.
  kit_indexes = {
    "flows-by-start"       = { collection = "flows", fields = [local.flow, local.started] }
    "flows-state-by-start" = { collection = "flows", fields = [local.flow, { path = "state", order = "ASCENDING", array = null }, local.started] }
    "flows-label-by-start" = { collection = "flows", fields = [local.flow, { path = "labels", order = null, array = "CONTAINS" }, local.started] }
  }
  flow    = { path = "flow", order = "ASCENDING", array = null }
  started = { path = "created_at", order = "DESCENDING", array = null }

  # The kit's own collections, with the fields that queries name. One setting removes the index of all fields of a collection
  # ("*"; a map's setting also applies to the fields in it), and one for each field named here adds its index again. Each
  # setting is an operation of 30 to 120 seconds. An index of increasing values (times, numbers of units) sustains about
  # 500 writes a second.
  searched = {
    adjustments           = []
    attempts              = ["batch", "erred_at"]
    batches               = ["due_at", "parent_run", "state"]
    completions           = ["due_at"]
    counted               = ["times", "values"]
    counters              = ["first"]
    critical_sections     = ["sweep_at"]
    document_events       = []
    entries               = ["average", "count", "max", "min", "sum"]
    failures              = ["failed_at"]
    flows                 = ["checked_at", "due_at", "state"]
    histories             = []
    log                   = []
    mailbox               = ["since", "unread"]
    objects               = []
    outbox                = []
    outbox_refused        = []
    pages                 = []
    rate_waits            = ["batch", "since"]
    rates                 = ["sweep_at"]
    receipts              = []
    releases              = []
    semaphores            = ["mode", "sweep_at"]
    standing_declarations = []
    transforms            = []
    units                 = ["ended_at", "state"]
    verifications         = ["begun_at"]
    versions              = []
    waiters               = ["expires_at", "lane", "places", "since"]
    walks                 = []
    yokes                 = ["item", "user"]
  }
  # Collections of parts of the kit that the project uses.
  kept  = { for collection, fields in local.searched : collection => fields if contains(local.catalogue.collections, collection) }
  first = toset([for collection in keys(local.kept) : collection if collection == "outbox"])

  searched_fields = merge([for collection, fields in local.kept : {
    for field in fields : "${collection}.${field}" => { collection = collection, field = field }
  }]...)

  # The sweeper queries waiting messages of all objects' mailboxes by numbers, which are spread.
  searched_everywhere = { "mailbox.swept_by" = { collection = "mailbox", field = "swept_by" } }

  # Each entry is a label of a run, alone or with the run's state.
  searched_as_members = { for name, each in { "flows.labels" = { collection = "flows", field = "labels" } } : name => each if contains(local.catalogue.collections, each.collection) }

  # Documents belong to users: their fields are indexed, except those that the kit adds.
  unindexed_document_fields = toset(local.has_documents ? ["_resource.created", "_resource.modified", "_signalbox"] : [])
  has_documents             = contains(local.catalogue.collections, "documents")

  # The documents that embed a document, and the fields in which they do.
  searched_as_arrays = toset(local.has_documents ? ["_signalbox.link_keys", "_signalbox.link_fields"] : [])
}

# The address contains the name of the database: `signalbox adopt` imports the indexes that a restored one already has.
resource "google_firestore_index" "composite" {
  for_each = { for name, index in merge(
    { for name, index in local.kit_indexes : name => index if contains(local.catalogue.collections, index.collection) },
    local.catalogue.indexes,
  ) : "${local.database}/${name}" => index }
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
  depends_on = [
    google_firestore_field.of_documents, google_firestore_field.unindexed, google_firestore_field.searched,
    google_firestore_field.searched_everywhere, google_firestore_field.searched_as_member, google_firestore_field.searched_as_array,
    google_firestore_field.expiring,
  ]
  deletion_policy = local.data_deletion_policy
}

# While a new database creates its first indexes, it refuses changes of several indexes at once ("too much contention", 409). So
# the outbox, which every deployment with records has, is changed first, then the other collections, and the composite indexes last.
# A setting that is destroyed stays in the database: resetting it is an operation of 30 to 120 seconds, for a database that is deleted
# next, or kept with its data. Only in a database that Terraform did not create, and outside prod, it is removed.
resource "google_firestore_field" "first" {
  for_each   = local.first
  database   = local.database
  collection = each.key
  field      = "*"
  index_config {}
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_database.database]
}

resource "google_firestore_field" "of_documents" {
  for_each   = local.unindexed_document_fields
  database   = local.database
  collection = "documents"
  field      = each.key
  index_config {}
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
}

resource "google_firestore_field" "unindexed" {
  for_each   = setsubtract(keys(local.kept), local.first)
  database   = local.database
  collection = each.key
  field      = "*"
  index_config {}
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
}

resource "google_firestore_field" "searched" {
  for_each   = local.searched_fields
  database   = local.database
  collection = each.value.collection
  field      = each.value.field
  index_config {
    dynamic "indexes" {
      for_each = ["ASCENDING", "DESCENDING"]
      content {
        order       = indexes.value
        query_scope = "COLLECTION"
      }
    }
  }
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
}

resource "google_firestore_field" "searched_everywhere" {
  for_each   = local.searched_everywhere
  database   = local.database
  collection = each.value.collection
  field      = each.value.field
  index_config {
    indexes {
      order       = "ASCENDING"
      query_scope = "COLLECTION_GROUP"
    }
  }
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
}

resource "google_firestore_field" "searched_as_member" {
  for_each   = local.searched_as_members
  database   = local.database
  collection = each.value.collection
  field      = each.value.field
  index_config {
    indexes {
      array_config = "CONTAINS"
      query_scope  = "COLLECTION"
    }
  }
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
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
  deletion_policy = local.index_deletion_policy
  depends_on      = [google_firestore_field.first]
}
