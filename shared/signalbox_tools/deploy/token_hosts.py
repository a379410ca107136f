"""The hosts that a person's identity token may be sent to.

The token that gcloud prints for a person names no receiver: for an hour, its holder may call every function that the
person may call. A command derives most addresses from the project on its command line, and Google serves those. Any
other host comes from a file or a variable, which a cloned folder may have chosen, so the person confirms it once. The
list of confirmed hosts is outside of all projects.
"""

import os
import sys
from pathlib import Path

import httpx

from signalbox_tools.deploy.programs import CommandFailed
from signalbox_tools.terminal_text import visible


def confirm(url: str) -> None:
    """Return if the person has confirmed the host of an address, or does so now. Raises `CommandFailed`."""
    host, file = httpx.URL(url).netloc.decode(), _file()
    confirmed = file.read_text("utf-8").split() if file.exists() else []
    if host in confirmed:
        return
    told = (
        f"Your identity token would go to {visible(host)}. For an hour, its holder may call every function that you "
        "may call."
    )
    if not sys.stdin.isatty():
        raise CommandFailed(f"{told} Confirm the host in a terminal, once, or add a line with it to {file}.")
    sys.stderr.write(f"{told}\nSend it to this host, now and later? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed(f"Stopped: {visible(host)} was not confirmed, and nothing was sent.")
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as opened:
        opened.write(f"{host}\n")


def _file() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser() / "signalbox" / "token_hosts"
