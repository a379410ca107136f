"""Problems of transforms."""

from signalbox.core.problems import Problem


class BadTransform(Problem):
    title = "Invalid transform"


class TransformFailed(Problem):
    status = 409
    title = "Transform output is not an object"
