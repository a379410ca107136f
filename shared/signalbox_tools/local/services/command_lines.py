"""The services of the local stack, as command lines."""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from signalbox.catalogue.project import KIT
from signalbox_tools import http_client
from signalbox_tools.local import function_channel
from signalbox_tools.local.folder.running_stack import FILE_OF_THE_STORE, SYNCHRONOUS
from signalbox_tools.local.functions import gunicorn_hooks, spans
from signalbox_tools.local.services.function_settings import environment_of
from signalbox_tools.local.services.ports_and_sockets import StackLayout
from signalbox_tools.local.services.service_process import RETIRED_SECONDS_MAX
from signalbox_tools.local.services.supervisor import Service
from signalbox_tools.local.store import firestore_emulator
from signalbox_tools.local.store.emulator_triggers import EmulatorEvents
from signalbox_tools.local.store.firestore_emulator import Emulator
from signalbox_tools.local.user_variables import own_environment

RESPONSE_SECONDS_MAX = 1.0
THREADS = os.environ.get("THREADS", "16")  # requests handled at once, by all functions together

OF_EVENTS = ("SIGNALBOX_DATABASE", "SIGNALBOX_LOCATION", "SIGNALBOX_PROJECT")
"""The settings that the delivering half reads. Changes of other settings do not restart it."""

READY = "?ready"
"""A parameter of health checks of the functions, whose lines the terminal does not show."""

SERVER_OPTIONS = (
    "--workers=1",
    f"--threads={THREADS}",
    "--timeout=0",
    f"--graceful-timeout={RETIRED_SECONDS_MAX:.0f}",
    "--log-level=warning",
    "--keep-alive=75",
    "--no-control-socket",
    "--limit-request-line=0",
)
"""The options of gunicorn, which serves the functions. It does not limit addresses, for it could only limit them to
8 KB: `other_sites` refuses long ones."""


def services(layout: StackLayout) -> list[Service]:
    """Return the services in the order in which they start."""
    store, receiving = [], []
    if layout.emulator and layout.events_socket:
        store = [_firestore(layout, layout.emulator)]
        receiving = [_events_receive(layout, layout.events_socket.fileno())]
    return [
        *store,
        _cloud_tasks(layout),
        *receiving,
        _events_deliver(layout),
        _functions(layout),
        _scheduler(layout),
    ]


def stats(url: str) -> Any:
    """Read a service's statistics. Return None if the service does not respond with them."""
    answer = _fetched(f"{url}/stats")
    try:
        return None if answer is None else json.loads(answer)
    except ValueError:  # another program has the port
        return None


def _fetched(url: str) -> bytes | None:
    try:
        return http_client.send("GET", url, timeout_seconds=RESPONSE_SECONDS_MAX)
    except OSError:
        return None


def _firestore(layout: StackLayout, emulator: Emulator) -> Service:
    host = layout.settings.firestore_emulator
    events = EmulatorEvents(host, layout.settings.project, layout.settings.database)
    seed = layout.data.seed if layout.data else None

    def prepare() -> None:
        if layout.data and seed:
            layout.data.correct_in_a_process({**os.environ, **environment_of(layout.settings)})
        events.register(layout.catalogue.triggers.values())

    return Service(
        "firestore",
        tuple(emulator.command(host, layout.ports["events-receive"], seed)),
        ready=lambda: firestore_emulator.answers(host),
        prepare=prepare,
        loses="its documents since the last start are gone" if seed else "its documents were in memory and are gone",
    )


def functions_environment(layout: StackLayout) -> dict[str, str]:
    """Return the environment of the functions, and of any client of the stack's store."""
    store = {} if layout.emulator else {FILE_OF_THE_STORE: str(layout.store_file), SYNCHRONOUS: layout.synchronous}
    payloads = {"SIGNALBOX_PAYLOADS": str(layout.databases / "payloads")} if layout.catalogue.payloads else {}
    return {**environment_of(layout.settings), **store, **payloads}


def _cloud_tasks(layout: StackLayout) -> Service:
    settings = layout.settings
    parent = f"projects/{settings.project}/locations/{settings.location}/queues/{settings.queue_prefix}"
    queues = {parent + name: _settings_of(asdict(queue)) for name, queue in layout.catalogue.shards.items()}
    ports = (f"--port={layout.ports['cloud-tasks']}", f"--keys-port={layout.ports['keys']}")
    database: tuple[str, ...] = (f"--database={layout.store_file}", f"--store={layout.synchronous}")
    if layout.emulator:
        database = (f"--database={layout.databases / 'cloud-tasks.sqlite'}",)
    command = _module(
        "signalbox_tools.local.cloud_tasks",
        *ports,
        *database,
        f"--queues={json.dumps(queues)}",
        f"--functions-port={layout.ports['task-channel']}",
        f"--functions-url={layout.base_url}",
        f"--chaos={layout.chaos}",
    )
    return Service("cloud-tasks", command, ready=_answers(layout.url("keys")), after=_store_name(layout))


def _settings_of(queue: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in queue.items() if name not in ("name", "shards")}


def _events_receive(layout: StackLayout, listening_fd: int) -> Service:
    command = _bridge(layout, "receive", f"--listening-fd={listening_fd}")
    ready, is_needed = _answers(layout.url("events-receive")), bool(layout.catalogue.triggers)
    return Service("events-receive", command, ready=ready, inherits=(listening_fd,), is_needed=is_needed)


def _events_deliver(layout: StackLayout) -> Service:
    ports = (f"--port={layout.ports['events-deliver']}", f"--functions-port={layout.ports['event-channel']}")
    command = _bridge(layout, "deliver", *ports, f"--chaos={layout.chaos}")
    ready = _answers(layout.url("events-deliver"))
    environment = {name: text for name, text in functions_environment(layout).items() if name in OF_EVENTS}
    after, is_needed = _store_name(layout), bool(layout.catalogue.triggers)
    return Service("events-deliver", command, ready=ready, after=after, environment=environment, is_needed=is_needed)


def _bridge(layout: StackLayout, half: str, *more: str) -> tuple[str, ...]:
    triggers = layout.catalogue.triggers.values()
    routes = [f"--route={each.name}={layout.settings.address_of(each.function)}{each.path}" for each in triggers]
    inbox = layout.databases / "events.sqlite"
    events = f"--database={inbox}" if layout.emulator else f"--store={layout.store_file}"
    return _module("signalbox_tools.local.event_bridge", half, events, *routes, *more)


def _functions(layout: StackLayout) -> Service:
    listening_fd = layout.functions_socket.fileno()
    loaded = layout.folder / "functions.loaded"
    bind = (f"--bind=fd://{listening_fd}", "--config=python:signalbox_tools.local.functions.gunicorn_hooks")
    application = f"signalbox_tools.local.functions.server:application({str(layout.catalogue_file)!r}"
    application += "" if layout.catalogue.examples else ", examples=False"
    application += f", database={layout.catalogue.database!r})" if layout.catalogue.database else ")"
    channels = {function_channel.TASKS: "task-channel"}
    channels |= {function_channel.EVENTS: "event-channel"} if layout.catalogue.triggers else {}
    return Service(
        "functions",
        _module("gunicorn", *bind, *SERVER_OPTIONS, f"--workers={layout.workers}", application),
        ready=lambda: _fetched(f"{layout.base_url}{READY}") is not None,
        environment={
            "PYTHONPATH": os.pathsep.join(map(str, (layout.catalogue.root, *KIT.source_paths))),
            "PYTHONUNBUFFERED": "1",
            gunicorn_hooks.VARIABLE: str(loaded),
            **{variable: f"127.0.0.1:{layout.ports[name]}" for variable, name in channels.items()},
            spans.VARIABLE: str(layout.folder / spans.FILE),
            "SIGNALBOX_ARCHIVES": str(layout.databases / "archives"),
            **own_environment(layout.catalogue),
            **functions_environment(layout),
        },
        inherits=(listening_fd,),
        load_error=lambda pid: gunicorn_hooks.load_error(loaded, pid),
    )


def _scheduler(layout: StackLayout) -> Service:
    schedules = json.dumps([asdict(schedule) for schedule in layout.catalogue.schedules.values()])
    where = (f"--schedules={schedules}", f"--base-url={layout.base_url}")
    who = (f"--account={layout.settings.scheduler_account}", f"--identity-url={layout.url('keys')}")
    active = ("keys", "events-deliver") if layout.catalogue.triggers else ("keys",)
    stats_urls = [f"--stats-url={layout.url(name)}/stats" for name in active]
    folder = f"--folder={layout.folder}"
    command = _module("signalbox_tools.local.scheduler", *where, *who, *stats_urls, folder)
    after, is_needed = ("cloud-tasks", "functions"), bool(layout.catalogue.schedules)
    return Service("scheduler", command, ready=lambda: True, after=after, is_needed=is_needed)


def _store_name(layout: StackLayout) -> tuple[str, ...]:
    return ("firestore",) if layout.emulator else ()


def _module(name: str, *arguments: str) -> tuple[str, ...]:
    return (sys.executable, "-m", name, *arguments)


def _answers(url: str) -> Callable[[], bool]:
    return lambda: stats(url) is not None
