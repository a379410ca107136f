"""Paint quilts on a local stack while a page shows them: ``make example NAME=quilt``, until Ctrl-C.

``PORT`` is the port (a free one); with ``--seconds`` it ends by itself.
"""

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from infra import http_client
from infra.local.stack import Stack, StackError

QUILTS = ({"quilt": "small", "side": 8, "torn": 2}, {"quilt": "large", "side": 32, "torn": 9})
SECONDS_TO_OPEN = 5.0
"""Before painting begins, so that the pages can be opened."""

RESPONSE_SECONDS_MAX = 30.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.local.quilt", description=__doc__)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="end after so long (default: at Ctrl-C)")
    options = parser.parse_args(arguments)
    port = os.environ.get("PORT")
    try:
        with (
            contextlib.suppress(KeyboardInterrupt),
            tempfile.TemporaryDirectory() as folder,
            Stack(int(port) if port else None, Path(folder)) as stack,
        ):
            _paint(f"{stack.base_url}quilt")
            _wait(options.seconds)
    except (OSError, StackError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _paint(address: str) -> None:
    for each in QUILTS:
        sys.stdout.write(f"{address}/{each['quilt']}  {each['side']} x {each['side']} squares, {each['torn']} torn\n")
    sys.stdout.write(f"Open them: painting begins in {SECONDS_TO_OPEN:.0f} s. Ctrl-C ends it.\n")
    sys.stdout.flush()
    time.sleep(SECONDS_TO_OPEN)
    for each in QUILTS:
        http_client.send("POST", address, content=json.dumps(each).encode(), timeout_seconds=RESPONSE_SECONDS_MAX)


def _wait(seconds: float) -> None:
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
