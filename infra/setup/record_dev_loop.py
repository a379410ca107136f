"""Record what the terminal shows under `make dev` while a function is made, changed, broken and repaired.

    python -m infra.setup.record_dev_loop

Writes docs/dev-loop.txt and docs/dev-loop.cast (asciinema, version 2) from a real run in a copy of this clone.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path

from infra import http_client
from infra.local import processes

PROJECT = Path(__file__).resolve().parents[2]
NOT_CLONED = (".git", ".venv", ".local", "dist", "__pycache__", ".*_cache", ".hypothesis")
WIDTH, HEIGHT = 110, 40
SECONDS_MAX = 60
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WORK = 'print("working on", key)'


class Recording:
    """The output of a command on a terminal of its own, with the times at which it came."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        self._reading, terminal = pty.openpty()
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", HEIGHT, WIDTH, 0, 0))
        self.process = subprocess.Popen(  # noqa: S603 (a list, no shell)
            command, cwd=folder, env=environment, stdout=terminal, stderr=terminal, start_new_session=True
        )
        os.close(terminal)
        self._began = time.monotonic()
        self.events: list[tuple[float, str]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        return "".join(text for _, text in self.events)

    def note(self, text: str) -> None:
        """Show what the reader of the recording does meanwhile."""
        self.events.append((time.monotonic() - self._began, f"\x1b[1;36m# {text}\x1b[0m\r\n"))

    def wait_for(self, pattern: str, times: int = 1) -> None:
        """Wait until the output has so many matches. Raises `TimeoutError`."""
        deadline = time.monotonic() + SECONDS_MAX
        while len(re.findall(pattern, ESCAPES.sub("", self.text))) < times:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{pattern} did not appear in:\n{self.text}")
            time.sleep(0.05)

    def end(self) -> None:
        os.killpg(self.process.pid, signal.SIGINT)
        self.process.wait(SECONDS_MAX)
        self._thread.join(SECONDS_MAX)

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._reading, 65_536)
            except OSError:
                return  # the program has ended
            if not data:
                return
            self.events.append((time.monotonic() - self._began, data.decode("utf-8", "replace")))


def play(recording: Recording, folder: Path, base_url: str) -> None:
    """Do what a new user does, each step after the last one was shown."""
    recording.wait_for(r"Stop with Ctrl-C")
    recording.note("make new NAME=printers")
    subprocess.run(["make", "new", "NAME=printers"], cwd=folder, stdout=subprocess.DEVNULL, check=True)  # noqa: S607
    recording.wait_for("reloaded in")
    recording.note(f"curl -X POST {base_url}printers/a")
    _post(f"{base_url}printers/a")
    recording.wait_for("printers │ working on a")
    recording.wait_for(r"event +link_fan_out documents/printers-a")
    main = folder / "printers" / "main.py"
    for note, change, shown in (
        ("printers/main.py: key.upper() in work", _to('print("working on", key.upper())'), "reloaded in"),
        ("printers/main.py: a wrong name", _to('print("working on", kee)'), "F821 Undefined name `kee`"),
        ("printers/main.py: an exception", _to('print("working on", 1 / (len(key) - 1))'), "reloaded in"),
    ):
        recording.note(note)
        main.write_text(change(main.read_text("utf-8")), "utf-8")
        recording.wait_for(shown, 2 if note.endswith("work") else 3 if note.endswith("exception") else 1)
    recording.note(f"curl -X POST {base_url}printers/b")
    _post(f"{base_url}printers/b")
    recording.wait_for("ZeroDivisionError: ")
    recording.note("printers/main.py: repaired")
    main.write_text(_to(WORK)(main.read_text("utf-8")), "utf-8")
    recording.wait_for("reloaded in", 4)
    recording.wait_for("printers │ working on b")
    time.sleep(0.5)
    recording.note("Ctrl-C")


def _to(line: str) -> Callable[[str], str]:
    return lambda text: re.sub(r"print\(.*\)", lambda _: line, text)


def _post(url: str) -> None:
    http_client.send("POST", url, content=b"", headers={"Content-Length": "0"}, timeout_seconds=SECONDS_MAX)


def main() -> int:
    port = processes.free_port()
    with tempfile.TemporaryDirectory(prefix="signalbox-recording-") as temporary:
        folder = Path(temporary) / "signalbox"
        shutil.copytree(PROJECT, folder, ignore=shutil.ignore_patterns(*NOT_CLONED))
        (folder / ".venv").symlink_to((PROJECT / ".venv").resolve())
        environment = {**os.environ, "PORT": str(port), "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}
        recording = Recording(["make", "dev"], folder, environment)
        try:
            play(recording, folder, f"http://127.0.0.1:{port}/")
        finally:
            recording.end()
        _write(recording, lambda text: text.replace(str(folder), "signalbox").replace(str(port), "8080"))
    return 0


def _write(recording: Recording, cleaned: Callable[[str], str]) -> None:
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "make dev"}
    events = [[round(seconds, 3), "o", cleaned(text)] for seconds, text in recording.events]
    lines = [json.dumps(each, ensure_ascii=False) for each in (header, *events)]
    (PROJECT / "docs" / "dev-loop.cast").write_text("\n".join(lines) + "\n", "utf-8")
    plain = ESCAPES.sub("", cleaned(recording.text)).replace("\r\n", "\n").replace("\r", "")
    shown = "".join(f"{line.rstrip()}\n" for line in plain.splitlines())
    (PROJECT / "docs" / "dev-loop.txt").write_text(shown, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
