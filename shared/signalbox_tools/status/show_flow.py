"""Draw a run of a flow: of a local stack, or of a deployment in the cloud."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from signalbox.catalogue.reading import Catalogue, database_in, load, url_segment
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.status.base_url import Absent, Get, getter
from signalbox_tools.status.flow_drawing import drawn


class NoRun(Absent):
    """The run does not exist."""


def drawing(run_: Sequence[str], place: Target | None, environment: str = "") -> Iterator[str]:
    """Iterate over the lines of a run; `place` None is the local stack of an environment's database.

    A run is ``flow/id``, or its function, flow and id.

    Raises `Absent`, `NoStack`, `CommandFailed`, `SmokeTestFailed` or `OSError`.
    """
    get = getter(place, "There is no such run.", environment)
    catalogue = place.catalogue if place else load(database=database_in(environment))
    return lines_of(run_, catalogue, get, datetime.now(UTC))


def lines_of(run_: Sequence[str], catalogue: Catalogue, get: Get, now: datetime) -> Iterator[str]:
    """Iterate over the lines of the run ``flow/id``, or of a function, flow and id.

    Raises `NoRun` for a flow that the catalogue does not have.
    """
    function, flow, id_ = run_ if len(run_) > 1 else ("", *run_[0].partition("/")[::2])
    if flow not in catalogue.flow_functions or not id_:
        known = ", ".join(sorted(catalogue.flow_functions)) or "none"
        raise NoRun(f"Name a flow of the catalogue and a run of it: FLOW/ID, or FUNCTION FLOW ID. Its flows: {known}.")
    path = f"{url_segment(function or catalogue.flow_functions[flow])}/flows/{flow}/{quote(id_, safe='')}"
    return drawn(get(path), list(_entries(get, f"{path}/log")), now)


def _entries(get: Get, path: str) -> Iterator[Mapping[str, Any]]:
    page = get(path)
    yield from page["entries"]
    while token := page.get("next_page_token"):
        page = get(f"{path}?page_token={quote(token)}")
        yield from page["entries"]
