"""The ports, sockets and settings of a local stack's services, derived from a catalogue."""

import errno
import os
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from signalbox.adapters.settings import SQLITE, Settings
from signalbox.adapters.sqlite.file import Synchronous
from signalbox.catalogue.reading import Catalogue
from signalbox_tools.local import child_processes
from signalbox_tools.local.folder.data_folder import DataFolder
from signalbox_tools.local.services.function_settings import declared_by
from signalbox_tools.local.store.firestore_emulator import Emulator

BACKLOG = 1_024
RELEASE_SECONDS_MAX = 1.0
CHOSEN = ("firestore", "cloud-tasks", "keys", "task-channel", "events-deliver", "event-channel")
"""The servers that open their ports themselves. Until then, sockets of the stack reserve the ports."""


@dataclass(frozen=True, slots=True)
class StackLayout:
    """The ports, sockets and settings of all services. If `emulator` is None, the store is a file.

    `events_socket` receives the events of an emulator. `others` has the base URLs of the stacks of other databases.
    """

    catalogue_file: Path
    catalogue: Catalogue
    folder: Path
    data: DataFolder | None
    emulator: Emulator | None
    settings: Settings
    base_url: str
    ports: Mapping[str, int]
    chaos: str
    functions_socket: socket.socket
    events_socket: socket.socket | None
    reserved: Sequence[socket.socket]
    synchronous: Synchronous
    others: Mapping[str, str]

    @property
    def workers(self) -> int:
        """The number of processes that serve functions."""
        return os.cpu_count() or 1

    @property
    def databases(self) -> Path:
        """The folder of the files of the store, the queues and the events."""
        return self.data.path if self.data else self.folder

    @property
    def store_file(self) -> Path:
        return DataFolder(self.databases).store_file

    def close(self) -> None:
        """Close the sockets of the stack itself."""
        for opened in (self.functions_socket, *self.reserved):
            opened.close()
        if self.events_socket:
            self.events_socket.close()

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.ports[name]}"


def plan(
    catalogue_file: Path,
    catalogue: Catalogue,
    folder: Path,
    data: DataFolder | None,
    emulator: Emulator | None,
    settings: Settings,
    port: int | None,
    chaos: str,
    synchronous: Synchronous = "NORMAL",
    others: Mapping[str, str] | None = None,
) -> StackLayout:
    """Choose the ports and open the sockets that outlive their servers. Raises `OSError` when `port` is taken.

    The layout replaces the settings that name addresses, and those that follow from the catalogue.
    """
    functions_socket = listen(port or 0)
    events_socket = listen(0) if emulator else None
    chosen, reserved = child_processes.reserved_ports(len(CHOSEN))
    ports = dict(zip(CHOSEN, chosen, strict=True))
    ports["functions"] = functions_socket.getsockname()[1]
    if events_socket:
        ports["events-receive"] = events_socket.getsockname()[1]
    base_url = f"http://127.0.0.1:{ports['functions']}/"
    settings = declared_by(catalogue, _with_addresses(settings, ports, emulator), others)
    where = (catalogue_file, catalogue, folder, data, emulator, settings, base_url, ports)
    return StackLayout(*where, chaos, functions_socket, events_socket, reserved, synchronous, others or {})


def _with_addresses(settings: Settings, ports: Mapping[str, int], emulator: Emulator | None) -> Settings:
    return replace(
        settings,
        firestore_emulator=f"{child_processes.private_host()}:{ports['firestore']}" if emulator else SQLITE,
        tasks_emulator=f"127.0.0.1:{ports['cloud-tasks']}",
        function_url=f"http://127.0.0.1:{ports['functions']}/{{function}}",
        keys_url=f"http://127.0.0.1:{ports['keys']}/oauth2/v1/certs",
    )


def with_catalogue(layout: StackLayout, catalogue: Catalogue) -> StackLayout:
    """Return the layout of the same stack with another catalogue, and with all settings that follow from it."""
    return replace(layout, catalogue=catalogue, settings=declared_by(catalogue, layout.settings, layout.others))


def listen(port: int) -> socket.socket:
    """Listen on a port, which the killed processes of an earlier stack release only when they have ended."""
    give_up_at = time.monotonic() + RELEASE_SECONDS_MAX
    while True:
        try:
            return socket.create_server(("127.0.0.1", port), backlog=BACKLOG)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > give_up_at:
                raise OSError(
                    error.errno, f"Port {port} is taken ({error.strerror}). Choose another: PORT={port + 1}"
                ) from error
        time.sleep(child_processes.POLL_SECONDS)
