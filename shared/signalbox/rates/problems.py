"""The problems that only rates raise."""

from signalbox.core.problems import NotFound, Problem


class BadRate(Problem):
    title = "Invalid rate request"


class NoRate(NotFound):
    title = "Rate not found"
