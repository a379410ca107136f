environment = "dev"
prefix      = "dev"
examples    = true
# alert_email = "ops@example.com" # without an address alerts are raised and no person receives them
