"""The labels of a run, by which lists find it."""

import re
from collections.abc import Mapping
from typing import Any

from signalbox.flows.limits import LIMITS
from signalbox.flows.problems import BadFlow, check_text, refuse_text, utf8_bytes

LABEL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")

LABEL = re.compile(f"^{LABEL_NAME.pattern}:.+$")
"""A label in a request that chooses runs."""

LABELS: Mapping[str, Any] = {
    "maxProperties": LIMITS.flow_labels_max,
    "propertyNames": {"pattern": f"^{LABEL_NAME.pattern}$"},
    "additionalProperties": {"type": "string", "minLength": 1, "maxLength": LIMITS.flow_label_bytes_max},
    "examples": [{"tenant": "a"}],
}
"""The schema of the labels of a run."""


def checked_labels(labels: Any) -> dict[str, str]:
    """Return the labels of a start. Raises `BadFlow`."""
    if not isinstance(labels, Mapping) or len(labels) > LIMITS.flow_labels_max:
        detail = f"`labels` must be an object with at most {LIMITS.flow_labels_max} members, whose values are strings."
        raise BadFlow(detail, field="labels")
    for name, value in labels.items():
        check_label(name, value)
    return dict(labels)


def check_label(name: Any, value: Any) -> None:
    """Raise `BadFlow` unless these can be a label's name and value."""
    if not isinstance(name, str) or not LABEL_NAME.fullmatch(name):
        detail = f"The name of a label must match {LABEL_NAME.pattern}; {name!r:.80} does not."
        refuse_text("" if utf8_bytes(name) else name, detail, "labels")
    check_text(value, f"The label {name!r}", LIMITS.flow_label_bytes_max, "labels")


def label_entry(name: str, value: str, state: str = "") -> str:
    """Return a label in the form that listings contain and queries compare: alone, or with the run's state."""
    return f"{state} {name}:{value}" if state else f"{name}:{value}"


NO_LABELS: Mapping[str, str] = {}
