"""Parse the queues of the local stack from the JSON of its command line.

The JSON is an object with each queue's settings by its full resource name. They have the names and meanings of the
catalogue.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from signalbox_tools.local.cloud_tasks.protobuf_messages import Message, Queue, set_seconds
from signalbox_tools.local.cloud_tasks.request_validation import validate_queue


@dataclass(frozen=True, slots=True)
class Settings:
    """A queue's settings. `attempts_max` -1 sets no limit; neither does `retry_seconds_max` 0."""

    dispatches_per_second: float
    concurrent_max: int
    attempts_max: int
    backoff_min_seconds: float
    backoff_max_seconds: float
    doublings_max: int
    retry_seconds_max: float = 0.0

    def queue(self, name: str) -> Message:
        """Return the validated queue. Raises `RpcError` for values that Cloud Tasks rejects."""
        message = Queue(name=name)
        message.rate_limits.max_dispatches_per_second = self.dispatches_per_second
        message.rate_limits.max_concurrent_dispatches = self.concurrent_max
        config = message.retry_config
        config.max_attempts, config.max_doublings = self.attempts_max, self.doublings_max
        set_seconds(config.min_backoff, self.backoff_min_seconds)
        set_seconds(config.max_backoff, self.backoff_max_seconds)
        set_seconds(config.max_retry_duration, self.retry_seconds_max)
        validate_queue(message)
        return message


def read_queues(text: str) -> list[Message]:
    """Read JSON, or the file of that name. Raises `ValueError`, `TypeError`, `OSError` or `RpcError`."""
    source = text if text.lstrip().startswith("{") else Path(text).read_text(encoding="utf-8")
    queues: Mapping[str, Mapping[str, Any]] = json.loads(source)
    return [Settings(**settings).queue(name) for name, settings in queues.items()]
