"""The problems that objects raise."""

from signalbox.core.problems import Problem


class BadObjectCall(Problem):
    title = "Invalid call of an object"


class NoSuchMethod(Problem):
    status = 404
    title = "The class has no such method"


class CallTooLate(Problem):
    status = 409
    title = "The call was too late"


class NoObject(Problem):
    status = 409
    title = "The result is not an object"


class NotReady(Problem):
    """The result of a placeholder whose call has not ended."""

    status = 409
    title = "The call has no result yet"
