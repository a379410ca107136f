"""Draw a run of a flow: of a local stack, or of a deployment in the cloud."""

import json
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import Catalogue, load, url_segment
from signalbox_infra import http_client
from signalbox_infra.deploy import facts
from signalbox_infra.deploy.commands import run
from signalbox_infra.deploy.deployment_client import DeploymentClient, tokens
from signalbox_infra.deploy.target import Target
from signalbox_infra.local.folder.running_stack import RunningStack
from signalbox_infra.status.flow_drawing import drawn

SECONDS_MAX = 30.0

Get = Callable[[str], Mapping[str, Any]]
"""GET a path below the base URL."""


class NoRun(Exception):
    """The run that is asked for is not known."""


def drawing(run_: str, place: Target | None) -> Iterator[str]:
    """Iterate over the lines of a run ``flow/id``; `place` None: of the project's local stack.

    Raises `NoRun`, `NoStack`, `CommandFailed`, `SmokeTestFailed` or `OSError`.
    """
    get = _cloud(place) if place else _local()
    return lines_of(run_, place.catalogue if place else load(), get, datetime.now(UTC))


def lines_of(run_: str, catalogue: Catalogue, get: Get, now: datetime) -> Iterator[str]:
    """Iterate over the lines of the run ``flow/id``. Raises `NoRun` for a flow that the catalogue does not have."""
    flow, _, id_ = run_.partition("/")
    if flow not in catalogue.flow_functions or not id_:
        known = ", ".join(sorted(catalogue.flow_functions)) or "none"
        raise NoRun(f"Name a flow of the catalogue and a run of it: ID=FLOW/ID. Its flows: {known}.")
    path = f"{url_segment(catalogue.flow_functions[flow])}/flows/{flow}/{quote(id_, safe='')}"
    return drawn(get(path), list(_entries(get, f"{path}/log")), now)


def _entries(get: Get, path: str) -> Iterator[Mapping[str, Any]]:
    page = get(path)
    yield from page["entries"]
    while token := page.get("next_page_token"):
        page = get(f"{path}?page_token={quote(token)}")
        yield from page["entries"]


def _local() -> Get:
    base_url = RunningStack.of(Project.find().state).base_url

    def get(path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(http_client.send("GET", base_url + path, timeout_seconds=SECONDS_MAX))
        return found

    return get


def _cloud(place: Target) -> Get:
    base_url = f"https://{place.region}-{place.project}.cloudfunctions.net/{place.begin}"
    client = DeploymentClient(base_url, tokens(place, facts.signed_in(place, run), run))

    def get(path: str) -> Mapping[str, Any]:
        found = client.request("GET", path, expect=(200, 404))
        if found is None:
            raise NoRun("There is no such run.")
        answered: Mapping[str, Any] = found
        return answered

    return get
