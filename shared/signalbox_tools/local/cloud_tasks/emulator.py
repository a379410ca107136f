"""The local Cloud Tasks alone, for any project: gRPC, REST and a page, without a catalogue or an account of Google."""

import argparse
import asyncio
import socket
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from signalbox_tools.local.cloud_tasks.__main__ import run
from signalbox_tools.local.cloud_tasks.request_validation import QUEUE_FORMAT, QUEUE_NAME
from signalbox_tools.local.injected_faults import parse

TOMBSTONE_SECONDS = 3600.0


class WrongOption(Exception):
    """An option of the emulator is wrong. The message says how it is written."""


def queues_of(options: Iterable[str], project: str, location: str) -> Mapping[str, str]:
    """Return the addresses of tasks without one, by the full names of queues. Raises `WrongOption`.

    An option is a queue's name, or ``NAME=URL`` with that address. A short name is in the given project and location.
    """
    queues = {}
    for option in options:
        name, _, url = option.partition("=")
        if not name or (url and not url.startswith(("http://", "https://"))):
            raise WrongOption(f"--queue {option}: write NAME or NAME=http://127.0.0.1:8080/path")
        full = name if name.startswith("projects/") else f"projects/{project}/locations/{location}/queues/{name}"
        if not QUEUE_NAME.fullmatch(full):
            raise WrongOption(f"--queue {option}: {full} is not a name of a queue: {QUEUE_FORMAT}")
        queues[full] = url
    return queues


def serve(
    port: int, rest_port: int, data: Path, queues: Mapping[str, str], chaos: str, ready: Callable[[], None]
) -> None:
    """Serve until SIGTERM or SIGINT. `ready` is called when both ports answer.

    Raises `WrongOption` for faults that cannot be read, equal ports, a port that is taken, and a file that is not the
    emulator's or is in use.
    """
    if port == rest_port:
        raise WrongOption(f"--port and --rest-port are both {port}: gRPC and REST need different ports")
    try:
        faults = parse(chaos)
    except ValueError as error:
        raise WrongOption(f"--chaos {chaos}: {error}") from error
    _check_free({"--port": port, "--rest-port": rest_port})
    data.parent.mkdir(parents=True, exist_ok=True)
    ports = {"port": port, "rest_port": rest_port, "keys_port": None, "functions_port": None, "functions_url": ""}
    options = argparse.Namespace(
        **ports, database=data, store=None, queues=[], targets=queues, chaos=faults, tombstone_seconds=TOMBSTONE_SECONDS
    )
    try:
        asyncio.run(run(options, ready))
    except sqlite3.DatabaseError as error:
        raise WrongOption(f"--data {data}: {_reason(error)}") from error


def _check_free(ports: Mapping[str, int]) -> None:
    for option, port in ports.items():
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            raise WrongOption(f"{option} {port}: {error.strerror}. Choose another port") from error


def _reason(error: sqlite3.DatabaseError) -> str:
    match error.sqlite_errorname:
        case "SQLITE_BUSY":
            return "another emulator uses this file. Stop it, or name another file"
        case "SQLITE_NOTADB":
            return "this file is not one of the emulator's. Name another file"
        case _:
            return str(error)
