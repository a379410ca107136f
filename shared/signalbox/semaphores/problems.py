"""The problems that only semaphores raise."""

from signalbox.core.problems import NotFound, Problem


class BadSemaphore(Problem):
    title = "Invalid semaphore request"


class NoSemaphore(NotFound):
    title = "Semaphore not found"
