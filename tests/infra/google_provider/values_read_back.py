"""The values that services return for a resource: in their own form, without zeros, and with values that they add.

A value that the provider treats as equal (it suppresses the difference) is returned unchanged. Any other difference
appears as a change in the next plan, as it would in the cloud. The sources: terraform-provider-google#7242 and #16173
(zeros of a dashboard), Cloud Tasks' reference (durations), Cloud Functions' reference (LOG_EXECUTION_ID, labels).
"""

import copy
import json
from collections.abc import Callable
from typing import Any

from tests.infra.google_provider.resource_values import Value

ADDED_LABELS = {"goog-terraform-provisioned": "true"}
FUNCTION_LABELS = ADDED_LABELS | {"goog-managed-by": "cloudfunctions"}
ADDED_VARIABLES = {"LOG_EXECUTION_ID": "true"}
"""Google's own variables of a function: the provider suppresses the difference, so a plan must keep them."""


def read(kind: str, value: Value) -> Value:
    """Return a resource as a read of it shows it."""
    made = copy.deepcopy(value)
    if isinstance(made.get("effective_labels"), dict):
        added = FUNCTION_LABELS if kind == "google_cloudfunctions2_function" else ADDED_LABELS
        made["effective_labels"] = made["effective_labels"] | added
    if kind in READS:
        READS[kind](made)
    return made


def kept(kind: str, before: Value, after: Value) -> None:
    """Keep in a plan what the provider suppresses the difference of."""
    if kind != "google_cloudfunctions2_function":
        return
    for old, new in zip(before["service_config"], after["service_config"], strict=False):
        own = {name: each for name, each in (old["environment_variables"] or {}).items() if name in ADDED_VARIABLES}
        if isinstance(new["environment_variables"], dict):
            new["environment_variables"] = new["environment_variables"] | own


def seconds(duration: str) -> str:
    """Return a duration as Google writes it: whole seconds, or three, six or nine decimals."""
    whole, _, fraction = duration.removesuffix("s").partition(".")
    fraction = fraction.rstrip("0")
    digits = -(-len(fraction) // 3) * 3
    return f"{whole}.{fraction.ljust(digits, '0')}s" if fraction else f"{whole}s"


def without_zeros(value: Any) -> Any:
    """Return JSON without what Google leaves out: zeros, false, and empty texts, objects and lists."""
    if isinstance(value, dict):
        found = {name: without_zeros(each) for name, each in value.items()}
        return {name: each for name, each in found.items() if each not in (0, False, "", {}, [])}
    return [without_zeros(each) for each in value] if isinstance(value, list) else value


def _queue(value: Value) -> None:
    for block in value["retry_config"]:
        for name in ("min_backoff", "max_backoff", "max_retry_duration"):
            if isinstance(block.get(name), str) and block[name]:
                block[name] = seconds(block[name])


def _dashboard(value: Value) -> None:
    given = json.loads(value["dashboard_json"])
    if without_zeros(given) != given:
        value["dashboard_json"] = json.dumps(without_zeros(given))


def _function(value: Value) -> None:
    for block in value["service_config"]:
        block["environment_variables"] = (block["environment_variables"] or {}) | ADDED_VARIABLES


READS: dict[str, Callable[[Value], None]] = {
    "google_cloud_tasks_queue": _queue,
    "google_cloudfunctions2_function": _function,
    "google_monitoring_dashboard": _dashboard,
}
