"""The problems that only critical sections raise."""

from signalbox.core.problems import Problem


class BadCriticalSection(Problem):
    title = "Invalid critical section request"


class OtherTask(Problem):
    status = 409
    title = "A run of another task is due under this key"
