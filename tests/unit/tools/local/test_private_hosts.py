"""A server without a check of its callers has an address that a web page cannot find."""

import socket
import sys
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from signalbox.catalogue.reading import load
from signalbox_tools.local import child_processes
from signalbox_tools.local.event_bridge.deliver import Deliverer
from signalbox_tools.local.event_bridge.receive import Receiver
from signalbox_tools.local.loopback import programs_only
from signalbox_tools.local.services.command_lines import services
from signalbox_tools.local.services.function_settings import settings_of
from signalbox_tools.local.services.ports_and_sockets import plan
from signalbox_tools.local.store.firestore_emulator import Emulator


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers at all addresses of 127.0.0.0/8")
def test_the_emulator_of_each_start_has_another_address(tmp_path: Path) -> None:
    hosts = {emulators_host(tmp_path) for _ in range(5)}
    assert len(hosts) == 5
    assert all(IPv4Address(host) in IPv4Network("127.0.0.0/8") for host in hosts)
    assert "127.0.0.1" not in hosts


def emulators_host(root: Path) -> str:
    """Return the address that a planned stack gives to its emulator, and to its functions."""
    file = root / "catalogue.yaml"
    file.write_text(yaml.safe_dump({"functions": {}}))
    catalogue = load(file)
    layout = plan(
        file, catalogue, root, None, Emulator("java", root / "jar"), settings_of(catalogue), None, "", "NORMAL"
    )
    layout.close()
    [host] = {each.removeprefix("--host=") for each in services(layout)[0].command if each.startswith("--host=")}
    assert layout.settings.firestore_emulator == f"{host}:{layout.ports['firestore']}"
    return host


def test_a_machine_that_has_only_127_0_0_1_gives_that(monkeypatch: pytest.MonkeyPatch) -> None:
    class Macs(socket.socket):
        def bind(self, address: Any) -> None:
            if address[0] != "127.0.0.1":
                raise OSError("can't assign requested address")

    monkeypatch.setattr(socket, "socket", Macs)
    assert child_processes.private_host() == "127.0.0.1"


@pytest.mark.parametrize("half", ["receive", "deliver"])
def test_both_halves_of_the_bridge_answer_programs_only(half: str) -> None:
    inbox: Any = None
    processes: Any = None
    chaos: Any = None
    application: web.Application = (
        Receiver(inbox, ()).application() if half == "receive" else Deliverer(inbox, {}, processes, chaos).application()
    )
    assert programs_only in application.middlewares
