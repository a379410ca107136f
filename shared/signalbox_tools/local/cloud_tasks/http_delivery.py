"""Deliver a task: one HTTP request with the headers that Cloud Tasks sends, and its result.

Tasks of the stack's own functions are sent over the connections of their processes (`function_processes`), if there
are any. A delivery never raises: a failed connection is a `DispatchResult` without a status. Redirects are not
followed: like every response outside 200 to 299, they are failures.
"""

import logging
import time
from collections.abc import Mapping
from types import TracebackType

import aiohttp
from yarl import URL

from signalbox_tools.local.cloud_tasks.oidc_tokens import Identity
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, seconds_of
from signalbox_tools.local.cloud_tasks.queue_rules import retry_after_seconds
from signalbox_tools.local.cloud_tasks.request_validation import METHODS
from signalbox_tools.local.cloud_tasks.task_attempts import DEADLINE_EXCEEDED, UNAVAILABLE, DispatchResult, Progress
from signalbox_tools.local.function_channel import delivery_frame
from signalbox_tools.local.function_processes import FunctionProcesses, Response

USER_AGENT = "Google-Cloud-Tasks"
KEEP_ALIVE_SECONDS = 1.0
"""Idle connections are closed earlier than common servers close them (gunicorn: 2 s), so no request loses that race."""

log = logging.getLogger(__name__)

REPLACED = frozenset({"host", "content-length", "transfer-encoding", "connection", "user-agent"})
REPLACED_PREFIXES = ("x-google-", "x-appengine-", "x-cloudtasks-")


class Dispatcher:
    """Delivers tasks. Use as an asynchronous context manager."""

    def __init__(self, identity: Identity, processes: FunctionProcesses, functions_url: str) -> None:
        """Send the tasks of addresses that begin with `functions_url` to the processes, as long as there are any."""
        self._identity = identity
        self._processes = processes
        self._functions_url = functions_url
        self._session: aiohttp.ClientSession

    async def __aenter__(self) -> "Dispatcher":
        # The queue limits concurrent deliveries: the pool does not.
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_SECONDS)
        self._session = aiohttp.ClientSession(
            connector=connector, skip_auto_headers=["Content-Type"], cookie_jar=aiohttp.DummyCookieJar()
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()

    async def deliver(self, spec: Message, progress: Progress) -> DispatchResult:
        """Send a task to its worker. `progress` includes this attempt."""
        try:
            headers = headers_of(spec, progress) | self._authorization(spec.http_request)
            status, retry_after = await self._sent_to_a_process(spec, headers) or await self._sent(spec, headers)
            seconds = retry_after_seconds(retry_after, time.time()) if retry_after else 0.0
            return DispatchResult(status, f"HTTP status code {status}", seconds)
        except TimeoutError:
            return DispatchResult(None, DEADLINE_EXCEEDED)
        except (aiohttp.ClientError, OSError, ValueError):  # ValueError: an address that cannot be one
            return DispatchResult(None, UNAVAILABLE)
        except Exception:  # the task would leave its queue without a result
            log.exception("delivery failed: %s", spec.name)
            return DispatchResult(None, UNAVAILABLE)

    async def _sent_to_a_process(self, spec: Message, headers: Mapping[str, str]) -> Response | None:
        """Send a task of the stack's functions to a process of theirs. Return None if it has none, or another address.

        HTTP encodes an address with other characters than those of ASCII.
        """
        request = spec.http_request
        if not self._processes or not request.url.startswith(self._functions_url) or not request.url.isascii():
            return None
        sent = delivery_frame(METHODS[request.http_method], request.url, headers, request.body)
        return await self._processes.deliver(sent, seconds_of(spec.dispatch_deadline))

    async def _sent(self, spec: Message, headers: Mapping[str, str]) -> Response:
        request = spec.http_request
        async with self._session.request(
            METHODS[request.http_method],
            _as_written(request.url),
            data=request.body or None,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=seconds_of(spec.dispatch_deadline)),
        ) as response:
            async for _ in response.content.iter_any():  # an endless answer takes no memory
                continue
            return response.status, response.headers.get("Retry-After", "")

    def _authorization(self, request: Message) -> dict[str, str]:
        account = request.oidc_token.service_account_email
        if not account:
            return {}
        audience = request.oidc_token.audience or request.url
        return {"Authorization": f"Bearer {self._identity.token(account, audience, time.time())}"}


def _as_written(url: str) -> URL:
    """Return an address whose escapes stay as they are: a signature may cover them."""
    return URL(url, encoded=url.isascii())


def headers_of(spec: Message, progress: Progress) -> dict[str, str]:
    """Return the headers of a delivery.

    They are the task's headers that Cloud Tasks does not replace, and those that Cloud Tasks sets.
    """
    signed = bool(spec.http_request.oidc_token.service_account_email)
    kept = {name: value for name, value in spec.http_request.headers.items() if not _replaced(name.lower(), signed)}
    queue_name, _, task_id = spec.name.rpartition("/tasks/")
    headers = kept | {
        "User-Agent": USER_AGENT,
        "X-CloudTasks-QueueName": queue_name.rpartition("/")[2],
        "X-CloudTasks-TaskName": task_id,
        "X-CloudTasks-TaskRetryCount": str(progress.dispatches - 1),
        "X-CloudTasks-TaskExecutionCount": str(progress.executions),
        "X-CloudTasks-TaskETA": f"{progress.due_at:.6f}",
    }
    if progress.last_status is not None:
        headers["X-CloudTasks-TaskPreviousResponse"] = str(progress.last_status)
        headers["X-CloudTasks-TaskRetryReason"] = ""  # Cloud Tasks has texts for App Engine targets only
    return headers


def _replaced(name: str, signed: bool) -> bool:
    return name in REPLACED or name.startswith(REPLACED_PREFIXES) or (signed and name == "authorization")
