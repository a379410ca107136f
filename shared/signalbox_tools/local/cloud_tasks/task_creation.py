"""The requests of the stack's function processes to create tasks, over the connections that they keep open."""

import logging
import sqlite3
from collections.abc import Awaitable, Callable
from typing import Any

import grpc

from signalbox_tools.local.cloud_tasks.api_errors import RpcError, not_stored
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, Task, set_seconds
from signalbox_tools.local.function_processes import Answer

Create = Callable[[str, Message], Awaitable[None]]
"""Create a task of a queue. Raises `RpcError`."""

log = logging.getLogger(__name__)


def creating(create: Create) -> Answer:
    """Return the answer to a request: its number, the gRPC code of its result, and a message."""

    async def answer(value: Any, body: bytes) -> object:
        number, parent, task = value
        try:
            await create(parent, _task(task, body))
        except RpcError as refusal:
            return number, refusal.code.value[0], refusal.message
        except sqlite3.Error as error:
            log.error("storage failed", exc_info=error)
            return number, not_stored().code.value[0], not_stored().message
        except Exception as error:  # as over gRPC: the caller would wait for its time-out
            log.exception("task not created")
            return number, grpc.StatusCode.UNKNOWN.value[0], str(error)
        return number, 0, ""

    return answer


def _task(fields: dict[str, Any], body: bytes) -> Message:
    """Return the task of a request of a function."""
    task = Task(name=fields["name"], http_request={**fields["http_request"], "body": body})
    task.dispatch_deadline.seconds = fields["deadline_seconds"]
    if fields["due_at"] is not None:
        set_seconds(task.schedule_time, fields["due_at"])
    return task
