"""The part of a function that this process, or the address of a request, serves.

A function that is open to the network and has tasks is deployed twice from one folder: ``NAME`` for people, where no
task can be called, and ``NAME-tasks``, which is private and serves only tasks. Cloud Run verifies the callers of the
private one and removes the signatures of their tokens; an open function could not distinguish such a token from a
forged one.

In the cloud the part is a setting. The local stack serves both parts in one process and names the part in the WSGI
environment of the request, which clients cannot write.
"""

import flask

from signalbox.adapters.settings import settings

PEOPLE, TASKS = "people", "tasks"

ENVIRONMENT_KEY = "signalbox.part"


def part_served(request: flask.Request) -> str:
    """Return ``people`` or ``tasks``; empty: the whole function."""
    part: str = request.environ.get(ENVIRONMENT_KEY) or settings().part
    return part
