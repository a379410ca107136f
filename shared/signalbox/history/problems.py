"""History: problems."""

from signalbox.core.problems import Problem


class BadVersion(Problem):
    title = "Invalid version"
