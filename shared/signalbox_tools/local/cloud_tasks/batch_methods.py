"""BatchCreateTasks and BatchDeleteTasks: many tasks in each call, not atomic, as long-running operations.

The work is done before the response, so every operation is finished; `GetOperation` finds the last ones. A repeated
request id returns its operation again (operations do not survive a restart).
"""

import asyncio
import sqlite3
import uuid
from collections.abc import Awaitable, Sequence

from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # googleapis-common-protos has no types
from google.protobuf import empty_pb2
from google.rpc import code_pb2, status_pb2

from signalbox.adapters.cloud_tasks_types import cloudtasks
from signalbox_tools.local.cloud_tasks.api_errors import RpcError, invalid_argument, not_stored, task_not_found
from signalbox_tools.local.cloud_tasks.api_methods import TaskMethods
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, new_progress, set_seconds, task_view
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry

CREATES_MAX = 100
DELETES_MAX = 1000
OPERATIONS_MAX = 1000

DeleteTaskRequest: Message = cloudtasks.DeleteTaskRequest.pb()


class BatchMethods:
    def __init__(self, registry: QueueRegistry, tasks: TaskMethods) -> None:
        self._queues = registry
        self._tasks = tasks
        self._operations: dict[str, Message] = {}

    async def batch_create_tasks(self, request: Message) -> Message:
        self._queues.find(request.parent)
        if not 0 < len(request.requests) <= CREATES_MAX:
            raise invalid_argument(f"The number of requests must be in [1, {CREATES_MAX}]")
        if any(one.parent != request.parent for one in request.requests):
            raise invalid_argument("The parent of each request must be that of the batch")
        name = _operation_name(request)
        if name in self._operations:
            return self._operations[name]
        outcomes = await _each([self._tasks.add(one.parent, one.task) for one in request.requests])
        created = [
            task_view(outcome, new_progress(outcome), one.response_view)
            for outcome, one in zip(outcomes, request.requests, strict=True)
            if not isinstance(outcome, RpcError)
        ]
        response = cloudtasks.BatchCreateTasksResponse.pb()(tasks=created)
        return self._finish(name, cloudtasks.BatchCreateTasksMetadata, outcomes, response)

    async def batch_delete_tasks(self, request: Message) -> Message:
        self._queues.find(request.parent)
        if not 0 < len(request.names) <= DELETES_MAX:
            raise invalid_argument(f"The number of names must be in [1, {DELETES_MAX}]")
        name = _operation_name(request)
        if name in self._operations:
            return self._operations[name]
        deletes = [self._tasks.delete_task(DeleteTaskRequest(name=task_name)) for task_name in request.names]
        return self._finish(name, cloudtasks.BatchDeleteTasksMetadata, await _each(deletes), empty_pb2.Empty())

    async def get_operation(self, request: Message) -> Message:
        if request.name not in self._operations:
            raise task_not_found()
        return self._operations[request.name]

    def _finish(self, name: str, metadata_type: Message, outcomes: Sequence[Message], response: Message) -> Message:
        """Return the finished operation with the failures by index. If everything failed, the operation is an error."""
        failed = {
            index: status_pb2.Status(code=outcome.code.value[0], message=outcome.message)
            for index, outcome in enumerate(outcomes)
            if isinstance(outcome, RpcError)
        }
        operation = operations_pb2.Operation(name=name, done=True)
        operation.metadata.Pack(self._metadata(metadata_type, failed))
        if len(failed) == len(outcomes):
            operation.error.code = code_pb2.ABORTED
            operation.error.message = "None of the requests succeeded, refer to the metadata's failed_requests"
        else:
            operation.response.Pack(response)
        self._operations[name] = operation
        if len(self._operations) > OPERATIONS_MAX:
            del self._operations[next(iter(self._operations))]
        return operation

    def _metadata(self, metadata_type: Message, failed: dict[int, Message]) -> Message:
        states = metadata_type.State
        metadata = metadata_type.pb()(state=int(states.PARTIALLY_SUCCEEDED if failed else states.SUCCEEDED))
        for index, status in failed.items():
            metadata.failed_requests[index].CopyFrom(status)
        set_seconds(metadata.start_time, self._queues.context.clock())
        set_seconds(metadata.end_time, self._queues.context.clock())
        return metadata


async def _each(calls: Sequence[Awaitable[Message]]) -> list[Message]:
    """Run calls concurrently. An `RpcError` is returned as a result."""
    return await asyncio.gather(*(_outcome(call) for call in calls))


async def _outcome(call: Awaitable[Message]) -> Message:
    try:
        return await call
    except RpcError as refusal:
        return refusal
    except sqlite3.Error:
        return not_stored()


def _operation_name(request: Message) -> str:
    return f"{request.parent}/operations/{request.request_id or uuid.uuid4()}"
