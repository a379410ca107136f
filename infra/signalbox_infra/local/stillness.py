"""Pause the queues and schedules of a running local stack, and resume them."""

from pathlib import Path

import grpc
from google.cloud.tasks_v2 import CloudTasksClient
from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

from signalbox.adapters.settings import Settings, from_environment
from signalbox_infra.local.folder.running_stack import RunningStack
from signalbox_infra.local.scheduler import PAUSED_FILE


def pause(stack: RunningStack) -> int:
    """Pause the schedules, then all queues; return the number of queues."""
    (Path(stack.folder) / PAUSED_FILE).touch()
    client, queues = _queues(stack)
    for queue in queues:
        client.pause_queue(name=queue)
    return len(queues)


def resume(stack: RunningStack) -> int:
    """Resume all queues, then the schedules; return the number of queues."""
    client, queues = _queues(stack)
    for queue in queues:
        client.resume_queue(name=queue)
    (Path(stack.folder) / PAUSED_FILE).unlink(missing_ok=True)
    return len(queues)


def _queues(stack: RunningStack) -> tuple[CloudTasksClient, list[str]]:
    settings = from_environment(stack.environment)
    client = queues_client(settings)
    return client, [queue.name for queue in client.list_queues(parent=parent_of(settings))]


def queues_client(settings: Settings) -> CloudTasksClient:
    """Return a client of the local queues."""
    channel = grpc.insecure_channel(settings.tasks_emulator)
    return CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))


def parent_of(settings: Settings) -> str:
    """Return the name below which the queues are."""
    return f"projects/{settings.project}/locations/{settings.location}"
