"""The methods of the API on queues and tasks.

A method takes a request message and returns the response, or raises `RpcError`. It returns after its change is on disk.
"""

import asyncio
import secrets

from google.protobuf import empty_pb2, field_mask_pb2

from signalbox.adapters.cloud_tasks_types import cloudtasks
from signalbox_tools.local.cloud_tasks.api_errors import (
    invalid_argument,
    response_lost,
    task_exists,
    task_gone,
    task_name_used,
    task_not_found,
    unimplemented,
)
from signalbox_tools.local.cloud_tasks.due_tasks import QueuedTask
from signalbox_tools.local.cloud_tasks.local_queue import LocalQueue
from signalbox_tools.local.cloud_tasks.protobuf_messages import (
    PAUSED,
    RUNNING,
    Message,
    Queue,
    new_progress,
    set_seconds,
    task_view,
)
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry
from signalbox_tools.local.cloud_tasks.request_validation import PLACE_NAME, validate_queue, validate_task

ListQueuesResponse: Message = cloudtasks.ListQueuesResponse.pb()
ListTasksResponse: Message = cloudtasks.ListTasksResponse.pb()

QUEUES_PAGE_MAX = 9800
TASKS_PAGE_MAX = 1000
OUTPUT_ONLY = frozenset({"name", "state", "purge_time", "rate_limits.max_burst_size"})


class QueueMethods:
    def __init__(self, registry: QueueRegistry) -> None:
        self._queues = registry

    async def create_queue(self, request: Message) -> Message:
        return await self._create(request.parent, request.queue)

    async def _create(self, parent: str, wanted: Message) -> Message:
        queue = Queue()
        queue.CopyFrom(wanted)
        queue.ClearField("state")
        queue.ClearField("purge_time")
        validate_queue(queue)
        if not queue.name.startswith(f"{parent}/queues/"):
            raise invalid_argument("The queue's name must begin with the request's parent")
        return (await self._queues.create(queue)).message

    async def get_queue(self, request: Message) -> Message:
        return self._queues.find(request.name).message

    async def list_queues(self, request: Message) -> Message:
        if request.filter:
            raise unimplemented("filters")
        if not PLACE_NAME.fullmatch(request.parent):
            raise invalid_argument('The parent must be formatted: "projects/<PROJECT_ID>/locations/<LOCATION_ID>"')
        prefix = f"{request.parent}/queues/"
        names = [queue.name for queue in self._queues if queue.name.startswith(prefix)]
        page, token = _page(names, prefix, request, QUEUES_PAGE_MAX)
        return ListQueuesResponse(queues=[self._queues.find(name).message for name in page], next_page_token=token)

    async def update_queue(self, request: Message) -> Message:
        """Update a queue, or create it (the mask is ignored then)."""
        if not self._queues.has(request.queue.name):
            return await self._create(request.queue.name.partition("/queues/")[0], request.queue)
        queue = self._queues.find(request.queue.name)
        changed = Queue()
        changed.CopyFrom(queue.message)
        _merge(changed, request)
        validate_queue(changed)
        await self._queues.reconfigure(queue, changed)
        return queue.message

    async def delete_queue(self, request: Message) -> Message:
        await self._queues.delete(request.name)
        return empty_pb2.Empty()

    async def pause_queue(self, request: Message) -> Message:
        return await self._set_state(request.name, PAUSED)

    async def resume_queue(self, request: Message) -> Message:
        return await self._set_state(request.name, RUNNING)

    async def purge_queue(self, request: Message) -> Message:
        queue = self._queues.find(request.name)
        set_seconds(queue.message.purge_time, self._queues.context.clock())
        queue.clear()
        await self._queues.save(queue)
        return queue.message

    async def _set_state(self, name: str, state: int) -> Message:
        queue = self._queues.find(name)
        queue.message.state = state
        await self._queues.save(queue)
        queue.pump()
        return queue.message


class TaskMethods:
    def __init__(self, registry: QueueRegistry) -> None:
        self._queues = registry

    async def create_task(self, request: Message) -> Message:
        await self.create(request.parent, request.task)
        return task_view(request.task, new_progress(request.task), request.response_view)

    async def create(self, queue_name: str, spec: Message) -> None:
        """Add a task as `add` does. An injected fault may lose the response."""
        await self.add(queue_name, spec)
        if self._queues.context.chaos.loses_answer():
            raise response_lost()

    async def add(self, queue_name: str, spec: Message) -> Message:
        """Validate a task, add it to its queue and wait until it is on disk. The queue keeps the message."""
        queue = self._queues.find(queue_name)
        now = self._queues.context.clock()
        if not spec.http_request.url and queue.name in self._queues.context.targets:
            spec.http_request.url = self._queues.context.targets[queue.name]
        validate_task(spec, queue.name, now)
        named = bool(spec.name)
        if named:
            await self._check_free(queue, spec.name, now)
        else:
            spec.name = f"{queue.name}/tasks/{secrets.randbits(63)}"
        await _on_disk(queue.add(spec, named))
        return spec

    async def get_task(self, request: Message) -> Message:
        task = self._find(request.name)[1]
        return task_view(task.spec, task.progress, request.response_view)

    async def list_tasks(self, request: Message) -> Message:
        tasks = self._queues.find(request.parent).tasks
        page, token = _page(list(tasks), f"{request.parent}/tasks/", request, TASKS_PAGE_MAX)
        views = [task_view(tasks[name].spec, tasks[name].progress, request.response_view) for name in page]
        return ListTasksResponse(tasks=views, next_page_token=token)

    async def delete_task(self, request: Message) -> Message:
        queue, _ = self._find(request.name)
        await asyncio.shield(queue.remove(request.name))
        return empty_pb2.Empty()

    async def run_task(self, request: Message) -> Message:
        """Deliver a task now; the response shows it as dispatched, before its worker has received it."""
        queue, task = self._find(request.name)
        await _on_disk(task)
        if not task.gone:
            queue.force(task)
        return task_view(task.spec, task.progress, request.response_view)

    def _find(self, name: str) -> tuple[LocalQueue, QueuedTask]:
        queue = self._queues.find(name.partition("/tasks/")[0])
        if name in queue.tasks:
            return queue, queue.tasks[name]
        raise (
            task_gone()
            if self._queues.context.tombstones.holds(name, self._queues.context.clock())
            else task_not_found()
        )

    async def _check_free(self, queue: LocalQueue, name: str, now: float) -> None:
        """Raise `RpcError` for a name that is or was in use. If a task has the name, wait until the task is on disk.

        "Already exists" tells a caller that its task will run, so a crash must not lose the task afterwards.
        """
        if name in queue.tasks:
            await _on_disk(queue.tasks[name])
            raise task_exists()
        if self._queues.context.tombstones.holds(name, now):
            raise task_name_used()


async def _on_disk(task: QueuedTask) -> None:
    """Wait until a task is on disk. A caller that disconnects does not cancel the shared commit."""
    if task.stored is not None:
        await asyncio.shield(task.stored)


def _page(names: list[str], prefix: str, request: Message, size_max: int) -> tuple[list[str], str]:
    """Return a page of the sorted names and the next token, which is the last name of the page."""
    after, size = request.page_token, request.page_size
    if size < 0:
        raise invalid_argument("The page size must not be negative")
    if after and not after.startswith(prefix):
        raise invalid_argument("The page token is not one of this list")
    rest = sorted(name for name in names if name > after)
    page = rest[: min(size or size_max, size_max)]
    return page, page[-1] if len(page) < len(rest) else ""


def _merge(queue: Message, request: Message) -> None:
    """Copy the masked fields, or all of them without a mask; output-only fields are ignored."""
    if not request.update_mask.IsValidForDescriptor(Queue.DESCRIPTOR):
        raise invalid_argument("The update mask names fields that a queue does not have")
    paths = request.update_mask.paths or [field.name for field in Queue.DESCRIPTOR.fields]
    mask = field_mask_pb2.FieldMask(paths=[path for path in paths if path not in OUTPUT_ONLY])
    mask.MergeMessage(request.queue, queue, replace_message_field=True)
