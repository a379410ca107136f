environment = "prod"
prefix      = ""
backups     = true

log_retention_days = 30 # of the project: one of its environments says it

# alert_email = "ops@example.com" # without an address alerts are raised and no person receives them
# objectives = true # for functions in steady use: docs/operations.md, "Objectives"
