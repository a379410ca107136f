"""Paint quilts on a local stack while a page shows them: ``make demo NAME=quilt``, until Ctrl-C.

``PORT`` is the port (a free one); with ``--seconds`` it ends by itself.
"""

import json
import sys
import time
from collections.abc import Sequence

from examples.local_stack import on_a_stack
from signalbox_tools import http_client

QUILTS = ({"quilt": "small", "side": 8, "torn": 2}, {"quilt": "large", "side": 32, "torn": 9})
SECONDS_TO_OPEN = 5.0
"""Before painting begins, so that the pages can be opened."""

RESPONSE_SECONDS_MAX = 30.0
JSON = {"Content-Type": "application/json"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example and return the exit code."""
    return on_a_stack(lambda base_url: _paint(f"{base_url}quilt"), "examples.local.quilt", __doc__, arguments)


def _paint(address: str) -> None:
    for each in QUILTS:
        sys.stdout.write(f"{address}/{each['quilt']}  {each['side']} x {each['side']} squares, {each['torn']} torn\n")
    sys.stdout.write(f"Open them: painting begins in {SECONDS_TO_OPEN:.0f} s. Ctrl-C ends it.\n")
    sys.stdout.flush()
    time.sleep(SECONDS_TO_OPEN)
    for each in QUILTS:
        content = json.dumps(each).encode()
        http_client.send("POST", address, content=content, headers=JSON, timeout_seconds=RESPONSE_SECONDS_MAX)


if __name__ == "__main__":
    sys.exit(main())
