"""Serve all functions on this machine until Ctrl-C: ``python -m infra.local``, or ``make dev``.

``PORT`` is the port for people (8080). ``CHAOS=twice=0.1,late=0.1`` injects faults into queues and events.
``SIGNALBOX_STORE=embedded`` runs without Google's Firestore emulator.
"""

import contextlib
import os
import sys
from pathlib import Path

from infra.catalogue import CatalogueError
from infra.local.stack import Stack, StackError

FOLDER = Path(__file__).resolve().parents[2] / ".local"


def main() -> int:
    port = os.environ.get("PORT", "8080")
    if not port.isdecimal():
        sys.stderr.write(f"PORT must be a number, not {port!r}\n")
        return 2
    try:
        with contextlib.suppress(KeyboardInterrupt), Stack(int(port), FOLDER) as stack:
            _print_urls(stack)
            stack.wait()
    except OSError as error:
        sys.stderr.write(f"{error.strerror or error}\n")
        return 1
    except (StackError, CatalogueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _print_urls(stack: Stack) -> None:
    width = max(map(len, stack.urls), default=0)
    urls = "".join(f"  {name:{width}}  {url}\n" for name, url in stack.urls.items())
    sys.stdout.write(f"Serving {stack.base_url} (store: {stack.store})\n{urls}")
    sys.stdout.write(f"  {'docs':{width}}  {stack.base_url}docs (every call, with a form to try it)\n")
    sys.stdout.write(f"Logs and databases: {stack.folder}. Documents are in memory. Stop with Ctrl-C.\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
