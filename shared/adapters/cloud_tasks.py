"""The task queue on Cloud Tasks: an effect becomes a named task that POSTs an envelope to a function.

A task has its effect's name, and Cloud Tasks accepts a name once: "already exists" means enqueued, so a retry is always
safe. An error is sorted by what is wrong:

    the service      `EnqueueUnconfirmed`: transient
    the installation `DeploymentCannotEnqueue`: no such queue, no permission. Transient too, since a right may lag
                     behind a deployment, and logged as an ERROR, since no caller can correct it
    the task itself  `QueueRefused`, a `Problem`, logged as an ERROR: the same request would fail again

Google's client is imported with the first task: functions that enqueue none start 30 ms sooner.
"""

import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from google.api_core import exceptions as google
from google.auth.exceptions import GoogleAuthError

from shared.adapters.http.json_text import render
from shared.adapters.logs import current_trace
from shared.adapters.settings import Settings
from shared.core.operations.ports import Log
from shared.core.rules.effects import Effect
from shared.core.rules.problems import DeploymentCannotEnqueue, EnqueueUnconfirmed, PartlyEnqueued, Problem
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

OF_THE_INSTALLATION = (
    google.NotFound,
    google.PermissionDenied,
    google.Unauthenticated,
    google.FailedPrecondition,
    google.MethodNotImplemented,
)
"""What a deployment or a right corrects, or has corrected by the next attempt."""

OF_THE_TASK = (google.InvalidArgument,)


class QueueRefused(PartlyEnqueued, Problem):
    status = 500
    title = "Cloud Tasks does not accept the task"


def raise_for(outcomes: Mapping[str, Exception | None], log: Log) -> None:
    """Log the errors among the outcomes of tasks, by their names, and raise unless all are enqueued.

    Raises `DeploymentCannotEnqueue`, else `EnqueueUnconfirmed`, else `QueueRefused`, the last only if nothing else is
    wrong: whoever gets it does not retry. Each names the tasks that are enqueued.
    """
    errors = [error for error in outcomes.values() if error is not None]
    if errors:
        _log(errors, log)
        enqueued = [name for name, error in outcomes.items() if error is None]
        decisive = min(errors, key=_rank)
        raise RAISED[_rank(decisive)]("Cloud Tasks did not take a task; the log may say why", enqueued) from decisive


RAISED = (DeploymentCannotEnqueue, EnqueueUnconfirmed, QueueRefused)


def _rank(error: Exception) -> int:
    """Return 0 for an error of the installation, 1 for one of the service, 2 for one of the task."""
    if isinstance(error, OF_THE_INSTALLATION):
        return 0
    return 2 if isinstance(error, OF_THE_TASK) else 1


def _log(errors: Sequence[Exception], log: Log) -> None:
    for error in errors:
        if isinstance(error, OF_THE_INSTALLATION):
            log.error("deployment cannot enqueue", reason=str(error))
        elif isinstance(error, OF_THE_TASK):
            log.error("task refused", reason=str(error))


class CloudTasksQueue:
    """`TaskQueue` on Cloud Tasks or its local emulator. Thread-safe."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="cloud-tasks")
        self._connecting = threading.Lock()
        self._connected: CloudTasksClient | None = None

    def create(self, effects: Sequence[Effect]) -> None:
        """Enqueue all, even when one fails. Raises as `raise_for`."""
        trace = current_trace()
        requests = [task_request(self._settings, effect, effect.trace or trace) for effect in effects]
        outcomes = map(self._attempt, requests) if len(requests) < 2 else self._pool.map(self._attempt, requests)
        raise_for(dict(zip((effect.name for effect in effects), outcomes, strict=True)), self._log)

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
    if account := settings.account_of(effect.queue):
        request["oidc_token"] = {"service_account_email": account, "audience": address}
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
