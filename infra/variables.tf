variable "project_id" {
  description = "Google Cloud project to deploy into."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id is a project's id, not its name or number: 6 to 30 lower case letters, digits and hyphens. See `gcloud projects list`."
  }
}

variable "region" {
  description = "Region of the functions, the queues and the schedules."
  type        = string
  default     = "us-central1"
  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is a region such as us-central1, not a zone. See `gcloud functions regions list`."
  }
}

variable "database_location" {
  description = "Location of the database, and so of its triggers: a region, or a multi-region such as nam5 or eur3. If null, it is the region. It cannot be changed later."
  type        = string
  default     = null
  validation {
    condition     = var.database_location == null || can(regex("^([a-z]+-[a-z]+[0-9]+|nam[0-9]+|eur[0-9]+)$", var.database_location))
    error_message = "database_location is a region such as us-central1 or a multi-region such as nam5. See `gcloud firestore locations list`."
  }
}

variable "environment" {
  description = "Purpose of this deployment: dev, staging or prod. Only prod's data is protected against deletion."
  type        = string
  validation {
    condition     = contains(["dev", "staging", "prod"], var.environment)
    error_message = "environment must be dev, staging or prod."
  }
}

variable "environment_name" {
  description = "NAME of the environment's file, NAME.tfvars.json, for the commands that alerts name. `signalbox` sets it. If null, it is `environment`."
  type        = string
  default     = null
}

variable "catalogue_database" {
  description = "The database in the entries of the functions that this deployment has. `signalbox` sets it. If it is empty, the deployment has the functions without one."
  type        = string
  default     = ""
}

variable "prefix" {
  description = "Prefix of the name of every resource and function URL, as PREFIX-. If it is empty, there is none. It separates two deployments in one project."
  type        = string
  default     = ""
  validation {
    condition     = can(regex("^([a-z][a-z0-9]*(-[a-z0-9]+)*)?$", var.prefix))
    error_message = "prefix must begin with a letter and hold lower case letters and digits, joined by single hyphens. The hyphen behind it is added."
  }
  validation {
    condition     = length(var.prefix) <= 13 && alltrue([for row in local.own_rows : length(var.prefix) + length(row.segment) <= 26])
    error_message = "prefix is too long: a bucket's name has 63 characters at most, an account's id 30, and in fn-PREFIX-FUNCTION the longest function leaves ${min(13, [for row in local.own_rows : 26 - length(row.segment)]...)} for it. Shorten the prefix, or the function's name in the catalogue."
  }
}

variable "database" {
  description = "Name of the Firestore database. If null, it is signalbox-ENVIRONMENT, so that environments may share a project."
  type        = string
  default     = null
  validation {
    condition     = var.database == null || can(regex("^(\\(default\\)|[a-z][a-z0-9-]{2,61}[a-z0-9])$", var.database))
    error_message = "database must be (default), or 4 to 63 lower case letters, digits and hyphens that begin with a letter."
  }
}

variable "create_database" {
  description = "Create the database. If false, it already exists in database_location, and is not destroyed with the rest."
  type        = bool
  default     = true
  nullable    = false
}

variable "dist_dir" {
  description = "Folder with NAME.zip of each function, relative to this one."
  type        = string
  default     = "../dist"
  validation {
    condition     = alltrue([for name in local.functions : fileexists("${var.dist_dir}/${name}.zip")])
    error_message = "dist_dir lacks ${join(", ", [for name in local.functions : "${name}.zip" if !fileexists("${var.dist_dir}/${name}.zip")])}. Run `signalbox package` first."
  }
}

variable "invokers" {
  description = "IAM members that may call the functions for people, in addition to those who deploy: user:…, group:…, serviceAccount:…"
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for member in var.invokers : can(regex("^(user|group|serviceAccount|domain|principal|principalSet):.+$", member))])
    error_message = "invokers are IAM members such as user:ann@example.com. To open a function to everybody, set `public: true` in its entry of the catalogue."
  }
}

variable "deployer" {
  description = "IAM member that deploys, and may call the functions for people: user:… or serviceAccount:…"
  type        = string
  default     = null
  validation {
    condition     = var.deployer == null || can(regex("^(user|serviceAccount|principal):.+$", var.deployer))
    error_message = "deployer is one IAM member such as user:ann@example.com or serviceAccount:NAME@PROJECT.iam.gserviceaccount.com."
  }
}

variable "deployers" {
  description = "Group of the people who deploy, as group:…: it may call the functions for people instead of the deploying person, so that a deployment by another person changes nothing. If null, the deployer may call them."
  type        = string
  default     = null
  validation {
    condition     = var.deployers == null || can(regex("^group:.+@.+$", var.deployers))
    error_message = "deployers is one group, as group:deployers@example.com."
  }
}

variable "alert_email" {
  description = "E-mail address that alerts are sent to. If null, alerts are raised but not sent."
  type        = string
  default     = null
  validation {
    condition     = var.alert_email == null || can(regex("^[^@ ]+@[^@ ]+\\.[^@ ]+$", var.alert_email))
    error_message = "alert_email must be one e-mail address."
  }
}

variable "notification_channels" {
  description = "More channels that alerts are sent to, beside `alert_email`: ids of Cloud Monitoring's channels, such as a webhook's, Pub/Sub's or PagerDuty's."
  type        = set(string)
  default     = []
  nullable    = false
  validation {
    condition     = alltrue([for channel in var.notification_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", channel))])
    error_message = "notification_channels are ids such as projects/my-project/notificationChannels/123. See `gcloud beta monitoring channels list`."
  }
}

variable "rights_seconds" {
  description = "Pause between granting rights and building the functions that need them, in seconds. Google names typically 2 minutes, potentially 7 or longer."
  type        = number
  default     = 120
  nullable    = false
  validation {
    condition     = var.rights_seconds >= 0 && var.rights_seconds <= 1800 && floor(var.rights_seconds) == var.rights_seconds
    error_message = "rights_seconds is a whole number of seconds, 0 to 1800."
  }
}

variable "backups" {
  description = "Copy the database every day, kept for a week, and every Sunday, kept for 14 weeks."
  type        = bool
  default     = false
  nullable    = false
}

variable "exports" {
  description = "Exports of the database, as {\"bucket_location\": \"us-east4\"}: export it on a `schedule` (cron, in `time_zone`) into a bucket in `bucket_location`, which keeps each export for `keep_days`. An export reads each record once. If null, there are no exports."
  type = object({
    bucket_location = string
    schedule        = optional(string, "0 3 * * *")
    time_zone       = optional(string, "Etc/UTC")
    keep_days       = optional(number, 7)
  })
  default = null
  validation {
    condition     = var.exports == null ? true : can(regex("^([a-z]+-[a-z]+[0-9]+|us|eu|asia|nam4|eur[0-9]+|asia1)$", var.exports.bucket_location))
    error_message = "exports.bucket_location is a location of Cloud Storage in lower case: a region such as us-east4, or us, eu or asia."
  }
  validation {
    condition     = var.exports == null ? true : can(regex("^\\S+( \\S+){4}$", var.exports.schedule))
    error_message = "exports.schedule has five fields, as cron: \"0 3 * * *\" is each day at three."
  }
  validation {
    condition     = var.exports == null ? true : can(regex("^[1-9][0-9]*$", tostring(var.exports.keep_days)))
    error_message = "exports.keep_days is a whole number of days, at least 1."
  }
}

variable "log_retention_days" {
  description = "Days for which the project keeps its logs, in the bucket _Default: above 30 they cost storage. If several environments share a project, set it in one of them. If null, it is unchanged, as it is if _Default is not in the location global."
  type        = number
  default     = null
  validation {
    condition     = var.log_retention_days == null || (coalesce(var.log_retention_days, 30) >= 1 && coalesce(var.log_retention_days, 30) <= 3650 && floor(coalesce(var.log_retention_days, 30)) == coalesce(var.log_retention_days, 30))
    error_message = "log_retention_days is a whole number of days from 1 to 3650, or null."
  }
}

variable "cmek_key" {
  description = "Key of Cloud KMS that encrypts the database, as projects/…/locations/…/keyRings/…/cryptoKeys/…. If null, Google's key encrypts it. It can be chosen only for a new database."
  type        = string
  default     = null
  validation {
    condition     = var.cmek_key == null || can(regex("^projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+$", var.cmek_key))
    error_message = "cmek_key is projects/PROJECT/locations/LOCATION/keyRings/RING/cryptoKeys/KEY. See `gcloud kms keys list`."
  }
}

variable "data_access_logs" {
  description = "Log each read and write of every Firestore database of the project, with its caller: Cloud Audit Logs, which cost as logs do. If several environments share a project, set it in one of them. It needs the right to set the project's policy."
  type        = bool
  default     = false
  nullable    = false
}

variable "domain" {
  description = "Your own domain for the functions for people, such as api.example.com: creates a load balancer, which costs money while idle. If null, there is none."
  type        = string
  default     = null
  validation {
    condition     = var.domain == null || can(regex("^([a-z0-9]([a-z0-9-]*[a-z0-9])?\\.)+[a-z]{2,}$", var.domain))
    error_message = "domain is a name such as api.example.com, without https:// and path."
  }
}

variable "examples" {
  description = "Also deploy the kit's examples."
  type        = bool
  default     = false
  nullable    = false
}

variable "objectives" {
  description = "Watch objectives: 99.9 % of waits within a second, 99 % of grants within 10 s, 99 % of copies within a minute. It is for functions in steady use: at a few calls a day, each cold start counts."
  type        = bool
  default     = false
  nullable    = false
}

variable "domain_only" {
  description = "Let people call the functions through `domain` only: Google refuses calls to their own addresses from outside the project. Turn it on once the domain answers."
  type        = bool
  default     = false
  nullable    = false
  validation {
    condition     = !var.domain_only || var.domain != null
    error_message = "domain_only needs domain: without it nobody could call the functions for people. Set domain, deploy, and turn it on once the domain answers."
  }
}
