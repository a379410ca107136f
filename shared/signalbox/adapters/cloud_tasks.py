"""The task queue on Cloud Tasks: an effect becomes a named task that POSTs an envelope to a function.

A task has its effect's name, followed by digits of the database. Cloud Tasks accepts a name once: "already exists"
means enqueued, so a retry is always safe. A restored database has other digits, so none of its names is taken by an
earlier task. Errors are classified by their cause:

    the service      `EnqueueUnconfirmed`: transient
    the deployment   `DeploymentCannotEnqueue`: no such queue, or no permission. Transient too, since rights take effect
                     some time after a deployment, and logged as an ERROR, since no caller can correct it
    the task itself  `QueueRefused`, a `Problem`, logged as an ERROR: the same request would fail again
    the record       `NotInCatalogue`, a `Problem`, logged as an ERROR: the catalogue has no such function, task or
                     queue. Cloud Tasks does not receive the task, whose address would be derived from these names

Google's generated client is not imported: it would make the first task of an instance wait for 0.1 s.
"""

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from operator import methodcaller
from typing import Any, Protocol

import grpc
from google.api_core import exceptions as google
from google.auth.exceptions import GoogleAuthError

from signalbox.adapters.deployed_catalogue import deliverable
from signalbox.adapters.google_apis import CLOUD_PLATFORM, routing_header, secure_channel
from signalbox.adapters.http.json_bodies import render
from signalbox.adapters.logs import current_trace
from signalbox.adapters.settings import Settings
from signalbox.core.effects import Effect, TaskEnvelope, name_of, shard_of
from signalbox.core.given import given
from signalbox.core.ports import Log
from signalbox.core.problems import (
    DeploymentCannotEnqueue,
    EnqueueUnconfirmed,
    NotInCatalogue,
    PartlyEnqueued,
    Problem,
)

RETRY_PAUSES_SECONDS = (0.05, 0.25)
"""Pauses before a second and a third attempt if the service is unavailable: enough to replace a closed connection."""


DEFAULT_DATABASE = "(default)"

DATABASE_DIGITS = 8
"""Hexadecimal digits that distinguish a database's tasks from those of the database it was restored from."""


DISPATCH_SECONDS_MAX = 600
"""The time in which a function must respond to a task. This is the default of Cloud Tasks. It is set explicitly,
because the task is delivered again after this time."""


AT_ONCE_MAX = 100
"""Concurrent create calls of one `create`: the tasks of an outbox record, and the streams of one connection."""


HOST = "cloudtasks.googleapis.com"
METHOD = "/google.cloud.tasks.v2.CloudTasks/CreateTask"

CREATE_SECONDS_MAX = 10.0
"""Timeout of one attempt. Creating a named task takes about ten milliseconds; a caller should not wait longer."""


Headers = list[tuple[str, str]]


OF_THE_INSTALLATION = (
    google.NotFound,
    google.PermissionDenied,
    google.Unauthenticated,
    google.FailedPrecondition,
    google.MethodNotImplemented,
)
"""Errors that end with a deployment or a granted permission, perhaps before the next attempt."""


OF_THE_TASK = (google.InvalidArgument,)


class QueueRefused(PartlyEnqueued, Problem):
    status = 500
    title = "Cloud Tasks does not accept the task"


def raise_for(outcomes: Mapping[str, Exception | None], log: Log) -> None:
    """Log the errors in `outcomes`, which are by the tasks' names, and raise unless all tasks are enqueued.

    Raises `DeploymentCannotEnqueue`, else `EnqueueUnconfirmed`, else `QueueRefused`, else `NotInCatalogue`. Of these,
    a problem is raised only if no error is transient, since callers do not retry it. Each error names the tasks that
    are enqueued.
    """
    errors = [error for error in outcomes.values() if error is not None]
    if errors:
        _log(errors, log)
        enqueued = [name for name, error in outcomes.items() if error is None]
        decisive = min(errors, key=_rank)
        said = str(decisive) if isinstance(decisive, NotInCatalogue) else UNTAKEN
        raise RAISED[_rank(decisive)](said, enqueued) from decisive


UNTAKEN = "Cloud Tasks did not accept a task; the log may have the reason"


RAISED = (DeploymentCannotEnqueue, EnqueueUnconfirmed, QueueRefused, NotInCatalogue)


def _rank(error: Exception) -> int:
    """Return the place in `RAISED` of the exception to raise for an error."""
    if isinstance(error, OF_THE_INSTALLATION):
        return 0
    if isinstance(error, NotInCatalogue):
        return 3
    return 2 if isinstance(error, OF_THE_TASK) else 1


def _log(errors: Sequence[Exception], log: Log) -> None:
    for error in errors:
        if isinstance(error, OF_THE_INSTALLATION):
            log.error("deployment cannot enqueue", reason=str(error))
        elif isinstance(error, (*OF_THE_TASK, NotInCatalogue)):
            log.error("task refused", reason=str(error))


class Creator(Protocol):
    """What creates the tasks of requests. Thread-safe."""

    def attempts(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        """Send each request once, all concurrently. Return for each request its error, or None."""


class TaskCreator:
    """Cloud Tasks' CreateTask over a channel like that of the generated client. Thread-safe.

    The client's own method is not used: it wraps every message and looks up the settings of each call. One thread sends
    many calls and then waits for all of them; a thread for each call would take three times the processor time.
    """

    def __init__(self, emulator: str) -> None:
        """Connect to the cloud, or to an emulator, ``HOST:PORT``."""
        from signalbox.adapters.cloud_tasks_types import cloudtasks

        self._request_type = cloudtasks.CreateTaskRequest.pb()
        self._create: Any = _channel(emulator).unary_unary(METHOD, methodcaller("SerializeToString"), _unread)

    def attempts(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        """Send each request once, all concurrently. Return for each request its error, or None."""
        if len(requests) == 1:
            return [self._attempt(requests[0])]
        sent = [self._create.future(*self._message(request), metadata=_headers(request)) for request in requests]
        return [_translated(future.exception()) for future in sent]

    def _attempt(self, request: dict[str, Any]) -> Exception | None:
        """Send a request without a future, whose result would pass through another thread. Return its error or None."""
        try:
            self._create(*self._message(request), metadata=_headers(request))
        except grpc.RpcError as error:
            return _translated(error)
        return None

    def _message(self, request: dict[str, Any]) -> tuple[Any, float]:
        return self._request_type(**request), CREATE_SECONDS_MAX


def _headers(request: dict[str, Any]) -> Headers:
    """Return the headers of a request: Cloud Tasks routes it by its queue."""
    return [routing_header("parent", request["parent"])]


def _translated(error: Exception | None) -> Exception | None:
    """Return the error that the generated client would raise."""
    if not isinstance(error, grpc.RpcError):
        return error
    translated: Exception = google.from_grpc_error(error)
    return translated


def _unread(answer: bytes) -> bytes:
    """Return the response unparsed: only its arrival matters."""
    return answer


def _channel(emulator: str) -> Any:
    if emulator:
        # By default gRPC waits up to two minutes before it reconnects to an emulator that was restarted.
        options = (("grpc.max_reconnect_backoff_ms", 500), ("grpc.enable_http_proxy", 0))  # it is on this machine
        return grpc.insecure_channel(emulator, options)
    return secure_channel(HOST, (CLOUD_PLATFORM,))


class CloudTasksQueue:
    """`TaskQueue` on Cloud Tasks, on its local emulator, or with another `creator` of tasks. Thread-safe."""

    def __init__(self, settings: Settings, log: Log, creator: Creator | None = None) -> None:
        self._settings = settings
        self._log = log
        self._connecting = threading.Lock()
        self._connected = creator

    def create(self, effects: Sequence[Effect]) -> Collection[str]:
        """Enqueue all tasks, even if one fails; return the names that were taken.

        Tasks that the catalogue excludes are not sent. Raises as `raise_for` and `deliverable` do.
        """
        trace = current_trace()
        chosen, refused = deliverable(self._settings, effects)
        sent = [effect for effect in effects if effect.name not in refused]
        requests = [task_request(chosen, effect, effect.trace or trace) for effect in sent]
        outcomes = dict(zip((effect.name for effect in sent), self._outcomes(requests), strict=True))
        outcomes |= {name: NotInCatalogue(reason) for name, reason in refused.items()}
        taken = [name for name, outcome in outcomes.items() if isinstance(outcome, google.AlreadyExists)]
        raise_for(outcomes | dict.fromkeys(taken), self._log)
        return taken

    def _outcomes(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        """Send all tasks. Return for each task its error, or None if this call enqueued the task."""
        outcomes = self._attempts(requests)
        for pause_seconds in RETRY_PAUSES_SECONDS:
            again = [at for at, error in enumerate(outcomes) if isinstance(error, google.ServiceUnavailable)]
            if again:
                time.sleep(pause_seconds)
                for at, outcome in zip(again, self._attempts([requests[at] for at in again]), strict=True):
                    outcomes[at] = outcome
        return outcomes

    def _attempts(self, requests: Sequence[dict[str, Any]]) -> list[Exception | None]:
        chunks = [requests[at : at + AT_ONCE_MAX] for at in range(0, len(requests), AT_ONCE_MAX)]
        try:
            return [error for chunk in chunks for error in self._creator.attempts(chunk)]
        except GoogleAuthError as error:
            return [error] * len(requests)

    @property
    def _creator(self) -> Creator:
        with self._connecting:
            if self._connected is None:
                self._connected = TaskCreator(self._settings.tasks_emulator)
            return self._connected


def task_request(settings: Settings, effect: Effect, trace: str) -> dict[str, Any]:
    """Return the request that creates the task of an effect."""
    shard = shard_of(effect, settings.queue_shards.get(effect.queue, 1))
    queue = f"projects/{settings.project}/locations/{settings.location}/queues/{settings.queue_prefix}{shard}"
    # Tasks of databases other than the project's default one have digits of their database in their names.
    suffix = "" if settings.database == DEFAULT_DATABASE else f"-{name_of(settings.database)[:DATABASE_DIGITS]}"
    task: dict[str, Any] = {
        "name": f"{queue}/tasks/{effect.name}{suffix}",
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
        "headers": {"Content-Type": "application/json", **given(traceparent=trace or None)},
        "body": render(TaskEnvelope.of(effect).to_json()),
    }
    if account := settings.account_of(effect.queue):
        request["oidc_token"] = {"service_account_email": account, "audience": address}
    return request
