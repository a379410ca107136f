"""Which part of a function this process, or this address of it, serves.

A function that is open to the network and has tasks is deployed twice from one folder: ``NAME`` for people, where no
task can be called, and ``NAME-tasks``, private, where nothing else can. Cloud Run verifies the callers of the private
one, and removes the signatures of their tokens: an open function could not tell such a token from a forged one.

In the cloud the part is a setting. The local stack serves both in one process, and names the part in the environment of
the request, which no client can write.
"""

import flask

from shared.adapters.settings import settings

PEOPLE, TASKS = "people", "tasks"
ENVIRONMENT_KEY = "signalbox.part"


def part_served(request: flask.Request) -> str:
    """Return ``people`` or ``tasks``; empty: the whole function."""
    part: str = request.environ.get(ENVIRONMENT_KEY) or settings().part
    return part
