"""The limits of payloads, each with its reason."""

from signalbox.core.limits import Limits


class PayloadLimits(Limits):
    payload_collected_seconds: float = 24 * 3600
    """The age below which the collector deletes no payload: a process that has stored it may still commit its name."""

    payload_walk_seconds: float = 7 * 24 * 3600
    """The time between two walks of the collector, each of which lists all payloads."""

    payload_page: int = 1_000
    """Payloads that one request of a walk or of a removal lists, as many as Cloud Storage returns."""

    payload_removals_page: int = 100
    """Removals of places that one sweep reads."""

    payload_task_seconds: float = 130 * 24 * 3600
    """The time for which a payload is kept that only tasks of a month name: 31 days until the last of them, 31 of its
    deliveries, 30 for which the failure is kept, and 31 of deliveries of its retry."""


LIMITS = PayloadLimits()
