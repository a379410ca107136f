"""Every bound of the kit, with its reason. What exceeds one gets a problem that names the number."""

KEY_BYTES_MAX = 1_500
"""Firestore's bound on a document id."""

DEPTH_MAX = 20
"""Firestore's bound on maps and lists inside each other, counted as it stores them (a list in a list counts twice)."""

DOCUMENT_BYTES_MAX = 1_000_000
"""Firestore holds 1,048,576 bytes a record, by its own formula; the rest is room for the kit's reserved map."""

LINKS_MAX = 500
"""Links of one document: a put reads all targets in one call, and their keys stand in one indexed list."""

HOPS_MAX = DEPTH_MAX
"""Copies stand at most so deep in each other, so no change shows further away. What still travels then is documents in a
cycle that outgrow each other in turn: one too large to be copied leaves its neighbour small enough to be. Beyond this
many links a copy marked as too large stays marked, so that even such a cycle comes to rest."""

PAGE_COPIES_MAX = 300
"""Copies that one refresh task handles: well under BatchWrite's 500, done in about a second."""

ROUNDS_MAX = 6
"""How often a page or a put starts anew, because somebody else was faster, before it gives the turn back (503)."""

PAUSE_SECONDS = 0.05
"""The first pause before starting anew; it doubles each time and is spread by jitter."""

OUTBOX_TASKS_MAX = 100
"""Effects of one commit: what Cloud Tasks takes in one batch call, and small enough for one record."""

OUTBOX_BYTES_MAX = 900_000
"""An outbox record must fit beside its id and times under Firestore's 1 MiB."""

OUTBOX_PATIENCE_SECONDS = 10
"""Outbox records younger than this are still in their own operation's hands."""

SWEEP_PAGE = 100
"""Outbox records a sweep looks at in one query."""

SWEEP_PAGES_MAX = 20
"""Pages of one sweep, so that it ends well before the next begins."""

TASK_BYTES_MAX = 100 * 1024
"""A task's payload. Cloud Tasks takes 1 MB; tasks of this kit carry names of things, not the things."""

QUERY_LIMIT_MAX = 1_000
"""Documents a query answers at once: one screenful for a program, one page of memory for a function."""

QUERY_LIMIT_DEFAULT = 100

DELAY_SECONDS_MAX = 29 * 24 * 3_600
"""Cloud Tasks schedules at most 30 days ahead; the rest is for what happens between the decision and the queue."""

EXECUTIONS_MAX = 10
"""How often a user's task is run before the kit gives it up: with the queue's pauses, some minutes."""

RETRIES_MAX = 100
"""The same, counted with the deliveries that reached no process: with the longest pauses, more than an hour."""
