"""Measure the peak memory of each worst request on Google's Firestore emulator, and print one table."""

import sys

from signalbox_tools.local.store import firestore_emulator
from tests.memory.largest_requests import REQUESTS
from tests.memory.peak_memory import measured


def main() -> int:
    """Print a line for each request."""
    emulator = firestore_emulator.find()
    if emulator is None:
        print(f"no Firestore emulator on this machine: {firestore_emulator.HOW_TO_GET_IT}", file=sys.stderr)
        return 1
    with emulator.start() as running:
        for name, (base, held) in measured(running.host, sys.argv[1:] or list(REQUESTS)):
            what = (REQUESTS[name].__doc__ or "").rstrip(".")
            print(f"{held / 2**20:6.0f} MiB above {base / 2**20:.0f}   {what}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
