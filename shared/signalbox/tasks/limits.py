"""The limits of tasks, each with its reason."""

from signalbox.core.limits import Limits


class TaskLimits(Limits):
    """The limits by name; units come last in a name."""

    attempts_max: int = 10
    """Starts of a task's code before the kit gives the task up: with the queue's pauses, a few minutes."""

    traceback_letters_max: int = 20_000
    """Characters kept of the traceback of a task's last error: its end, which names the cause."""

    failures_listed_max: int = 50
    """Failures in one answer: each has a payload of up to 100 KiB and a traceback."""


LIMITS = TaskLimits()
