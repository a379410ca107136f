"""Names that subjects share without importing one another: queues, functions of the kit, internal tasks.

They are names in the catalogue and in URLs, so they never change. A test compares them with `infra/catalogue.yaml`.
"""

import re
from typing import Literal

# Queues
TASKS_QUEUE = "tasks"
"""The queue of users' tasks, unless a task names another."""

ADMIT_QUEUE = "admit"
BATCHES_QUEUE = "batches"
FLOWS_QUEUE = "flows"
LINKS_QUEUE = "links"
OBJECTS_QUEUE = "objects"
STANDINGS_QUEUE = "standings"

# Functions of the kit that queues call
BATCH_EXPAND = "batch_expand"
LINK_REFRESH = "link_refresh"
LINK_VERIFY = "link_verify"
SEMAPHORE_ADMIT = "semaphore_admit"
STANDING_FOLD = "standing_fold"
QUEUES_OF_THE_KIT = {
    BATCH_EXPAND: BATCHES_QUEUE,
    LINK_REFRESH: LINKS_QUEUE,
    LINK_VERIFY: LINKS_QUEUE,
    SEMAPHORE_ADMIT: ADMIT_QUEUE,
    STANDING_FOLD: STANDINGS_QUEUE,
}
"""The queue that calls each of these functions."""

CALLED_BY_QUEUES_ONLY = frozenset(QUEUES_OF_THE_KIT)

ACCOUNTS_OF_QUEUES = {
    **dict.fromkeys(QUEUES_OF_THE_KIT.values(), "kit-workers"),
    **dict.fromkeys((FLOWS_QUEUE, OBJECTS_QUEUE, TASKS_QUEUE), TASKS_QUEUE),
}
"""The account of each queue of the kit: one for the queues of the kit's workers, and one for those of users' tasks.
A task keeps the account of its queue for up to 31 days, so these names never change."""


def shard_names(queue: str, shards: int) -> tuple[str, ...]:
    """Return the names of the Cloud Tasks queues of a catalogue's queue: ``flows``, ``flows-2``, ``flows-3``."""
    return (queue, *(f"{queue}-{number}" for number in range(2, shards + 1)))


def queue_of(shard: str) -> str:
    """Return the catalogue's queue of one of its Cloud Tasks queues. No queue's own name ends as that of a shard."""
    return re.sub(r"-[0-9]+$", "", shard)


def queue_account(queue: str) -> str:
    """Return the name of the account as which a queue calls. A queue that a catalogue declares has its own account."""
    return ACCOUNTS_OF_QUEUES.get(queue, queue)


# Functions of the kit that events call
LINK_FAN_OUT = "link_fan_out"
"""The function that handles the events of documents. It is not deployed if only the kit writes documents."""

DOCUMENT_EVENTS_PATH = "/document-events"
"""The path below which a user's function receives the events of its handlers that are tasks."""

RATE_DROP = "rate_drop"
"""The task of `semaphore_admit` that ends the waits of a cancelled batch's units for a rate."""

# Internal tasks of users' functions
CALL_OBJECT = "call_object"
"""The task that calls a method of an object, as a continuation or an effect of a transaction. Functions with objects
have this task."""

FLOW_COMMAND_TASK = "flow_command"
"""The task that carries out a command of a flow: wait for a lock, renew or release the lock, populate a batch."""

ACT_ON_RUN = "act_on_run"
"""The task that acts on one of the runs that matched a request. Functions with flows have this task."""

FAILURE_NOTICE_TASK = "failure_notice"
"""The task that runs a function's `on_failure`. Functions with an `on_failure` have this task."""

FLOW_RESULT_TASK = "flow_result"
"""The task that posts the result of a command to a flow's mailbox."""

SCHEDULED, BACKFILL = "scheduled", "backfill"
"""The members of a task's context with the planned time of its schedule, and whether a caller makes up for it."""

ANYONE, KIT = WRITERS = ("anyone", "kit")
"""The clients that write documents, as the catalogue declares them: any client, or only the kit."""

CALLBACK_KEYS = "SIGNALBOX_CALLBACK_KEYS"
"""The environment variable with the keys of callbacks: a secret of the functions that sign or receive them."""

# Places in Cloud Storage
CLOUD_STORAGE = "gs://"
BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/|$)")
"""The bucket of a place."""

# Options of `app.schedule`
Overlap = Literal["allow", "queue", "skip"]
"""The action for the task of a planned time while the task of another one runs."""
