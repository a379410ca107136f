"""Functions that the routes and the tasks of objects and flows share."""

from typing import Annotated

from signalbox.adapters.http.route_declarations import Parameter
from signalbox.adapters.http.routes import Request
from signalbox.core.deliveries import Delivered, Members
from signalbox.core.problems import BadQuery
from signalbox.core.surface.field_rules import Seconds
from signalbox.core.wake_ups import WakeUp
from signalbox.mailboxes.limits import LIMITS
from signalbox.mailboxes.model.messages import Delivery

SECONDS = Annotated[float, Seconds(LIMITS.call_wait_seconds_max, zero=True)]

WAIT_SECONDS = Parameter("wait_seconds", SECONDS, "How long to wait for the end.", default=0)
WAIT_SECONDS_OF_CALL = Parameter(
    "wait_seconds", SECONDS, "How long to wait for the outcome, before the answer is 202.", LIMITS.call_wait_seconds_max
)
"""The parameter that `wait_seconds` reads by default: the time to wait for the outcome of a call."""


def delivery_of(delivered: Delivered[Members]) -> Delivery:
    """Return the delivery of a wake-up. Raises `BadTaskEnvelope`."""
    earlier = max(delivered.executions, delivered.retries)  # a delivery that was answered can count in both
    return Delivery(WakeUp.from_payload(delivered.payload), delivered.operation, earlier)


def wait_seconds(request: Request, default: float = LIMITS.call_wait_seconds_max) -> float:
    """Return the query parameter `wait_seconds`. Raises `BadQuery`."""
    given = request.query.get("wait_seconds")
    try:
        seconds = default if given is None else float(given)
    except ValueError as error:
        raise BadQuery("`wait_seconds` must be a number.", field="wait_seconds") from error
    if not 0 <= seconds <= LIMITS.call_wait_seconds_max:
        raise BadQuery(f"`wait_seconds` must be 0 to {LIMITS.call_wait_seconds_max}.", field="wait_seconds")
    return seconds
