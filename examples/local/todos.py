"""Serve the to-do list on a local stack: ``make demo NAME=todos``, until Ctrl-C.

``PORT`` is the port (a free one); with ``--seconds`` it ends by itself.
"""

import json
import sys
from collections.abc import Sequence

from examples.local_stack import on_a_stack
from signalbox_tools import http_client

TEXTS = ("buy tea", "write to Ann", "water the plants")
RESPONSE_SECONDS_MAX = 30.0
JSON = {"Content-Type": "application/json"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example and return the exit code."""
    return on_a_stack(_begin, "examples.local.todos", __doc__, arguments)


def _begin(base_url: str) -> None:
    for order, text in enumerate(TEXTS):
        item = json.dumps({"text": text, "order": order}).encode()
        address = f"{base_url}todos"
        http_client.send("POST", address, content=item, headers=JSON, timeout_seconds=RESPONSE_SECONDS_MAX)
    sys.stdout.write(f"{base_url}todos/page\nOpen it in two windows. Ctrl-C ends it.\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
