variable "name" {
  description = "Name of the function in the cloud."
  type        = string
}

variable "entry_point" {
  description = "Name of the function in main.py."
  type        = string
}

variable "account" {
  description = "Address of the account that the function runs as."
  type        = string
}

variable "region" {
  description = "Region of the function."
  type        = string
}

variable "database" {
  description = "The database whose events a trigger listens to."
  type        = string
}

variable "environment" {
  description = "Environment variables, in addition to those derived from the resources."
  type        = map(string)
}

variable "resources" {
  description = "Resources of an instance, and the runtime."
  type = object({
    memory          = string
    cpu             = number
    concurrency     = number
    timeout_seconds = number
    instances_max   = number
    instances_min   = number
    runtime         = string
  })
}

variable "project_id" {
  description = "The project, whose Secret Manager has the secrets."
  type        = string
}

variable "secrets" {
  description = "The secret and its version by the environment variable that has its value."
  type        = map(object({ secret = string, version = string }))
}

variable "ingress" {
  description = "The allowed origins of calls. ALLOW_INTERNAL_ONLY: Cloud Tasks, Cloud Scheduler, Eventarc and the project's networks; ALLOW_INTERNAL_AND_GCLB: these and a load balancer; ALLOW_ALL."
  type        = string
}

variable "invokers" {
  description = "IAM members that may call the function, by a key that is known before they exist."
  type        = map(string)
}

variable "trigger" {
  description = "Firestore's event that invokes the function, and the account of the invocation, or null."
  type = object({
    type     = string
    region   = string
    document = string
    account  = string
  })
}

variable "source_bucket" {
  description = "Bucket for the zip."
  type        = string
}

variable "source_zip" {
  description = "The zip's path on this machine."
  type        = string
}

variable "build_account" {
  description = "Resource name of the account that builds."
  type        = string
}

variable "repository" {
  description = "Resource name of the repository for images."
  type        = string
}

variable "ready" {
  description = "Values that are known once the function may be built and run: its rights have taken effect, and its data is there."
  type        = list(string)
}

variable "vpc" {
  description = "Network that the function's connections leave through, by name: for private addresses or for all. If null, there is none."
  type = object({
    network    = string
    subnetwork = string
    egress     = string
  })
}
