"""The problem of a large value that is not there."""

from signalbox.core.problems import NotFound


class NoPayload(NotFound):
    title = "Large value not found"
