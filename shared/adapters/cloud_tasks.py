"""The task queue on Cloud Tasks: an effect becomes a named task that POSTs an envelope to a function.

A task's name is the effect's, and Cloud Tasks takes a name once: "already exists" means handed over, so repeating is
always safe. What failed for now is `Unavailable`; what would fail again (no such queue, no right to use it) is logged
as an error, since no caller can mend it, and raised as the `Problem` `QueueRefused`.

Google's client is imported with the first task: functions that send none start 30 ms sooner.
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

if TYPE_CHECKING:
    from google.cloud.tasks_v2 import CloudTasksClient

CREATE_SECONDS_MAX = 10.0
"""For one attempt. A named task takes some ten milliseconds; whoever waits longer had better hear "ask again"."""

RETRY_PAUSES_SECONDS = (0.05, 0.25)
"""Before a second and a third attempt when the service is away: enough for a connection that was just closed."""

DISPATCH_SECONDS_MAX = 600
"""For a function to answer a task: Cloud Tasks' own default, said because a redelivery begins when it is over."""

AT_ONCE_MAX = 16
"""Tasks handed over at the same time by one process. An outbox record's hundred take a handful of rounds."""

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
    title = "The deployment cannot hand over tasks"


class CloudTasksQueue:
    """`TaskQueue` on Cloud Tasks or its local stand-in. Safe to use from many threads."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self._settings = settings
        self._log = log
        self._pool = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="cloud-tasks")
        self._connecting = threading.Lock()
        self._connected: CloudTasksClient | None = None

    def create(self, effects: Sequence[Effect]) -> None:
        """Hand over all, also when one fails. Raises `Unavailable` if any may be missing, else `QueueRefused`."""
        trace = current_trace()
        requests = [task_request(self._settings, effect, effect.trace or trace) for effect in effects]
        outcomes = map(self._attempt, requests) if len(requests) < 2 else self._pool.map(self._attempt, requests)
        self._judge([error for error in outcomes if error is not None])

    def _judge(self, errors: list[Exception]) -> None:
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
    """Write an effect as a request to create its task."""
    queue = f"projects/{settings.project}/locations/{settings.location}/queues/{settings.queue_prefix}{effect.queue}"
    task: dict[str, Any] = {
        "name": f"{queue}/tasks/{effect.name}",
        "http_request": _call(settings, effect, trace),
        "dispatch_deadline": {"seconds": DISPATCH_SECONDS_MAX},
    }
    if effect.not_before is not None:
        task["schedule_time"] = effect.not_before
    return {"parent": queue, "task": task}


def _call(settings: Settings, effect: Effect, trace: str) -> dict[str, Any]:
    address = settings.address_of(effect.function)
    call: dict[str, Any] = {
        "url": address + effect.path,
        "http_method": "POST",
        "headers": {"Content-Type": "application/json"} | ({"traceparent": trace} if trace else {}),
        "body": render({"operation": effect.name, "task": effect.task, "payload": effect.payload, **effect.context}),
    }
    if settings.tasks_account:
        call["oidc_token"] = {"service_account_email": settings.tasks_account, "audience": address}
    return call


def _connect(emulator: str) -> "CloudTasksClient":
    from google.cloud.tasks_v2 import CloudTasksClient

    if not emulator:
        return CloudTasksClient()
    import grpc
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    # By default gRPC waits up to two minutes before it tries again to reach a stand-in that was restarted.
    channel = grpc.insecure_channel(emulator, [("grpc.max_reconnect_backoff_ms", 500)])
    return CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))
