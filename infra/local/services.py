"""What the local stack consists of, as command lines: from a catalogue, a folder and free ports to the parts to run."""

import http.client
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from infra.catalogue import Catalogue
from infra.local import firestore_emulator, processes
from infra.local.environment import environment_of
from infra.local.firestore_emulator import Emulator
from infra.local.supervisor import ROOT, Service
from infra.local.triggers import Events
from shared.adapters.settings import EMBEDDED, Settings

ANSWER_SECONDS_MAX = 1.0
THREADS = os.environ.get("THREADS", "16")  # requests handled at once, by all functions together
BACKLOG = 1_024


@dataclass(frozen=True, slots=True)
class Plan:
    """All that the parts have to know of each other. `emulator` None: the functions embed the store."""

    catalogue_file: Path
    catalogue: Catalogue
    folder: Path
    emulator: Emulator | None
    settings: Settings
    base_url: str
    ports: Mapping[str, int]
    chaos: str
    functions_socket: socket.socket
    events_socket: socket.socket

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"


def plan(
    catalogue_file: Path,
    catalogue: Catalogue,
    folder: Path,
    emulator: Emulator | None,
    settings: Settings,
    port: int | None,
    chaos: str,
) -> Plan:
    """Choose the ports and open the sockets that outlive their servers. Raises `OSError` when `port` is taken.

    In the settings it replaces where things are on this machine, and what Google knows without being told: the triggers
    and the indexes.
    """
    functions_socket = socket.create_server(("127.0.0.1", port or 0), backlog=BACKLOG)
    events_socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    names = ("firestore", "cloud-tasks", "keys", "events-deliver")
    ports = dict(zip(names, processes.free_ports(len(names)), strict=True))
    ports |= {"functions": functions_socket.getsockname()[1], "events-receive": events_socket.getsockname()[1]}
    base_url = f"http://127.0.0.1:{ports['functions']}/"
    settings = replace(
        settings,
        firestore_emulator=f"127.0.0.1:{ports['firestore']}" if emulator else EMBEDDED,
        tasks_emulator=f"127.0.0.1:{ports['cloud-tasks']}",
        events_url=f"http://127.0.0.1:{ports['events-receive']}",
        function_url=base_url + "{function}",
        triggers={name: trigger.document for name, trigger in catalogue.triggers.items()},
        keys_url=f"http://127.0.0.1:{ports['keys']}/oauth2/v1/certs",
        indexes=tuple(index.parsed for index in catalogue.indexes.values()),
    )
    return Plan(
        catalogue_file, catalogue, folder, emulator, settings, base_url, ports, chaos, functions_socket, events_socket
    )


def parts(plan: Plan) -> list[Service]:
    """List the parts in the order in which they start."""
    firestore = [_firestore(plan, plan.emulator)] if plan.emulator else []
    return [
        *firestore,
        _cloud_tasks(plan),
        _events_receive(plan),
        _events_deliver(plan),
        _functions(plan),
        _scheduler(plan),
    ]


def stats(url: str) -> Any:
    """Read a part's numbers; None when it does not answer."""
    answer = _fetched(f"{url}/stats")
    return None if answer is None else json.loads(answer)


def _fetched(url: str) -> bytes | None:
    try:
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS_MAX) as answer:  # noqa: S310 (a part's address)
            content: bytes = answer.read()
            return content
    except (OSError, http.client.HTTPException):
        return None


def _firestore(plan: Plan, emulator: Emulator) -> Service:
    host = plan.settings.firestore_emulator
    events = Events(host, plan.settings.project, plan.settings.database)
    return Service(
        "firestore",
        tuple(emulator.command(plan.ports["firestore"], plan.ports["events-receive"])),
        ready=lambda: firestore_emulator.answers(host),
        prepare=lambda: events.register(plan.catalogue.triggers.values()),
        loses="its documents were in memory and are gone",
    )


def _cloud_tasks(plan: Plan) -> Service:
    settings = plan.settings
    parent = f"projects/{settings.project}/locations/{settings.location}/queues/{settings.queue_prefix}"
    queues = {parent + name: _settings_of(asdict(queue)) for name, queue in plan.catalogue.queues.items()}
    ports = (f"--port={plan.ports['cloud-tasks']}", f"--keys-port={plan.ports['keys']}")
    database = f"--database={plan.folder / 'cloud-tasks.sqlite'}"
    command = _module(
        "infra.local.cloud_tasks", *ports, database, f"--queues={json.dumps(queues)}", f"--chaos={plan.chaos}"
    )
    return Service("cloud-tasks", command, ready=_answers(plan.url("keys")))


def _settings_of(queue: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in queue.items() if name != "name"}


def _events_receive(plan: Plan) -> Service:
    listening_fd = plan.events_socket.fileno()
    command = _bridge(plan, "receive", f"--listening-fd={listening_fd}")
    return Service("events-receive", command, ready=_answers(plan.url("events-receive")), inherits=(listening_fd,))


def _events_deliver(plan: Plan) -> Service:
    command = _bridge(plan, "deliver", f"--port={plan.ports['events-deliver']}", f"--chaos={plan.chaos}")
    return Service("events-deliver", command, ready=_answers(plan.url("events-deliver")))


def _bridge(plan: Plan, half: str, *more: str) -> tuple[str, ...]:
    functions = plan.catalogue.functions
    triggers = plan.catalogue.triggers.values()
    routes = [f"--route={each.name}={plan.base_url}{functions[each.function].segment}" for each in triggers]
    return _module("infra.local.event_bridge", half, f"--database={plan.folder / 'events.sqlite'}", *routes, *more)


def _functions(plan: Plan) -> Service:
    listening_fd = plan.functions_socket.fileno()
    application = f"infra.local.functions_server:application({str(plan.catalogue_file)!r})"
    command = _module(
        "gunicorn",
        f"--bind=fd://{listening_fd}",
        "--workers=1",
        f"--threads={THREADS}",
        "--timeout=0",
        "--graceful-timeout=1",
        "--keep-alive=75",
        "--no-control-socket",
        application,
    )
    return Service(
        "functions",
        command,
        ready=lambda: _fetched(plan.base_url) is not None,
        environment={"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **environment_of(plan.settings)},
        inherits=(listening_fd,),
        loses="" if plan.emulator else "the store was embedded in it and is gone",
    )


def _scheduler(plan: Plan) -> Service:
    where = (f"--catalogue={plan.catalogue_file}", f"--base-url={plan.base_url}")
    who = (f"--account={plan.settings.scheduler_account}", f"--identity-url={plan.url('keys')}")
    return Service("scheduler", _module("infra.local.scheduler", *where, *who), ready=lambda: True)


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _answers(url: str) -> Callable[[], bool]:
    return lambda: stats(url) is not None
