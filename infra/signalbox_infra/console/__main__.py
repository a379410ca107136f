"""Serve the console for a deployment on this machine until Ctrl-C (`make console PROJECT=my-project`).

Without a project: print where the console of this clone's stack is, which `make dev` serves. `PORT` is the port; else
a free one is chosen. Exit status 1: there is no stack, the port is taken, or gcloud has no account.
"""

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from functools import partial

import httpx
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from signalbox.catalogue.project import Project
from signalbox_infra.console.pages import Console
from signalbox_infra.console.relay import Relay
from signalbox_infra.console.tokens import TokenFor, Tokens
from signalbox_infra.deploy import target
from signalbox_infra.deploy.commands import CommandFailed, Run, run
from signalbox_infra.deploy.deployment_client import tokens
from signalbox_infra.deploy.target import Target
from signalbox_infra.local.folder.running_stack import NoStack, RunningStack
from signalbox_infra.status.cloud import CloudSource
from signalbox_infra.status.report import lines_of

SECONDS_MAX = 60.0
STREAM_SECONDS_MAX = 300.0  # between two bytes of a stream
REFRESH_SECONDS = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if not options.project:
            sys.stdout.write(f"{RunningStack.of(Project.find().state).base_url}console\n")
            return 0
        place = target.read(options.project, options.environment, options.region)
        with contextlib.suppress(KeyboardInterrupt):
            _serve(place, options.port)
    except (NoStack, CommandFailed, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m signalbox_infra.console", description=__doc__)
    parser.add_argument("--project", default="", help="a Google Cloud project; without it, the stack of this clone")
    parser.add_argument("--environment", default="dev", help="a file of infra/environments, without .tfvars")
    parser.add_argument("--region", default="", help="default: the environment's, else us-central1")
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT") or 0), help="default: a free one")
    return parser


def _serve(place: Target, port: int) -> None:
    server, relay = server_of(place, port, run)
    sys.stdout.write(f"The console of {place.project} ({place.environment}), read-only, until Ctrl-C:\n")
    sys.stdout.write(f"  http://127.0.0.1:{server.server_port}/console#key={relay.key}\n")
    sys.stdout.flush()
    server.serve_forever()


def server_of(place: Target, port: int, run_: Run, base_url: str = "") -> tuple[BaseWSGIServer, Relay]:
    """Return a server on this machine that serves the console of a deployment. Raises `CommandFailed`."""
    base_url = base_url or f"https://{place.region}-{place.project}.cloudfunctions.net/{place.begin}"
    signed = Tokens(partial(_tokens, place, run_))
    signed.token(base_url)  # fails now, not at the first request
    named = f"{place.project}, {place.environment}, {place.region}"
    console = Console(
        place.catalogue,
        named,
        status=lambda: list(lines_of(CloudSource(place, run_))),
        status_is_quick=False,
        refresh_seconds=REFRESH_SECONDS,
        project=place.project,
    )
    client = httpx.Client(timeout=httpx.Timeout(SECONDS_MAX, read=STREAM_SECONDS_MAX))
    server = make_server("127.0.0.1", port, _not_yet, threaded=True, request_handler=_Quiet)
    hosts = frozenset(f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost"))
    relay = Relay(console, base_url, hosts, signed, client)
    server.app = relay
    return server, relay


def _tokens(place: Target, run_: Run) -> TokenFor:
    account = run_(("gcloud", "config", "get-value", "account"), folder=place.root).text.strip()
    return tokens(place, account, run_)


def _not_yet(*_: object) -> list[bytes]:
    return []


class _Quiet(WSGIRequestHandler):
    """Logs nothing: a request's address would show what a person looks at."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  as the base class names it
        pass


if __name__ == "__main__":
    sys.exit(main())
