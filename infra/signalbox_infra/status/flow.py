"""Draw a run of a flow (`make flow ID=checkout/order-7`): of this clone's stack, or of a project in the cloud.

Exit status 1: there is no such run, or it cannot be reached.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from signalbox.catalogue.project import Project
from signalbox.catalogue.reading import Catalogue, load, url_segment
from signalbox_infra import http_client
from signalbox_infra.deploy import target
from signalbox_infra.deploy.commands import CommandFailed, run
from signalbox_infra.deploy.deployment_client import DeploymentClient, SmokeTestFailed, tokens
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.status.flow_drawing import drawn

SECONDS_MAX = 30.0

Get = Callable[[str], Mapping[str, Any]]
"""GET a path below the base URL."""


class NoRun(Exception):
    """The run that is asked for is not known."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        catalogue = load()
        get = _cloud(options) if options.project else _local()
        sys.stdout.writelines(f"{line}\n" for line in lines_of(options.run, catalogue, get, datetime.now(UTC)))
    except (NoRun, NoStack, CommandFailed, SmokeTestFailed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m signalbox_infra.status.flow", description=__doc__)
    parser.add_argument("run", metavar="FLOW/ID")
    parser.add_argument("--project", default="", help="a Google Cloud project; without it, the stack of this clone")
    parser.add_argument("--environment", default="dev", help="a file of infra/environments, without .tfvars")
    parser.add_argument("--region", default="", help="default: the environment's, else us-central1")
    return parser


def _local() -> Get:
    base_url = RunningStack.of(Project.find().state).base_url

    def get(path: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(http_client.send("GET", base_url + path, timeout_seconds=SECONDS_MAX))
        return found

    return get


def _cloud(options: argparse.Namespace) -> Get:
    place = target.read(options.project, options.environment, options.region)
    account = run(("gcloud", "config", "get-value", "account"), folder=place.root).text.strip()
    base_url = f"https://{place.region}-{place.project}.cloudfunctions.net/{place.begin}"
    client = DeploymentClient(base_url, tokens(place, account, run))

    def get(path: str) -> Mapping[str, Any]:
        found = client.request("GET", path, expect=(200, 404))
        if found is None:
            raise NoRun("There is no such run.")
        answered: Mapping[str, Any] = found
        return answered

    return get


if __name__ == "__main__":
    sys.exit(main())
