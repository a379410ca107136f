"""The function of `bare_tasks`. Each task creates its unit's record and adds 1 to a shard of a counter.

That is one commit of the stack's store, past the kit's operations. A task that is delivered twice finds the record and
changes nothing.
"""

import os
import random
from functools import cache
from pathlib import Path

import flask
import functions_framework

from signalbox.adapters import runtime
from signalbox.adapters.settings import SQLITE, settings
from signalbox.adapters.sqlite.store import SqliteStore
from signalbox.core.ports import AlreadyExists, Change, Increment, Must, Put, Store

SHARDS = 20
UNITS, COUNTS = "bare-units", "bare-counts"


@cache
def store() -> Store:
    """Return this process's store."""
    chosen = settings()
    if chosen.firestore_emulator == SQLITE:
        return SqliteStore(Path(os.environ["SIGNALBOX_STORE_FILE"]))
    return runtime.firestore(chosen)


@functions_framework.http
def bare_task(request: flask.Request) -> str:
    """Run a task whose body names the batch and the unit."""
    body = request.get_json()
    unit = Put(f"{UNITS}/{body['batch']}-{body['unit']}", {"unit": body["unit"]}, Must.NOT_EXIST)
    shard = f"{COUNTS}/{body['batch']}-{random.randrange(SHARDS)}"
    try:
        store().commit([unit, Change(shard, {("count",): Increment(1)}, None)])
    except AlreadyExists:
        return "duplicate"
    return "done"
