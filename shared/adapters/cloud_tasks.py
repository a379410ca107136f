"""The task queue on Cloud Tasks: an effect becomes a named task that POSTs an envelope to a function.

A task has its effect's name, and Cloud Tasks accepts a name once: "already exists" means enqueued, so a retry is always
safe. A transient error is `Unavailable`. A permanent one (no such queue, no permission) is logged as an ERROR, since no
caller can correct it, and raised as the `Problem` `QueueRefused`.

Google's client is imported with the first task: functions that enqueue none start 30 ms sooner.
"""

import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions as google
from google.auth.exceptions import GoogleAuthError

from shared.adapters.http.json_text import render
from shared.adapters.logs import current_trace
from shared.adapters.settings import Settings
from shared.core.operations.ports import Log
from shared.core.rules.effects import Effect
from shared.core.rules.problems import Problem, Unavailable
from shared.core.rules.task_envelope import TaskEnvelope

if TYPE_CHECKING:
    from google.cloud.tasks_v2 import CloudTasksClient

CREATE_SECONDS_MAX = 10.0
"""Timeout of one attempt. A named task takes some ten milliseconds; a caller should not wait longer than this."""

RETRY_PAUSES_SECONDS = (0.05, 0.25)
"""Before a second and a third attempt while the service is unavailable: enough to replace a closed connection."""

DISPATCH_SECONDS_MAX = 600
"""For a function to respond to a task: Cloud Tasks' default, explicit because a redelivery begins when it ends."""

AT_ONCE_MAX = 16
"""Concurrent create calls of one process. The hundred tasks of an outbox record take a few rounds."""

REFUSALS = (
    google.InvalidArgument,
    google.NotFound,
    google.PermissionDenied,
    google.Unauthenticated,
    google.FailedPrecondition,
    google.MethodNotImplemented,
)


class QueueRefused(Problem):
    status = 500
    title = "The deployment cannot enqueue tasks"


class CloudTasksQueue:
    """`TaskQueue` on Cloud Tasks or its local emulator. Thread-safe."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="cloud-tasks")
        self._connecting = threading.Lock()
        self._connected: CloudTasksClient | None = None

    def create(self, effects: Sequence[Effect]) -> None:
        """Enqueue all, even when one fails. Raises `Unavailable` if any may be missing, else `QueueRefused`."""
        trace = current_trace()
        requests = [task_request(self._settings, effect, effect.trace or trace) for effect in effects]
        outcomes = map(self._attempt, requests) if len(requests) < 2 else self._pool.map(self._attempt, requests)
        self._raise_for([error for error in outcomes if error is not None])

    def _raise_for(self, errors: list[Exception]) -> None:
        refusals = [error for error in errors if isinstance(error, REFUSALS)]
        for refusal in refusals:
            self._log.error("task refused", reason=str(refusal))
        if len(refusals) < len(errors):
            unknown = next(error for error in errors if error not in refusals)
            raise Unavailable("Cloud Tasks did not confirm a task") from unknown
        if refusals:
            raise QueueRefused("Cloud Tasks refused a task; the log says why") from refusals[0]

    def _attempt(self, request: dict[str, Any]) -> Exception | None:
        try:
            self._send(request)
        except google.AlreadyExists:
            return None
        except (google.GoogleAPIError, GoogleAuthError) as error:
            return error
        return None

    def _send(self, request: dict[str, Any]) -> None:
        for pause_seconds in RETRY_PAUSES_SECONDS:
            try:
                return self._create(request)
            except google.ServiceUnavailable:
                time.sleep(pause_seconds)
        return self._create(request)

    def _create(self, request: dict[str, Any]) -> None:
        self._client.create_task(request=request, timeout=CREATE_SECONDS_MAX, retry=None)

    @property
    def _client(self) -> "CloudTasksClient":
        with self._connecting:
            if self._connected is None:
                self._connected = _connect(self._settings.tasks_emulator)
            return self._connected


def task_request(settings: Settings, effect: Effect, trace: str) -> dict[str, Any]:
    """Return the request that creates the task of an effect."""
    queue = f"projects/{settings.project}/locations/{settings.location}/queues/{settings.queue_prefix}{effect.queue}"
    task: dict[str, Any] = {
        "name": f"{queue}/tasks/{effect.name}",
        "http_request": _http_request(settings, effect, trace),
        "dispatch_deadline": {"seconds": DISPATCH_SECONDS_MAX},
    }
    if effect.not_before is not None:
        task["schedule_time"] = effect.not_before
    return {"parent": queue, "task": task}


def _http_request(settings: Settings, effect: Effect, trace: str) -> dict[str, Any]:
    address = settings.address_of(effect.function)
    request: dict[str, Any] = {
        "url": address + effect.path,
        "http_method": "POST",
        "headers": {"Content-Type": "application/json"} | ({"traceparent": trace} if trace else {}),
        "body": render(TaskEnvelope.of(effect).to_json()),
    }
    if settings.tasks_account:
        request["oidc_token"] = {"service_account_email": settings.tasks_account, "audience": address}
    return request


def _connect(emulator: str) -> "CloudTasksClient":
    from google.cloud.tasks_v2 import CloudTasksClient

    if not emulator:
        return CloudTasksClient()
    import grpc
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    # By default gRPC waits up to two minutes before it reconnects to an emulator that was restarted.
    channel = grpc.insecure_channel(emulator, [("grpc.max_reconnect_backoff_ms", 500)])
    return CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
