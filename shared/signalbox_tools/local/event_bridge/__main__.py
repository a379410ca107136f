"""Run one half of the event bridge until SIGTERM.

    python -m signalbox_tools.local.event_bridge receive --port P --database FILE --route TRIGGER=URL
    python -m signalbox_tools.local.event_bridge deliver --port P --functions-port Q --database FILE \
        --route TRIGGER=URL [--chaos twice=0.1,late=0.1]
    python -m signalbox_tools.local.event_bridge deliver --port P --functions-port Q --store FILE --route TRIGGER=URL

The halves share the database file. The events of a SQLite store are in the store's file, so there is no receiving half.
The processes of the functions connect to the delivering half.
Each half serves its counters at ``/stats``.
"""

import argparse
import logging
import os
import socket
from functools import partial
from pathlib import Path

from aiohttp import web

from signalbox.adapters.settings import settings
from signalbox_tools.local.event_bridge.deliver import Deliverer
from signalbox_tools.local.event_bridge.inbox import Inbox
from signalbox_tools.local.event_bridge.receive import Receiver
from signalbox_tools.local.event_bridge.stored_events import StoredEvents, checkpoint_for_ever
from signalbox_tools.local.function_processes import FunctionProcesses, listen
from signalbox_tools.local.injected_faults import parse
from signalbox_tools.local.kept_threads import kept_thread


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m signalbox_tools.local.event_bridge", description=__doc__)
    parser.add_argument("half", choices=("receive", "deliver"))
    listen = parser.add_mutually_exclusive_group(required=True)
    listen.add_argument("--port", type=int, help="listen on this port of 127.0.0.1")
    listen.add_argument("--listening-fd", type=int, help="serve this inherited listening socket")
    parser.add_argument("--functions-port", type=int, default=0, help="port for the processes of the functions")
    events = parser.add_mutually_exclusive_group(required=True)
    events.add_argument("--database", type=Path, help="the SQLite file of received events, created if missing")
    events.add_argument("--store", type=Path, help="the SQLite store whose events are delivered, created if missing")
    parser.add_argument(
        "--route", action="append", default=[], metavar="TRIGGER=URL", help="a trigger and its function"
    )
    parser.add_argument(
        "--chaos", default=os.environ.get("CHAOS", ""), help="faults: twice, late, reorder, lose_answers, seed"
    )
    return parser


def listening_socket(port: int | None, listening_fd: int | None) -> socket.socket:
    if listening_fd is not None:
        return socket.socket(fileno=listening_fd)
    return socket.create_server(("127.0.0.1", port or 0), backlog=128)


async def application(given: argparse.Namespace) -> web.Application:
    routes = dict(route.split("=", 1) for route in given.route)
    if given.half == "receive":
        return Receiver(Inbox(given.database), routes).application()
    if given.store:
        kept_thread("checkpoints", partial(checkpoint_for_ever, given.store)).start()
    processes = FunctionProcesses()
    await listen(processes, given.functions_port)
    events = StoredEvents(given.store, settings()) if given.store else Inbox(given.database)
    return Deliverer(events, routes, processes, parse(given.chaos)).application()


def main() -> None:
    given = arguments().parse_args()
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s")
    web.run_app(
        application(given),
        sock=listening_socket(given.port, given.listening_fd),
        access_log=None,
        print=None,
        handler_cancellation=False,
    )


main()
