"""The problems of failures."""

from signalbox.core.problems import Problem


class Gone(Problem):
    status = 410
    title = "Deleted"


class NotRepeatable(Problem):
    status = 409
    title = "The event cannot be delivered again"


class StillRetried(Problem):
    status = 409
    title = "The task is still being retried"
