"""Serve Social Code on a local stack, with a few functions: ``make demo NAME=social_code``, until Ctrl-C.

``PORT`` is the port (a free one); with ``--seconds`` it ends by itself.
"""

import json
import sys
from collections.abc import Sequence

from examples.local_stack import on_a_stack
from signalbox_tools import http_client

KINDS = ("code", "tests", "acceptance")
FUNCTIONS = {
    "Add": ("def Add(a, b):\n    return a + b", "check(Add(1, 2) == 3)\nlog('1 + 2 =', Add(1, 2))", ""),
    "Multiply": (
        "# {{Add}}\ndef Multiply(a, b):\n    return 0 if b == 0 else Add(Multiply(a, b - 1), a)",
        "check(Multiply(3, 4) == 12)",
        "# {{Add}}\ncheck(Add(-1, -1) == -2, 'Add takes negative numbers')",
    ),
    "Square": ("# {{Multiply}}\ndef Square(a):\n    return Multiply(a, a)", "check(Square(5) == 25)", ""),
}
RESPONSE_SECONDS_MAX = 30.0
HEADERS = {"Content-Type": "application/json", "X-Author": "ann"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the example and return the exit code."""
    return on_a_stack(_begin, "examples.local.social_code", __doc__, arguments)


def _begin(base_url: str) -> None:
    for name, texts in FUNCTIONS.items():
        draft = f"{base_url}social-code/functions/{name}/draft"
        content = json.dumps(dict(zip(KINDS, texts, strict=True))).encode()
        http_client.send("PUT", draft, content=content, headers=HEADERS, timeout_seconds=RESPONSE_SECONDS_MAX)
        http_client.send("POST", f"{draft}/publish", headers=HEADERS, timeout_seconds=RESPONSE_SECONDS_MAX)
    sys.stdout.write(
        f"{base_url}social-code#Add\nPublish other code and see the tests of the others. Ctrl-C ends it.\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
