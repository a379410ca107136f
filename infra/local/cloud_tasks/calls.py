"""The methods of the API: what each of them does to queues and tasks.

A method takes a request message and gives the answer, or raises `Refusal`. What changes something answers after it is
on disk.
"""

import asyncio
import secrets

from google.cloud.tasks_v2.types import cloudtasks
from google.protobuf import empty_pb2, field_mask_pb2

from infra.local.cloud_tasks.agenda import Waiting
from infra.local.cloud_tasks.line import Line
from infra.local.cloud_tasks.lines import Lines
from infra.local.cloud_tasks.messages import PAUSED, RUNNING, Message, Queue, new_progress, set_seconds, task_view
from infra.local.cloud_tasks.refusals import (
    answer_lost,
    invalid,
    no_task,
    not_modelled,
    task_existed,
    task_exists,
    task_gone,
)
from infra.local.cloud_tasks.requests import shape_queue, shape_task

ListQueuesResponse: Message = cloudtasks.ListQueuesResponse.pb()
ListTasksResponse: Message = cloudtasks.ListTasksResponse.pb()

QUEUES_PAGE_MAX = 9800
TASKS_PAGE_MAX = 1000
OUTPUT_ONLY = frozenset({"name", "state", "purge_time", "rate_limits.max_burst_size"})


class QueueCalls:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def create_queue(self, request: Message) -> Message:
        queue = Queue()
        queue.CopyFrom(request.queue)
        _clear_output_only(queue)
        shape_queue(queue)
        if not queue.name.startswith(f"{request.parent}/queues/"):
            raise invalid("The queue's name must begin with the request's parent")
        return (await self._lines.create(queue)).message

    async def get_queue(self, request: Message) -> Message:
        return self._lines.find(request.name).message

    async def list_queues(self, request: Message) -> Message:
        if request.filter:
            raise not_modelled("filters")
        names = [line.name for line in self._lines if line.name.startswith(f"{request.parent}/queues/")]
        page, token = _page(names, request.page_token, request.page_size, QUEUES_PAGE_MAX)
        return ListQueuesResponse(queues=[self._lines.find(name).message for name in page], next_page_token=token)

    async def update_queue(self, request: Message) -> Message:
        """Update a queue, or create it (then nothing need be masked)."""
        if not self._lines.has(request.queue.name):
            request.parent = request.queue.name.partition("/queues/")[0]
            return await self.create_queue(request)
        line = self._lines.find(request.queue.name)
        changed = Queue()
        changed.CopyFrom(line.message)
        _merge(changed, request)
        shape_queue(changed)
        await self._lines.reconfigure(line, changed)
        return line.message

    async def delete_queue(self, request: Message) -> Message:
        await self._lines.delete(request.name)
        return empty_pb2.Empty()

    async def pause_queue(self, request: Message) -> Message:
        return await self._set_state(request.name, PAUSED)

    async def resume_queue(self, request: Message) -> Message:
        return await self._set_state(request.name, RUNNING)

    async def purge_queue(self, request: Message) -> Message:
        line = self._lines.find(request.name)
        set_seconds(line.message.purge_time, self._lines.around.clock())
        line.clear()
        await self._lines.save(line)
        return line.message

    async def _set_state(self, name: str, state: int) -> Message:
        line = self._lines.find(name)
        line.message.state = state
        await self._lines.save(line)
        line.pump()
        return line.message


class TaskCalls:
    def __init__(self, lines: Lines) -> None:
        self._lines = lines

    async def create_task(self, request: Message) -> Message:
        spec = await self.add(request.parent, request.task)
        if self._lines.around.chaos.loses_answer():
            raise answer_lost()
        return task_view(spec, new_progress(spec), request.response_view)

    async def add(self, queue_name: str, spec: Message) -> Message:
        """Check a task, put it into its queue and wait until it is on disk. The message becomes the queue's."""
        line = self._lines.find(queue_name)
        now = self._lines.around.clock()
        shape_task(spec, line.name, now)
        named = bool(spec.name)
        if named:
            await self._check_free(line, spec.name, now)
        else:
            spec.name = f"{line.name}/tasks/{secrets.randbits(63)}"
        await _on_disk(line.add(spec, named))
        return spec

    async def get_task(self, request: Message) -> Message:
        task = self._find(request.name)[1]
        return task_view(task.spec, task.progress, request.response_view)

    async def list_tasks(self, request: Message) -> Message:
        tasks = self._lines.find(request.parent).tasks
        page, token = _page(list(tasks), request.page_token, request.page_size, TASKS_PAGE_MAX)
        views = [task_view(tasks[name].spec, tasks[name].progress, request.response_view) for name in page]
        return ListTasksResponse(tasks=views, next_page_token=token)

    async def delete_task(self, request: Message) -> Message:
        line, _ = self._find(request.name)
        await asyncio.shield(line.remove(request.name))
        return empty_pb2.Empty()

    async def run_task(self, request: Message) -> Message:
        """Deliver a task now; the answer shows it as dispatched, before its worker has it."""
        line, task = self._find(request.name)
        await _on_disk(task)
        if not task.gone:
            line.force(task)
        return task_view(task.spec, task.progress, request.response_view)

    def _find(self, name: str) -> tuple[Line, Waiting]:
        line = self._lines.find(name.partition("/tasks/")[0])
        if name in line.tasks:
            return line, line.tasks[name]
        raise task_gone() if self._lines.around.tombstones.holds(name, self._lines.around.clock()) else no_task()

    async def _check_free(self, line: Line, name: str, now: float) -> None:
        """Refuse a name that is or was taken: a live task's only once that task is on disk.

        "Already exists" tells a caller that its task will run. Said of a task that a crash can still take, it would
        lie.
        """
        if name in line.tasks:
            await _on_disk(line.tasks[name])
            raise task_exists()
        if self._lines.around.tombstones.holds(name, now):
            raise task_existed()


async def _on_disk(task: Waiting) -> None:
    """Wait until a task is on disk. A caller that goes away does not take the others' commit with it."""
    if task.stored is not None:
        await asyncio.shield(task.stored)


def _page(names: list[str], after: str, size: int, size_max: int) -> tuple[list[str], str]:
    """Cut a page out of names in their order; the token is the last name of the page before."""
    rest = sorted(name for name in names if name > after)
    page = rest[: min(size or size_max, size_max)]
    return page, page[-1] if len(page) < len(rest) else ""


def _clear_output_only(queue: Message) -> None:
    queue.ClearField("state")
    queue.ClearField("purge_time")


def _merge(queue: Message, request: Message) -> None:
    """Take over the masked fields, or all of them when there is no mask; what only the service sets is ignored."""
    if not request.update_mask.IsValidForDescriptor(Queue.DESCRIPTOR):
        raise invalid("The update mask names fields that a queue does not have")
    paths = request.update_mask.paths or [field.name for field in Queue.DESCRIPTOR.fields]
    mask = field_mask_pb2.FieldMask(paths=[path for path in paths if path not in OUTPUT_ONLY])
    mask.MergeMessage(request.queue, queue, replace_message_field=True)
