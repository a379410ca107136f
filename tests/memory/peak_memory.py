"""Measure requests, each in a separate process, because the peak of a process never falls."""

import json
import subprocess
import sys
import uuid
from collections.abc import Collection, Iterator
from contextlib import closing

from signalbox.adapters.firestore.store import FirestoreStore
from tests.memory.largest_requests import prepare

SECONDS_MAX = 240


def measured(host: str, names: Collection[str]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Iterate over requests: the name, the bytes of a process before it, and what its peak was above them."""
    project = f"demo-{uuid.uuid4().hex}"
    with closing(FirestoreStore(project, "(default)", host)) as store:
        prepare(store)
    for name in names:
        command = [sys.executable, "-m", "tests.memory.largest_requests", name, host, project]
        done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS_MAX)
        assert not done.returncode, done.stderr
        counted = json.loads(done.stdout.splitlines()[-1])
        yield name, (counted["base"], counted["held"])
