"""Names that subjects share without importing one another: queues, functions of the kit, internal tasks.

They are names in the catalogue and in URLs, so they never change. A test compares them with `infra/catalogue.yaml`.
"""

import re

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
CALLED_BY_QUEUES_ONLY = frozenset({BATCH_EXPAND, LINK_REFRESH, LINK_VERIFY, SEMAPHORE_ADMIT, STANDING_FOLD})

# Functions of the kit that events call
LINK_FAN_OUT = "link_fan_out"
"""Handles the events of documents. It is not deployed if only the kit writes documents."""

DOCUMENT_EVENTS_PATH = "/document-events"
"""The path below which a user's function receives the events of its handlers that are tasks."""

RATE_DROP = "rate_drop"
"""Ends the waits of a cancelled batch's units for a rate. It is a task of `semaphore_admit`."""

# Internal tasks of users' functions
CALL_OBJECT = "call_object"
"""Calls a method of an object: a continuation or an effect of a transaction. A function with objects has it."""

FLOW_COMMAND_TASK = "flow_command"
"""Carries out a command of a flow: wait for a lock, renew it, release it, populate a batch."""

ACT_ON_RUN = "act_on_run"
"""Acts on one of the runs that matched a request. A function with flows has it."""

FLOW_RESULT_TASK = "flow_result"
"""Posts the result of a command to a flow's mailbox."""

ANYONE, KIT = WRITERS = ("anyone", "kit")
"""The clients that write documents, as the catalogue declares them: any client, or only the kit."""

CALLBACK_KEYS = "SIGNALBOX_CALLBACK_KEYS"
"""The environment variable with the keys of callbacks: a secret of the functions that sign or receive them."""

# Places in Cloud Storage
CLOUD_STORAGE = "gs://"
BUCKET = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(/|$)")
"""The bucket of a place."""
