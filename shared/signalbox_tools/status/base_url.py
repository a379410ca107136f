"""GET from the functions for people, of the local stack or of a deployment."""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from signalbox.catalogue.parts import absent as absent_function
from signalbox_tools import http_client
from signalbox_tools.deploy.deployment_client import DeploymentClient, tokens_to_call
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import run
from signalbox_tools.local.folder.running_stack import RunningStack

SECONDS_MAX = 30.0

Get = Callable[[str], Mapping[str, Any]]
"""GET a path below the base URL."""


class Absent(Exception):
    """The requested item does not exist."""


def getter(place: Target | None, absent: str, environment: str = "") -> Get:
    """Return the `Get` of a deployment, or of the local stack of an environment's database.

    A 404 from a deployment raises `Absent` with the given text. Raises `NoStack` or `CommandFailed`.
    """
    return _cloud(place, absent) if place else _local(environment)


def _local(environment: str) -> Get:
    base_url = RunningStack.of_project(environment).base_url

    def get(path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(http_client.send("GET", base_url + path, timeout_seconds=SECONDS_MAX))
        return found

    return get


def _cloud(place: Target, absent: str) -> Get:
    client = DeploymentClient(place.base_url, tokens_to_call(place, run))

    called = {each.segment for each in place.catalogue.functions.values() if "people" in each.invoked_by}

    def get(path: str) -> Mapping[str, Any]:
        function = re.split("[/?]", path, maxsplit=1)[0]
        if function not in called and (missing := absent_function(function, place.of_database)):
            raise Absent(missing)
        found = client.request("GET", path, expect=(200, 404))
        if found is None:
            raise Absent(absent)
        answered: Mapping[str, Any] = found
        return answered

    return get
