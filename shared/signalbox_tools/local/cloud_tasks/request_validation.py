"""Validate names, queues and tasks, and fill in the defaults of Cloud Tasks.

Limits are Cloud Tasks' own. Where its documentation is ambiguous (is 1 MB a million bytes?), the stricter
interpretation applies, so that the cloud accepts whatever is accepted here.
"""

import math
import re
from datetime import UTC, datetime
from urllib.parse import urlsplit

from signalbox.adapters.cloud_tasks_types import target
from signalbox_tools.local.cloud_tasks.api_errors import invalid_argument, unimplemented
from signalbox_tools.local.cloud_tasks.protobuf_messages import RUNNING, Message, seconds_of, set_seconds

QUEUE_FORMAT = "projects/<PROJECT_ID>/locations/<LOCATION_ID>/queues/<QUEUE_ID>"
PLACE = r"projects/[A-Za-z0-9][A-Za-z0-9.:-]*/locations/[A-Za-z0-9-]+"
PLACE_NAME = re.compile(PLACE)
QUEUE_NAME = re.compile(PLACE + r"/queues/[A-Za-z0-9-]{1,100}")
TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,500}")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
NOT_IN_URL = re.compile(r"[\x00-\x20\x7f]")
METHODS = {int(method): name for name, method in target.HttpMethod.__members__.items()}
WITH_BODY = frozenset({"POST", "PUT", "PATCH"})

TASK_BYTES_MAX = 1_000_000
HEADERS_BYTES_MAX = 80 * 1000
URL_CHARACTERS_MAX = 2083
SCHEDULE_SECONDS_MAX = 30 * 24 * 3600
DEADLINE_SECONDS = (15, 30 * 60)
DEADLINE_SECONDS_DEFAULT = 10 * 60
DURATION_SECONDS_MAX = 315_576_000_000
"""The longest `google.protobuf.Duration`; a longer one has no form in JSON."""

RATE_DEFAULT, RATE_MAX = 500.0, 500.0
CONCURRENT_DEFAULT, CONCURRENT_MAX = 1000, 5000
ATTEMPTS_DEFAULT, DOUBLINGS_DEFAULT = 100, 16
BACKOFF_MIN_SECONDS_DEFAULT, BACKOFF_MAX_SECONDS_DEFAULT = 0.1, 3600

OUTPUT_ONLY = ("create_time", "dispatch_count", "response_count", "first_attempt", "last_attempt", "view")


def validate_queue(queue: Message) -> None:
    """Validate a queue and fill in the defaults; it is running unless it has a state."""
    if not QUEUE_NAME.fullmatch(queue.name):
        raise invalid_argument(f'Queue name must be formatted: "{QUEUE_FORMAT}"')
    if queue.HasField("http_target") or queue.HasField("app_engine_routing_override"):
        raise unimplemented("a queue that overrides its tasks' targets")
    _validate_rates(queue.rate_limits)
    validate_retries(queue.retry_config)
    queue.state = queue.state or RUNNING


def _validate_rates(limits: Message) -> None:
    limits.max_dispatches_per_second = limits.max_dispatches_per_second or RATE_DEFAULT
    limits.max_concurrent_dispatches = limits.max_concurrent_dispatches or CONCURRENT_DEFAULT
    if not 0 < limits.max_dispatches_per_second <= RATE_MAX:
        raise invalid_argument(f"Queue.rateLimits.maxDispatchesPerSecond must be in (0, {RATE_MAX:g}]")
    if not 0 < limits.max_concurrent_dispatches <= CONCURRENT_MAX:
        raise invalid_argument(f"Queue.rateLimits.maxConcurrentDispatches must be in [1, {CONCURRENT_MAX}]")
    limits.max_burst_size = math.ceil(limits.max_dispatches_per_second)


def validate_retries(config: Message) -> None:
    """Validate a retry configuration, of a queue or of one task, and fill in the defaults."""
    config.max_attempts = config.max_attempts or ATTEMPTS_DEFAULT
    config.max_doublings = config.max_doublings or DOUBLINGS_DEFAULT
    for duration, seconds in (
        (config.min_backoff, BACKOFF_MIN_SECONDS_DEFAULT),
        (config.max_backoff, BACKOFF_MAX_SECONDS_DEFAULT),
    ):
        if not seconds_of(duration):
            set_seconds(duration, seconds)
    for duration in (config.min_backoff, config.max_backoff, config.max_retry_duration):
        if not 0 <= seconds_of(duration) <= DURATION_SECONDS_MAX:
            raise invalid_argument("RetryConfig has a duration that is negative or too long")
    if config.max_attempts < -1 or config.max_doublings < 0:
        raise invalid_argument("RetryConfig.maxAttempts must be at least -1, RetryConfig.maxDoublings at least 0")
    if not 0 < seconds_of(config.min_backoff) <= seconds_of(config.max_backoff):
        raise invalid_argument("RetryConfig.minBackoff must be positive and at most RetryConfig.maxBackoff")


def validate_task(task: Message, queue_name: str, now: float) -> None:
    """Validate a task to create and fill in the defaults. Its name may be empty."""
    if task.name:
        _check_task_name(task.name, queue_name)
    for name in OUTPUT_ONLY:
        task.ClearField(name)
    _validate_request(task)
    _validate_times(task, now)
    if task.HasField("retry_config"):
        validate_retries(task.retry_config)
    if task.ByteSize() > TASK_BYTES_MAX:
        raise invalid_argument("Task size too large")


def _check_task_name(name: str, queue_name: str) -> None:
    parent, separator, task_id = name.rpartition("/tasks/")
    if not separator or not QUEUE_NAME.fullmatch(parent):
        raise invalid_argument(f'Task name must be formatted: "{QUEUE_FORMAT}/tasks/<TASK_ID>"')
    if parent != queue_name:
        raise invalid_argument(
            f'The queue name from request ("{queue_name}") must be the same as that of the named task ("{name}").'
        )
    if not TASK_ID.fullmatch(task_id):
        raise invalid_argument(
            "Task ID must be 1 to 500 letters ([A-Za-z]), numbers ([0-9]), hyphens (-) or underscores (_)."
        )


def _validate_request(task: Message) -> None:
    if task.HasField("app_engine_http_request"):
        raise unimplemented("App Engine tasks")
    request = task.http_request
    request.http_method = request.http_method or int(target.HttpMethod.POST)
    if not request.url.startswith(("http://", "https://")):
        raise invalid_argument("HttpRequest.url is required and must start with 'http://' or 'https://'")
    _check_url(request.url)
    method = METHODS.get(request.http_method)
    if method is None:
        raise invalid_argument(f"HttpRequest.httpMethod must be one of {', '.join(METHODS.values())}")
    if request.body and method not in WITH_BODY:
        raise invalid_argument(f"HTTP body is not allowed for HTTP method {method}.")
    if request.HasField("oauth_token"):
        raise unimplemented("OAuth access tokens; use an OIDC token")
    if request.HasField("oidc_token") and not request.oidc_token.service_account_email:
        raise invalid_argument("HttpRequest.oidcToken.serviceAccountEmail is required")
    _check_headers(request.headers)


def _check_url(url: str) -> None:
    if len(url) > URL_CHARACTERS_MAX:
        raise invalid_argument(f"HttpRequest.url must be at most {URL_CHARACTERS_MAX} characters")
    try:
        parts = urlsplit(url)
        valid = bool(parts.hostname) and parts.port != 0 and not NOT_IN_URL.search(url)
    except ValueError:
        valid = False
    if not valid:
        raise invalid_argument(f"HttpRequest.url is not a valid address: {url!r}")


def _check_headers(headers: Message) -> None:
    if sum(len(name) + len(value) for name, value in headers.items()) > HEADERS_BYTES_MAX:
        raise invalid_argument("HttpRequest.headers must be less than 80KB")
    for name, value in headers.items():
        if not HEADER_NAME.fullmatch(name) or not HEADER_VALUE.fullmatch(value):
            raise invalid_argument(f"HttpRequest.headers has an invalid header: {name!r}")


def _validate_times(task: Message, now: float) -> None:
    due_at = seconds_of(task.schedule_time)
    if due_at > now + SCHEDULE_SECONDS_MAX:
        raise invalid_argument(
            f"The Task.scheduleTime, {_shown_time(due_at)}, is too far in the future. "
            "Schedule time must be no more than 720h in the future."
        )
    set_seconds(task.schedule_time, max(due_at, now))
    set_seconds(task.create_time, int(now))
    deadline = seconds_of(task.dispatch_deadline) or DEADLINE_SECONDS_DEFAULT
    if not DEADLINE_SECONDS[0] <= deadline <= DEADLINE_SECONDS[1]:
        raise invalid_argument("Task.dispatchDeadline must be between [15s, 30m].")
    set_seconds(task.dispatch_deadline, deadline)


def _shown_time(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (ValueError, OverflowError, OSError):  # after the year 9999
        return f"{at:.0f} s after 1970"
