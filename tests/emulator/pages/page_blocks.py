"""The marked blocks of the pages, and a `make dev` that they run against."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from signalbox_tools.local import child_processes
from tests.required_programs import CURL
from tests.started_commands import started

PROJECT = Path(__file__).parents[3]
README = (PROJECT / "README.md").read_text("utf-8")
READY_SECONDS_MAX = 60
BASE = "base=http://127.0.0.1:8080/"


def block(marker: str, page: str = "README.md", language: str = "sh") -> str:
    """Return the fenced block after a marker."""
    text = (PROJECT / page).read_text("utf-8")
    found = re.search(rf"<!-- {re.escape(marker)} -->\n```{language}\n(.*?)```", text, re.DOTALL)
    assert found, f"{page} has no block marked {marker!r}"
    return found[1]


@contextmanager
def serving(folder: Path, port: int, output: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[bytes]]:
    """Run the README's `make dev` in a folder on a port until the context ends; it writes to the file `output`."""
    command = block("run: dev").partition("#")[0].split()
    environment = {**os.environ, "PORT": str(port)}
    with started(command, folder, environment, output) as process:
        assert child_processes.wait_until(lambda: is_serving(port), process, timeout_seconds=READY_SECONDS_MAX)
        yield process


def is_serving(port: int) -> bool:
    """Return whether the documents function answers on the port."""
    try:
        return httpx.get(f"http://127.0.0.1:{port}/documents").status_code == 200
    except httpx.HTTPError:
        return False


def run_calls(calls: str, port: int) -> list[Any]:
    """Run curl calls in a shell and return the JSON values that it printed. Empty bodies print nothing."""
    CURL.require()
    commands = f"base=http://127.0.0.1:{port}/\n" + calls.replace(BASE, "").replace("curl", "curl -s")
    shell = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], capture_output=True, text=True, check=True)
    decoder, text, printed = json.JSONDecoder(), shell.stdout, []
    while text := text.lstrip():
        value, end = decoder.raw_decode(text)
        printed.append(value)
        text = text[end:]
    return printed
