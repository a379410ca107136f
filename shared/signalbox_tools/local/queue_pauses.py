"""Pause queues and schedules of a running local stack, and resume them.

Google's client is imported when it is first used: the process of the functions has this module for its console, and
answers a fifth sooner.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from signalbox.adapters.settings import Settings, from_environment
from signalbox.core.kit_names import queue_of
from signalbox_tools.local.folder.running_stack import RunningStack
from signalbox_tools.local.scheduler import PAUSED_FILE

if TYPE_CHECKING:
    from google.cloud.tasks_v2 import CloudTasksClient


def pause(stack: RunningStack, queues: Iterable[str], schedules: Iterable[str]) -> None:
    """Pause schedules, then queues."""
    for schedule in schedules:
        _file(stack, schedule).touch()
    settings = from_environment(stack.environment)
    client = queues_client(settings)
    for shard in _shards(client, settings, queues):
        client.pause_queue(name=shard)


def resume(stack: RunningStack, queues: Iterable[str], schedules: Iterable[str]) -> None:
    """Resume queues, then schedules."""
    settings = from_environment(stack.environment)
    client = queues_client(settings)
    for shard in _shards(client, settings, queues):
        client.resume_queue(name=shard)
    for schedule in schedules:
        _file(stack, schedule).unlink(missing_ok=True)


def _shards(client: "CloudTasksClient", settings: Settings, queues: Iterable[str]) -> list[str]:
    """Return the shards that the stack has: the catalogue may have had another number of them when it started."""
    own = {queue_path(settings, queue) for queue in queues}
    parent = f"projects/{settings.project}/locations/{settings.location}"
    return [each.name for each in client.list_queues(parent=parent) if queue_of(each.name) in own]


def _file(stack: RunningStack, schedule: str) -> Path:
    return Path(stack.folder) / PAUSED_FILE.format(schedule)


def queues_client(settings: Settings) -> "CloudTasksClient":
    """Return a client of the local queues."""
    from google.cloud.tasks_v2 import CloudTasksClient
    from google.cloud.tasks_v2.services.cloud_tasks.transports import CloudTasksGrpcTransport

    channel = grpc.insecure_channel(settings.tasks_emulator, [("grpc.enable_http_proxy", 0)])  # on this machine
    return CloudTasksClient(transport=CloudTasksGrpcTransport(channel=channel))


def queue_path(settings: Settings, queue: str) -> str:
    """Return the name of a queue as Cloud Tasks has it."""
    return f"projects/{settings.project}/locations/{settings.location}/queues/{queue}"
