"""The answer to an enqueue."""

from signalbox.core.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EnqueuedShown:
    """It is enqueued, or was by an earlier call under the id."""

    operation: str
    """The id under which a failure of the task would be kept."""

    repeated: bool
    """Whether an earlier call under the id has enqueued it, so that this one changed nothing."""
