"""Standings: problems."""

from signalbox.core.problems import NotFound, Problem


class BadStanding(Problem):
    title = "Invalid declaration of standings"


class NoStanding(NotFound):
    title = "Kind of standing not found"
