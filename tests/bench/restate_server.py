"""Restate, which runs the same counter as a virtual object, and the same flows. Its server is installed with npm.

It is not a dependency of this project, since its server is under the Business Source License. It is measured if it is
installed:

npm install --prefix tests/bench/rivals --no-save --ignore-scripts @restatedev/restate-server @restatedev/restate-sdk

The server writes to disk. It calls the code in a process of Node.js, over a connection that stays open.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx

from signalbox_tools.local import child_processes
from tests.emulator.polling_until import eventually

FOLDER = Path(__file__).parent / "rivals"
PACKAGES = FOLDER / "node_modules" / "@restatedev"
SERVER = "restate-server-*/bin/restate-server"
SECONDS_MAX = 60

Call = Callable[..., Any]
"""Calls a handler, given the parts of its path and a `body` for JSON; returns its result."""


def are_installed() -> bool:
    """Return whether the server, the library and Node.js are installed."""
    return bool(shutil.which("node")) and (PACKAGES / "restate-sdk").is_dir() and bool([*PACKAGES.glob(SERVER)])


@contextmanager
def serving(script: str) -> Iterator[Call]:
    """Start Restate and a script of `FOLDER`; yield the function that calls its handlers."""
    ingress, admin, inner, code = child_processes.free_ports(4)
    settings = {
        "RESTATE_INGRESS__BIND_PORT": ingress,
        "RESTATE_ADMIN__BIND_PORT": admin,
        "RESTATE_BIND_PORT": inner,
        "RESTATE_BIND_IP": "127.0.0.1",
        "RESTATE_LISTEN_MODE": "tcp",
        "RESTATE_DISABLE_TELEMETRY": "true",
    }
    with tempfile.TemporaryDirectory() as folder, ExitStack() as exits:
        environment = {"RESTATE_BASE_DIR": folder} | {name: str(value) for name, value in settings.items()}
        log = exits.enter_context((Path(folder) / "log").open("wb"))
        for command in ((str(next(PACKAGES.glob(SERVER))),), ("node", str(FOLDER / script), str(code))):
            exits.callback(child_processes.stop, child_processes.start(command, output=log, environment=environment))
        http = exits.enter_context(httpx.Client(timeout=SECONDS_MAX))
        for port in (ingress, admin, code):
            eventually(partial(child_processes.listens, port), SECONDS_MAX)
        eventually(lambda: _declared(http, admin, code), SECONDS_MAX)

        def call(*path: str, body: Any = None) -> Any:
            sent = {} if body is None else {"json": body}
            return http.post(f"http://127.0.0.1:{ingress}/{'/'.join(path)}", **sent).raise_for_status().json()

        yield call


def _declared(http: httpx.Client, admin: int, code: int) -> bool:
    """Register the code's address with the server; return whether that succeeded."""
    uri = {"uri": f"http://127.0.0.1:{code}"}
    return http.post(f"http://127.0.0.1:{admin}/deployments", json=uri).is_success
