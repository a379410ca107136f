"""The address of a folder's local stack, in a file that the stack writes when it is up and removes when it ends."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from signalbox_tools import http_client

FILE = "stack.json"
RESPONSE_SECONDS_MAX = 5.0


class NoStack(Exception):
    """No stack runs on the folder."""


@dataclass(frozen=True, slots=True)
class RunningStack:
    """A running stack. `environment` has the variables of its functions, including those for a client of its store."""

    folder: str
    pid: int
    base_url: str
    store: str
    queues_url: str
    events_url: str
    environment: Mapping[str, str]

    @property
    def functions_log(self) -> Path:
        return Path(self.folder) / "functions.log"

    def serves(self) -> bool:
        """Return whether the functions respond."""
        try:
            http_client.send("GET", f"{self.base_url}?ready", timeout_seconds=RESPONSE_SECONDS_MAX)
        except OSError:
            return False
        return True

    def announce(self) -> None:
        """Write the file, readable by this user only, since it contains the key of an embedded store."""
        file = Path(self.folder) / FILE
        with suppress(OSError):
            file.unlink()
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as opened:
            json.dump(asdict(self), opened)

    def withdraw(self) -> None:
        """Remove the file."""
        (Path(self.folder) / FILE).unlink(missing_ok=True)

    @classmethod
    def of(cls, folder: Path) -> Self:
        """Return the stack that runs on a folder. Raises `NoStack`."""
        try:
            stack = cls(**json.loads((folder / FILE).read_text("utf-8")))
            os.kill(stack.pid, 0)
        except (OSError, ValueError, TypeError) as error:
            raise NoStack("No local stack runs here. Start one: signalbox dev") from error
        return stack
