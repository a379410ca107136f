"""The problem of an outcome whose class this process does not have."""

from signalbox.core.problems import Problem


class MethodFailed(Problem):
    status = 500
    title = "The object's method raised an error"
