"""Problems of transforms."""

from signalbox.core.problems import Problem


class BadTransform(Problem):
    title = "Invalid transform"
