"""A PostgreSQL server for a rival, if PostgreSQL is installed (Debian: apt-get install postgresql)."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from signalbox_tools.local import child_processes
from tests.emulator.polling_until import eventually

DEBIAN = "/usr/lib/postgresql"
SECONDS_MAX = 30.0
NOT_ROOT = "postgres"
"""The server refuses to run as root. Then it runs as this user, which Debian's package creates."""


def programs() -> Path | None:
    """Return the folder of the server's programs, or None."""
    if found := shutil.which("initdb"):
        return Path(found).parent
    return max((each.parent for each in Path(DEBIAN).glob("*/bin/initdb")), default=None)


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """Start an empty server with its default settings; yield the URL of a database."""
    port = child_processes.free_port()
    as_user = ["runuser", "-u", NOT_ROOT, "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory() as data, tempfile.TemporaryFile() as log:
        if as_user:
            shutil.chown(data, NOT_ROOT)
        options = ("--auth=trust", f"--username={NOT_ROOT}", "--encoding=UTF8")
        subprocess.run([*as_user, folder / "initdb", f"--pgdata={data}", *options], check=True, capture_output=True)
        command = [*as_user, str(folder / "postgres"), "-D", data, "-p", str(port), "-k", data, "-h", "127.0.0.1"]
        server = child_processes.start(command, output=log)
        try:
            eventually(lambda: child_processes.listens(port), SECONDS_MAX)
            yield f"postgresql://{NOT_ROOT}@127.0.0.1:{port}/{NOT_ROOT}"
        finally:
            child_processes.stop(server)
