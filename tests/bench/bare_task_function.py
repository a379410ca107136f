"""The function of `bare_tasks`. Each task creates its unit's record and adds 1 to a shard of a counter.

That is one commit of Firestore's client, without the kit. A task that is delivered twice finds the record and changes
nothing.
"""

import random
from functools import cache

import flask
import functions_framework
from google.api_core.exceptions import AlreadyExists
from google.cloud import firestore

SHARDS = 20
UNITS, COUNTS = "bare-units", "bare-counts"


@cache
def client(project: str) -> firestore.Client:
    """Return this process's client; ``FIRESTORE_EMULATOR_HOST`` names the emulator."""
    return firestore.Client(project=project)


@functions_framework.http
def bare_task(request: flask.Request) -> str:
    """Run a task whose body names the project, the batch and the unit."""
    body = request.get_json()
    store = client(body["project"])
    writes = store.batch()
    writes.create(store.document(UNITS, f"{body['batch']}-{body['unit']}"), {"unit": body["unit"]})
    shard = store.document(COUNTS, f"{body['batch']}-{random.randrange(SHARDS)}")
    writes.set(shard, {"count": firestore.Increment(1)}, merge=True)
    try:
        writes.commit()
    except AlreadyExists:
        return "duplicate"
    return "done"
