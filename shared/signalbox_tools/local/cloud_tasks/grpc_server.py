"""The gRPC surface: the service's methods by name, as the official client calls them.

The client library contains no servicer, so generic handlers use its message types.
"""

import logging
import sqlite3
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import grpc
from google.longrunning import operations_pb2  # type: ignore[import-untyped]  # googleapis-common-protos has no types

from signalbox.adapters.cloud_tasks_types import cloudtasks
from signalbox_tools.local.cloud_tasks.api_errors import RpcError, not_stored
from signalbox_tools.local.cloud_tasks.api_methods import QueueMethods, TaskMethods
from signalbox_tools.local.cloud_tasks.batch_methods import BatchMethods
from signalbox_tools.local.cloud_tasks.protobuf_messages import Message
from signalbox_tools.local.cloud_tasks.queue_registry import QueueRegistry

log = logging.getLogger(__name__)

Method = Callable[[Message], Awaitable[Message]]
Methods = Mapping[str, tuple[Method, Message]]
"""The methods of the service with the types of their requests, by name."""

SERVICE = "google.cloud.tasks.v2.CloudTasks"
OPERATIONS = "google.longrunning.Operations"
REQUEST_BYTES_MAX = 10 * 1024 * 1024
"""The size of a call that Google's front ends accept. The default of gRPC, 4 MiB, is less than a batch of tasks."""


async def serve(methods: Methods, operations: Method, port: int) -> Any:
    """Start the gRPC server on 127.0.0.1. Raises `RuntimeError` when the port is taken."""
    options = [("grpc.so_reuseport", 0), ("grpc.max_receive_message_length", REQUEST_BYTES_MAX)]
    server = grpc.aio.server(options=options)
    server.add_generic_rpc_handlers(_handlers(methods, operations))
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    return server


def methods_of(registry: QueueRegistry) -> tuple[Methods, Method]:
    """Return the methods of the service, and the one that finds an operation."""
    queues, tasks = QueueMethods(registry), TaskMethods(registry)
    batches = BatchMethods(registry, tasks)
    methods: dict[str, Method] = {
        "CreateQueue": queues.create_queue,
        "GetQueue": queues.get_queue,
        "ListQueues": queues.list_queues,
        "UpdateQueue": queues.update_queue,
        "DeleteQueue": queues.delete_queue,
        "PauseQueue": queues.pause_queue,
        "ResumeQueue": queues.resume_queue,
        "PurgeQueue": queues.purge_queue,
        "CreateTask": tasks.create_task,
        "GetTask": tasks.get_task,
        "ListTasks": tasks.list_tasks,
        "DeleteTask": tasks.delete_task,
        "RunTask": tasks.run_task,
        "BatchCreateTasks": batches.batch_create_tasks,
        "BatchDeleteTasks": batches.batch_delete_tasks,
    }
    typed = {name: (method, getattr(cloudtasks, f"{name}Request").pb()) for name, method in methods.items()}
    return typed, batches.get_operation


def _handlers(methods: Methods, operations: Method) -> tuple[Any, ...]:
    service = {name: _handler(method, kind) for name, (method, kind) in methods.items()}
    found = {"GetOperation": _handler(operations, operations_pb2.GetOperationRequest)}
    return (
        grpc.method_handlers_generic_handler(SERVICE, service),
        grpc.method_handlers_generic_handler(OPERATIONS, found),
    )


def _handler(method: Method, request_type: Message) -> Any:
    return grpc.unary_unary_rpc_method_handler(
        _with_status(method),
        request_deserializer=request_type.FromString,
        response_serializer=_serialized,
    )


def _with_status(method: Method) -> Callable[[Message, Any], Awaitable[Message]]:
    """Translate a method's errors to gRPC statuses."""

    async def answer(request: Message, context: Any) -> Message:
        try:
            return await method(request)
        except RpcError as refusal:
            return await context.abort(refusal.code, refusal.message)
        except sqlite3.Error as error:
            log.error("storage failed", exc_info=error)
            return await context.abort(not_stored().code, not_stored().message)

    return answer


def _serialized(message: Message) -> bytes:
    return bytes(message.SerializeToString())
