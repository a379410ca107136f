# Your own address, if `domain` is set: a load balancer in front of the functions for people. docs/custom-domain.md.

locals {
  domain    = var.domain == null ? {} : { domain = var.domain }
  on_domain = { for name, row in local.deployments : name => row if row.people && var.domain != null }
  balancer  = "${local.name_prefix}signalbox"
}

resource "google_compute_global_address" "domain" {
  for_each = local.domain
  name     = local.balancer
}

resource "google_compute_region_network_endpoint_group" "function" {
  for_each              = local.on_domain
  name                  = each.value.service
  region                = var.region
  network_endpoint_type = "SERVERLESS"
  cloud_run {
    service = module.function[each.key].name
  }
}

resource "google_compute_backend_service" "function" {
  for_each              = local.on_domain
  name                  = each.value.service
  load_balancing_scheme = "EXTERNAL_MANAGED"
  backend {
    group = google_compute_region_network_endpoint_group.function[each.key].id
  }
}

# A function receives the path after its name, as at its own address. Every other path is answered with 404.
resource "google_compute_url_map" "domain" {
  for_each        = local.domain
  name            = local.balancer
  default_service = google_compute_backend_service.function["documents"].id
  host_rule {
    hosts        = [each.value]
    path_matcher = "functions"
  }
  path_matcher {
    name            = "functions"
    default_service = google_compute_backend_service.function["documents"].id
    default_route_action {
      fault_injection_policy {
        abort {
          http_status = 404
          percentage  = 100
        }
      }
    }
    dynamic "path_rule" {
      for_each = local.on_domain
      content {
        paths   = ["/${path_rule.value.segment}", "/${path_rule.value.segment}/*"]
        service = google_compute_backend_service.function[path_rule.key].id
        route_action {
          url_rewrite {
            path_prefix_rewrite = "/"
          }
        }
      }
    }
  }
}

# A certificate cannot be changed. For another domain, one with another name is created first, and the old one is deleted
# when it is no longer in use.
resource "google_compute_managed_ssl_certificate" "domain" {
  for_each = local.domain
  name     = "${local.balancer}-${substr(sha256(each.value), 0, 8)}"
  managed {
    domains = [each.value]
  }
  lifecycle {
    create_before_destroy = true
  }
}

resource "google_compute_target_https_proxy" "domain" {
  for_each         = local.domain
  name             = local.balancer
  url_map          = google_compute_url_map.domain[each.key].id
  ssl_certificates = [google_compute_managed_ssl_certificate.domain[each.key].id]
}

resource "google_compute_global_forwarding_rule" "domain" {
  for_each              = local.domain
  name                  = local.balancer
  target                = google_compute_target_https_proxy.domain[each.key].id
  ip_address            = google_compute_global_address.domain[each.key].id
  port_range            = "443"
  load_balancing_scheme = "EXTERNAL_MANAGED"
}

# Google renews the certificate a month before it expires, as long as the domain's record names the address. A path that does
# not begin with a function's name is answered with 404, without a call of a function.
resource "google_monitoring_uptime_check_config" "domain" {
  for_each     = local.domain
  display_name = "${local.name_prefix}signalbox: ${each.value}"
  period       = "900s"
  timeout      = "10s"
  http_check {
    path         = "/"
    port         = 443
    use_ssl      = true
    validate_ssl = true
    accepted_response_status_codes {
      status_value = 404
    }
  }
  monitored_resource {
    type = "uptime_url"
    labels = {
      project_id = var.project_id
      host       = each.value
    }
  }
}

resource "google_monitoring_alert_policy" "certificate" {
  for_each              = local.domain
  display_name          = "${local.name_prefix}signalbox: The certificate ends soon"
  severity              = "WARNING"
  combiner              = "OR"
  notification_channels = local.channels
  conditions {
    display_name = "The certificate ends soon"
    condition_threshold {
      filter          = "resource.type=\"uptime_url\" AND metric.type=\"monitoring.googleapis.com/uptime_check/time_until_ssl_cert_expires\" AND metric.labels.check_id=\"${google_monitoring_uptime_check_config.domain[each.key].uptime_check_id}\""
      comparison      = "COMPARISON_LT"
      threshold_value = 15 # days
      duration        = "600s"
      aggregations {
        alignment_period     = "1200s"
        per_series_aligner   = "ALIGN_NEXT_OLDER"
        cross_series_reducer = "REDUCE_MEAN"
        group_by_fields      = ["resource.label.host"]
      }
    }
  }
  documentation {
    subject   = "${local.name_prefix}signalbox: The certificate ends soon"
    mime_type = "text/markdown"
    content   = format(local.runbook, "The certificate ends soon", "smoke")
  }
}
