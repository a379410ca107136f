# Backups of the database, which are kept after the database is deleted.

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
