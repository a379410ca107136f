"""Every bound of the kit, with its reason. What exceeds one gets a problem that names the number."""

KEY_BYTES_MAX = 1_500
"""Firestore's bound on a document id."""

DEPTH_MAX = 20
"""Firestore's bound on maps and lists inside each other, counted as it stores them (a list in a list counts twice)."""

DOCUMENT_BYTES_MAX = 1_000_000
"""Firestore holds 1,048,576 bytes a record, by its own formula; the rest is room for the kit's reserved map.
The keys and fields of links stand in that map too, and count here: there may be more of them than that room."""

LINKS_MAX = 500
"""Links of one document: a put reads all targets in one call, and their keys stand in one indexed list."""

HOPS_MAX = DEPTH_MAX
"""Copies stand at most so deep in each other, so no change shows further away. What still travels then is documents in
a cycle that outgrow each other in turn: one too large to be copied leaves its neighbour small enough to be. Beyond this
many links a copy marked as too large stays marked, so that even such a cycle comes to rest.
A transform can carry a value round a cycle and let it grow on its way, without an end: a copy made by one changes no
more beyond this, but is marked as a cycle."""

TRANSFORM_BYTES_MAX = 100 * 1024
"""Of a stored transform: a page that refreshes copies reads the transforms of all their fields."""

TRANSFORM_STEPS_MAX = 50_000
"""Of one run: some tens of milliseconds, and a document may have hundreds of links."""

TRANSFORM_OUTPUT_BYTES_MAX = DOCUMENT_BYTES_MAX
"""Of one run: no document could hold more. What a run makes and drops again counts too."""

WALK_DOCUMENTS_MAX = 50
"""Documents that one task of a transform's walk handles: it reads the targets of all their links beside them."""

PAGE_COPIES_FIRST = 300
"""Copies that the first refresh task of a chain handles, not knowing yet how large the documents are."""

PAGE_COPIES_MAX = 1_500
"""Copies that any later one handles: done in some seconds. Fewer and larger pages mean fewer queries."""

PAGE_COPIES_BYTES = 8 * 1024 * 1024
"""Of a page's documents, if they are as large as the page before; in memory they take several times that."""

GROUP_COPIES_MAX = 500
"""Copies that are written in one call, between two looks at their source: what BatchWrite takes."""

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

INEQUALITY_FIELDS_MAX = 10
"""Fields that one query may compare by size: Firestore's bound."""

VERIFY_PAGE = 50
"""Documents that one task of a verification compares: with large ones and their targets they fit into memory."""

VERIFY_TARGETS_MAX = 100
"""Targets read in one call of a verification, for the same reason."""

VERIFY_MOVING_SECONDS = 60
"""A difference in what was written so lately may be on its way: it is repaired, and not counted as drift."""

VERIFY_ABANDONED_SECONDS = 3_600
"""A verification that did not move for so long is given up for lost, and another may begin."""

VERIFICATIONS_LISTED_MAX = 20
"""Verifications in one answer: some weeks of nights."""

DELAY_SECONDS_MAX = 29 * 24 * 3_600
"""Cloud Tasks schedules at most 30 days ahead; the rest is for what happens between the decision and the queue."""

EXECUTIONS_MAX = 10
"""How often a user's task is run before the kit gives it up: with the queue's pauses, some minutes."""

RETRIES_MAX = 30
"""The same, counted with deliveries that reached no process, or killed it: with the queue's pauses, twenty minutes."""

# --- documents brought in bulk ---

BULK_PUTS_MAX = 500
"""Documents that one call brings: what one BatchWrite takes."""

BULK_BYTES_MAX = 8 * 1024 * 1024
"""Of a call that brings documents; it is held in memory as a whole."""

BULK_TARGETS_MAX = 1_000
"""Documents that those of one call link to: they are read at one instant, and held in memory until its end."""

BULK_WAVES_MAX = DEPTH_MAX
"""How often a call writes those whose targets it wrote before: no copy shows more levels than a document may have."""

# --- batches ---

PAGE_UNITS_MAX = 100
"""Units of one page: its expansion hands over one task each in about a second, and repeats them all if it dies."""

PAGE_BYTES_MAX = 900_000
"""A page is one record, and must fit beside its id and times under Firestore's 1 MiB."""

CALL_UNITS_MAX = 10_000
"""Units of one call: a hundred pages, each a commit, end well within a function's minute."""

CALL_BYTES_MAX = 8 * 1024 * 1024
"""Of a call that brings units; it is held in memory as a whole."""

COUNTER_UNITS_MAX = 20
"""Units that share a counter: Firestore wants about one write a second on a record, and a unit is about one."""

NODE_CHILDREN_MAX = 20
"""Children of a node of a batch's tree: few enough that no record is hot, many enough that three levels will do."""

TREE_TOP = 4
"""The level of a batch's top node; pages' nodes have level 1. Each level multiplies the largest batch by 20."""

RESULT_BYTES_MAX = 100 * 1024
"""A unit's result: as large as a payload may be, so that results can be handed on."""

ERROR_LETTERS_MAX = 2_000
"""Of a failed unit's error: a message, not a log."""

BATCH_DEADLINE_SECONDS = 7 * 24 * 3600
"""For a batch that names no deadline. Every batch ends: nothing else would tell of a unit that is never completed."""

BATCH_DEADLINE_SECONDS_MAX = 30 * 24 * 3600
"""Cloud Tasks keeps a task for 31 days: what has not run by then never will."""

BATCH_KEEP_SECONDS = 7 * 24 * 3600
"""An ended batch and its results are kept so long, then cleaned up; longer than any call or delivery lasts."""

BATCH_LOOK_SECONDS = 60
"""A sealed batch that did not move for so long is walked: what a process that died did not pass on is passed on."""

BATCHES_SWEPT_MAX = 20
"""Batches that one sweep looks at, so that it ends well before the next begins."""

WALK_NODES_MAX = 100
"""Nodes of one level that a walk reads. What lies beyond is reached when these are done."""

MISSING_NAMED_MAX = 100
"""Units that a batch names when its deadline has come without them."""

CLEAN_RECORDS_MAX = 300
"""Records that one commit of a clean-up deletes; Firestore takes 500 writes a commit comfortably."""

CLEAN_COMMITS_MAX = 10
"""Of one batch in one sweep."""

RETRY_UNITS_MAX = 1_000
"""Units that one call may name for another try; a call that names none means all that failed."""

UNITS_LISTED_MAX = 100
"""Units in one answer: with results of 100 KiB each they still fit into a function's memory."""

PERMITS_MAX = 1_000
"""Permits of a semaphore: each lease lies in its one record, some 200 bytes with an ordinary id."""

SEMAPHORE_NAME_BYTES_MAX = 1_000
"""A semaphore's name: paths below its record must fit under Firestore's bounds too."""

WAIT_ID_BYTES_MAX = 128
"""A wait's id: a thousand leases with ids this long fit into one record."""

LEASE_SECONDS_MAX = 24 * 3600
"""A lease that must last longer is renewed: whoever cannot do so in a day is gone."""

DELETE_AFTER_SECONDS_MAX = 366 * 24 * 3600
"""For a semaphore that nobody uses any more."""

DEADLINE_SECONDS_MAX = 30 * 24 * 3600
"""Cloud Tasks takes a task at most so far ahead."""

CLAIM_SECONDS = 30
"""A granted continuation must have begun by then; cold starts and a busy queue take seconds."""

RECEIPT_SECONDS = 32 * 24 * 3600
"""A wait's answer is kept so long after it ended: Cloud Tasks delivers a task for up to 31 days."""

ENDED_LEASES_MAX = 50
"""Leases that are over and still remembered in the record, to answer a call that comes again."""

LAPSED_LEASES_MAX = 100
"""Lapsed leases of continuations that wait in the record for their tasks; more are noted at their waiters."""

GUARDED_ROUNDS = 2
"""How often a wait or a signal loses the semaphore's record to others before it leaves its wish to an admit run."""

LINE_PAGE = 90
"""Waiters that one admit run grants at most: with an alarm they fit into one outbox record of 100 tasks."""

RELEASES_PAGE = 100
"""Signals that one admit run applies."""

GRANT_BYTES_MAX = 600_000
"""Payloads of the continuations granted in one commit, so that they fit into its outbox record."""

ADMIT_SLOT_SECONDS = 0.2
"""Wishes committed in the same slot share one admit run: about what a guarded commit takes under load."""

ADMIT_MARGIN_SECONDS = 0.1
"""An admit task is due so long after its slot's end: the queue's clock may be ahead, and then it would be retried."""

NUDGE_PATIENCE_SECONDS = 10
"""Free permits beside a line for so long: the task that should have passed them on was lost; the sweeper does it."""

SEMAPHORES_SWEPT_MAX = 50
"""Semaphores that one sweep looks after."""

WAITERS_SHOWN_MAX = 100
"""Of a semaphore's line, as people see it."""

SEMAPHORES_LISTED_MAX = 50
"""Semaphores in one answer: each costs a count of its line."""

RECEIPTS_PAGE = 200
"""Receipts that one commit of a clean-up deletes."""
