"""The function of `bare_tasks`: each task creates the record of its unit and adds 1 to a shard of a counter.

It is a user's function without the kit: one commit of Firestore's client. The record exists if the task comes again.
"""

import random
from functools import cache

import flask
import functions_framework
from google.api_core.exceptions import Conflict
from google.cloud import firestore

SHARDS = 20
UNITS, COUNTS = "bare-units", "bare-counts"


@cache
def client(project: str) -> firestore.Client:
    """Return this process's client of the emulator that the environment names."""
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
    except Conflict:
        return "again"
    return "done"
