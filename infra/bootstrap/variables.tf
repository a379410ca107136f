variable "project_id" {
  description = "Google Cloud project to prepare."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{4,28}[a-z0-9]$", var.project_id))
    error_message = "project_id is a project's id, not its name or number: 6 to 30 lower case letters, digits and hyphens. See `gcloud projects list`."
  }
}

variable "region" {
  description = "Region of the provider; `signalbox bootstrap` creates the bucket for the states there."
  type        = string
  default     = "us-central1"
  validation {
    condition     = can(regex("^[a-z]+-[a-z]+[0-9]+$", var.region))
    error_message = "region is a region such as us-central1, not a zone."
  }
}

variable "github_repository" {
  description = "Repository on GitHub, as OWNER/NAME, whose Actions may deploy from main, in the environment signalbox, and plan from everywhere. If null, none may."
  type        = string
  default     = null
  validation {
    condition     = var.github_repository == null || can(regex("^[A-Za-z0-9-]+/[A-Za-z0-9._-]+$", var.github_repository))
    error_message = "github_repository is OWNER/NAME, as in the repository's address, without https://github.com/."
  }
}

variable "github_repository_id" {
  description = "Number of that repository, which never belongs to another one."
  type        = string
  default     = null
  validation {
    condition     = (var.github_repository_id == null) == (var.github_repository == null)
    error_message = "github_repository needs github_repository_id, and the other way round: gh api repos/OWNER/NAME --jq .id"
  }
  validation {
    condition     = can(regex("^[0-9]+$", coalesce(var.github_repository_id, "0")))
    error_message = "github_repository_id is the repository's number: gh api repos/OWNER/NAME --jq .id"
  }
}

variable "billing_account" {
  description = "Billing account of the project, as XXXXXX-XXXXXX-XXXXXX, for a budget that warns. If null, there is no budget."
  type        = string
  default     = null
  validation {
    condition     = var.billing_account == null || can(regex("^[0-9A-F]{6}(-[0-9A-F]{6}){2}$", var.billing_account))
    error_message = "billing_account is an id such as 0123AB-CDEF01-234567. See `gcloud billing accounts list`."
  }
}

variable "budget" {
  description = "Whole units of the billing account's currency a month: the budget warns at 50, 90 and 100 %, and when the forecast reaches it."
  type        = number
  default     = 50
  nullable    = false
  validation {
    condition     = var.budget >= 1 && floor(var.budget) == var.budget
    error_message = "budget is a whole number of the billing account's currency, at least 1."
  }
}

variable "budget_channels" {
  description = "Ids of Cloud Monitoring's channels that the budget's warnings are also sent to, as projects/…/notificationChannels/…: at most five. The billing account's administrators always receive them."
  type        = list(string)
  default     = []
  nullable    = false
  validation {
    condition     = length(var.budget_channels) <= 5 && alltrue([for channel in var.budget_channels : can(regex("^projects/[^/]+/notificationChannels/[0-9]+$", channel))])
    error_message = "budget_channels are at most five ids such as projects/my-project/notificationChannels/123. See `gcloud beta monitoring channels list`."
  }
}
