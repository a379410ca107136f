"""Run an example on its own local stack, until Ctrl-C."""

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from signalbox_tools.local.stack import Stack, StackError


def on_a_stack(
    begin: Callable[[str], None], module: str, description: str | None, arguments: Sequence[str] | None = None
) -> int:
    """Start a stack, pass its base URL to `begin`, and wait; return the exit code."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long (default: at Ctrl-C)")
    options = parser.parse_args(arguments)
    port = os.environ.get("PORT")
    try:
        with (
            contextlib.suppress(KeyboardInterrupt),
            tempfile.TemporaryDirectory() as folder,
            Stack(int(port) if port else None, Path(folder)) as stack,
        ):
            begin(stack.base_url)
            _wait(options.seconds)
    except (OSError, StackError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _wait(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.2)
