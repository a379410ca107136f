environment = "dev"
prefix      = "dev"
