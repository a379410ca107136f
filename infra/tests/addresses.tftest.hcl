# What people and queues call, by the variables: planned only, nothing is made.

variables {
  project_id  = "demo-project"
  environment = "dev"
  alert_email = "ops@example.com"
}

run "without_a_prefix" {
  command = plan
  assert {
    condition     = output.base_url == "https://us-central1-demo-project.cloudfunctions.net/"
    error_message = "people's addresses begin with ${output.base_url}"
  }
  assert {
    condition     = output.urls["semaphore_wait"] == "https://us-central1-demo-project.cloudfunctions.net/semaphore-wait"
    error_message = "semaphore_wait is at ${output.urls["semaphore_wait"]}"
  }
  assert {
    condition     = output.database == "signalbox-dev"
    error_message = "the database is ${output.database}"
  }
}

run "with_a_prefix" {
  command = plan
  variables {
    prefix = "blue"
    region = "europe-west1"
  }
  assert {
    condition     = output.urls["documents"] == "https://europe-west1-demo-project.cloudfunctions.net/blue-documents"
    error_message = "documents is at ${output.urls["documents"]}"
  }
  assert {
    condition     = local.function_url == "https://blue-{function}-${data.google_project.this.number}.europe-west1.run.app"
    error_message = "queues call ${local.function_url}"
  }
  assert {
    condition     = google_cloud_tasks_queue.queue["tasks"].name == "blue-tasks"
    error_message = "the queue is ${google_cloud_tasks_queue.queue["tasks"].name}"
  }
  assert {
    condition     = !contains(keys(output.urls), "link_fan_out")
    error_message = "link_fan_out is for events only, and has an address for people"
  }
  assert {
    condition     = google_cloud_scheduler_job.schedule["sweep"].http_target[0].uri == "${google_cloud_scheduler_job.schedule["sweep"].http_target[0].oidc_token[0].audience}/"
    error_message = "the audience must be the function's address without a path"
  }
}
