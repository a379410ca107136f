environment = "prod"
prefix      = ""
