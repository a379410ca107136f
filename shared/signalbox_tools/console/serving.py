"""Serve the console for a deployment on this machine: read-only pages, unless it is started to act."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from signalbox_tools.console.identity_tokens import Tokens
from signalbox_tools.console.relay import Relay
from signalbox_tools.console.routes import Console
from signalbox_tools.deploy import project_facts
from signalbox_tools.deploy.deployment_client import tokens_to_call
from signalbox_tools.deploy.deployment_target import Target
from signalbox_tools.deploy.programs import Run, run
from signalbox_tools.status.cloud_status import CloudQueues, CloudSchedules, CloudSource
from signalbox_tools.status.status_lines import lines_of
from signalbox_tools.terminal_text import visible

SECONDS_MAX = 60.0
STREAM_SECONDS_MAX = 300.0  # between two bytes of a stream
REFRESH_SECONDS = 5


def serve(place: Target, port: int, *, acts: bool) -> None:
    """Serve the console of a deployment until Ctrl-C; port 0 chooses a free one. Raises `CommandFailed`, `OSError`.

    If it `acts`, each action is a line of JSON on the standard output.
    """
    server, relay = server_of(place, port, run, acts=acts)
    how = "which can act" if acts else "read-only"
    sys.stdout.write(f"The console of {place.project} ({place.environment}), {how}, until Ctrl-C:\n")
    sys.stdout.write(f"  http://127.0.0.1:{server.server_port}/console#key={relay.key}\n")
    sys.stdout.flush()
    server.serve_forever()


def server_of(
    place: Target, port: int, run_: Run, base_url: str = "", *, acts: bool = False
) -> tuple[BaseWSGIServer, Relay]:
    """Return a server on this machine that serves the console of a deployment. Raises `CommandFailed`."""
    base_url = base_url or place.base_url
    signed = Tokens(partial(tokens_to_call, place, run_))
    signed.token(base_url)  # it fails now and not at the first request
    named = f"{place.project}, {place.environment}, {place.region}"
    source = partial(CloudSource, place, run_)
    console = Console(
        place.catalogue,
        named,
        status=lambda: list(lines_of(source())),
        refresh_seconds=REFRESH_SECONDS,
        project=place.project,
        acts=acts,
        minutes=lambda: source().minutes(),
        queues=CloudQueues(source),
        schedules=CloudSchedules(source),
    )
    client = httpx.Client(timeout=httpx.Timeout(SECONDS_MAX, read=STREAM_SECONDS_MAX))
    server = make_server("127.0.0.1", port, _not_yet, threaded=True, request_handler=_Quiet)
    hosts = frozenset(f"{name}:{server.server_port}" for name in ("127.0.0.1", "localhost"))
    relay = Relay(console, base_url, hosts, signed, client, project_facts.signed_in(place, run_), write_line)
    server.app = relay
    return server, relay


def write_line(line: Mapping[str, Any]) -> None:
    """Write a line of the log of actions. It is JSON, and harmless on a terminal."""
    sys.stdout.write(visible(json.dumps(line, ensure_ascii=False)) + "\n")
    sys.stdout.flush()


def _not_yet(*_: object) -> list[bytes]:
    return []


class _Quiet(WSGIRequestHandler):
    """Logs nothing, because the address of a request shows the page that a person reads."""

    def log(self, type: str, message: str, *args: object) -> None:  # noqa: A002  as the base class names it
        pass
