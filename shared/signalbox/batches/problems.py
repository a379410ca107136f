"""The problems that only batches raise."""

from signalbox.core.problems import Problem


class BadBatch(Problem):
    title = "Invalid batch request"


class PageOutOfOrder(Problem):
    status = 409
    title = "Pages must be loaded in order, starting with 0"


class BatchSealed(Problem):
    status = 409
    title = "The batch is sealed or has ended"


class NothingToRun(Problem):
    status = 409
    title = "The batch has no task to run"
