"""Resources: problems."""

from signalbox.core.problems import Problem


class ItemDeleted(Problem):
    status = 410
    title = "The item was deleted"
