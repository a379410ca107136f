"""Every limit that the kit chooses, with its reason. Exceeding one is a problem that names the number.

Limits that Firestore dictates are constants where they are checked: `keys`, `record_values`, `write_validation`,
`query_validation`, `indexes`.

Code reads a limit when it needs it (`LIMITS.page_units_max`), so tests and the simulation replace it in one place:

    with LIMITS.replaced(page_units_max=3): ...
"""

from collections.abc import Iterator
from contextlib import contextmanager


class Limits:
    """The limits by name; units come last in a name."""

    key_bytes_max: int = 1_000
    """Of a key, an id of a batch, a name of a transform: what is built on it must fit too. Firestore holds ids of 1,500
    bytes, but refuses a query for a value so long, and a document is found by its links through such a query. Spelled
    as %XX in a URL, a key still takes less than 4 KB."""

    depth_max: int = 20
    """Objects and lists of a document inside each other, itself counted, as stored (a list in a list counts twice): one
    level fewer than a record of Firestore has."""

    document_bytes_max: int = 1_000_000
    """Firestore holds 1,048,576 bytes a record, by its own formula; the rest is room for the kit's reserved map. The
    keys and fields of links are stored in that map too, and count here, since they may exceed that room."""

    index_entries_max: int = 39_500
    """Of a document, as Firestore's own indexes count: two for each field that is neither map nor list, in maps too,
    and one for each item of a list. Firestore refuses a record with more than 40,000; the rest is room for the kit's
    reserved map and for composite indexes. The emulator refuses none."""

    event_record_bytes_max: int = 240_000
    """Of a record, as an event spells it out. Eventarc takes 512 KB an event, and one of a document carries it before
    and after the write. If either is larger, the write commits a task that does what its event may not."""

    links_max: int = 500
    """Links of one document: a put reads all targets in one call, and their keys are stored in one indexed list."""

    link_levels_max: int = 10
    """Copies inside each other; further links are marked. A change shows no further away, so every fan-out ends, and a
    document's place in a long chain costs no more than this."""

    hops_max: int = depth_max
    """A transform can carry a value from copy to copy over any number of links, or round a cycle, and make it grow on
    each pass. Beyond this many links the output of a transform is no longer refreshed but marked as a cycle."""

    transform_bytes_max: int = 100 * 1024
    """Of a stored transform: a page that refreshes copies reads the transforms of all their fields."""

    transforms_listed_max: int = 50
    """Transforms in one answer: as large as they may be, they still fit into a function's memory."""

    transform_steps_max: int = 50_000
    """Of one run: tens of milliseconds, and a document may have hundreds of links."""

    transform_output_bytes_max: int = document_bytes_max
    """Of one run: no document could hold more. Output that a run discards counts too."""

    walk_documents_max: int = 50
    """Documents that one task of a transform's walk handles: it also reads the targets of all their links."""

    page_copies_first: int = 300
    """Copies that the first refresh task of a chain handles, before the size of the documents is known."""

    page_copies_max: int = 1_500
    """Copies that a later one handles, in a few seconds. Fewer and larger pages mean fewer queries."""

    group_copies_max: int = 500
    """Copies that are written in one call, between two reads of their source: what BatchWrite takes."""

    rounds_max: int = 6
    """Attempts of a guarded commit or a page that keeps losing its guard, before it fails with 503."""

    pause_seconds: float = 0.05
    """The first pause before a retry; it doubles each time, with jitter."""

    outbox_tasks_max: int = 100
    """Effects of one commit: what Cloud Tasks takes in one batch call, and small enough for one record."""

    outbox_bytes_max: int = 900_000
    """An outbox record must fit beside its id and times under Firestore's 1 MiB."""

    outbox_patience_seconds: int = 10
    """The sweeper leaves younger outbox records alone: their own operation may still be enqueueing."""

    sweep_page: int = 100
    """Outbox records that a sweep reads in one query."""

    sweep_pages_max: int = 20
    """So many pages' worth of outbox records are looked at in one sweep, so that it ends well before the next begins.
    Where there are more, a sweep begins at a random one."""

    sweep_part_seconds: float = 15
    """Each part of a sweep (outbox, semaphores, batches, removal of batches) begins no further record after so long, so
    that a sweep ends about when the next begins."""

    task_bytes_max: int = 100 * 1024
    """A task's payload. Cloud Tasks takes 1 MB; the kit's tasks carry references to data, not the data."""

    read_bytes_max: int = 4 * 1024 * 1024
    """Of documents that one request holds at once, beside one more: a query's page ends with the document that reaches
    it, and what is read for copies is read in groups that do. In memory it takes several times that."""

    request_memory_bytes_max: int = 80 * 1024 * 1024
    """Memory that one request on documents adds to its instance at its peak: a test measures the worst ones, with
    documents of 3,000 texts each. How many requests an instance handles at once follows from it."""

    instance_memory_bytes: int = 128 * 1024 * 1024
    """Memory of an instance that handles no request: the interpreter, the libraries and their connections."""

    query_limit_max: int = 1_000
    """Documents a query answers at once: one screenful for a program. Large ones end a page earlier
    (`read_bytes_max`)."""

    query_limit_default: int = 100

    resource_items_max: int = query_limit_max
    """Items in one answer of a resource, also if the request names no limit: pages that know no paging show all of a
    list that is not longer."""

    resource_sorted_max: int = 1_000
    """Items of a resource that the function sorts and filters itself where Firestore lacks the composite index: each
    costs a read. In a larger one the index is required."""

    resource_offset_max: int = 10_000
    """Items that a list may skip (`_start`, `_page`): each costs a read. `page_token` skips none."""

    cascade_items_max: int = 1_000
    """Items that one DELETE takes along. Where more depend on an item, it is answered 503, and the next goes on."""

    verify_page_documents_max: int = 50
    """Documents that one task of a verification compares, if they are small (`read_bytes_max`)."""

    verify_targets_max: int = 100
    """Targets read in one call of a verification, if they are small."""

    verify_moving_seconds: int = 60
    """A difference in documents written so recently is repaired and not counted as drift: an event may be under way."""

    verify_abandoned_seconds: int = 3_600
    """A verification without progress for so long counts as abandoned, and another may begin."""

    verifications_listed_max: int = 20
    """Verifications in one response: some weeks of nights."""

    delay_seconds_max: int = 29 * 24 * 3_600
    """Cloud Tasks schedules at most 30 days ahead; the rest is a margin between the decision and the queue."""

    attempts_max: int = 10
    """Starts of a user's task's code before the kit gives the task up: with the queue's pauses, some minutes."""

    traceback_letters_max: int = 20_000
    """Of the traceback kept of a task's last error: its end, which names the cause."""

    failures_listed_max: int = 50
    """Failures in one answer: each has a payload of up to 100 KiB and a traceback."""

    transaction_documents_max: int = 100
    """Documents that a transaction reads or writes, or that a write-back writes: held in memory until the commit."""

    # --- history ---

    history_segment_versions: int = 32
    """Entries of a history from one that holds a version whole to the next: as many are read for one version."""

    history_versions_max: int = 1_000
    """Versions that a catalogue may ask to keep of a document, whose reserved map lists the segments of them."""

    history_days_max: int = 36_500
    """Days that a catalogue may ask to keep versions for."""

    history_text_letters_max: int = 20_000
    """Letters of a patch that is stored as it is; a longer one is compressed, so that each fits into its record."""

    versions_listed_max: int = 100
    """Versions in one answer; a page ends early where their entries are large."""

    # --- documents brought in bulk ---

    bulk_puts_max: int = 500
    """Documents of one bulk put: what one BatchWrite takes."""

    bulk_bytes_max: int = 8 * 1024 * 1024
    """Of the body of a bulk put, which is held in memory as a whole."""

    bulk_targets_max: int = 1_000
    """Targets of the documents of one bulk put: as many as can be held together (`read_bytes_max`) are read at one
    instant; documents with others are put one by one."""

    bulk_waves_max: int = depth_max
    """Waves of one bulk put: each writes documents whose targets were written before it, and no copy shows more levels
    than a document may have."""

    # --- batches ---

    page_units_max: int = 100
    """Units of one page: its expansion enqueues one task each in about a second, and repeats them all if it dies."""

    page_bytes_max: int = 900_000
    """A page is one record, and must fit with its id and times into Firestore's 1 MiB."""

    concurrency_max: int = 5_000
    """Units of a batch that run at once, where it is limited: as many tasks as one queue of Cloud Tasks dispatches."""

    batch_queues_max: int = 20
    """Queues of one batch: 20 of 500 dispatches a second are more than one batch's records take."""

    then_bytes_max: int = 200 * 1024
    """The batches that follow a batch, with their units: they lie in its header, beside three payloads."""

    then_stages_max: int = 20
    """Batches that follow each other."""

    call_units_max: int = 10_000
    """Units of one call: a hundred pages, each a commit, take much less than a function's minute."""

    call_bytes_max: int = 8 * 1024 * 1024
    """The body of a call that loads units; it is held in memory as a whole."""

    counter_units_max: int = 20
    """Units that share a counter: Firestore wants about one write a second on a record, and a unit is about one."""

    node_children_max: int = 20
    """Children of a node of a batch's tree: few enough that no record is hot, many enough that three levels will do."""

    tree_levels: int = 4
    """Levels of a batch's tree; pages' nodes are level 1. Each level multiplies the largest batch by 20."""

    result_bytes_max: int = 100 * 1024
    """A unit's result: as large as a payload, so that it can become one."""

    error_letters_max: int = 2_000
    """Characters kept of a failed unit's error: a message, not a log."""

    batch_deadline_seconds: int = 7 * 24 * 3600
    """The default deadline. Every batch has one: nothing else would report a unit that is never completed."""

    batch_deadline_seconds_max: int = 30 * 24 * 3600
    """Cloud Tasks keeps a task for 31 days: what has not run by then never runs."""

    batch_keep_seconds: int = 7 * 24 * 3600
    """An ended batch and its results are kept this long, then removed; longer than any call or delivery lasts."""

    batch_idle_seconds: int = 60
    """A sealed batch without progress for this long is walked, to propagate what a process that died left full."""

    batches_sweep_page: int = 20
    """Batches that a sweep reads in one query: a header with its tasks' payloads may be large."""

    walk_nodes_max: int = 100
    """Nodes of one level that a walk reads. Later walks reach the others."""

    missing_named_max: int = 100
    """Missing units that a batch names when its deadline has come."""

    clean_records_max: int = 300
    """Records that one commit of a removal deletes; Firestore takes 500 writes a commit."""

    clean_commits_max: int = 10
    """Commits that one sweep spends on removing one collection of a batch."""

    retry_units_max: int = 1_000
    """Units that one call may name for a retry; a call that names none means all that failed."""

    batches_listed_max: int = 100
    """Batches in one answer: a header with its tasks' payloads may be large."""

    units_listed_max: int = 100
    """Units in one answer: with results of 100 KiB each they still fit into a function's memory."""

    watch_page: int = 500
    """Outcomes that one read of a watched batch takes; of large ones fewer (`read_bytes_max`)."""

    watch_behind_seconds: float = 5
    """Firestore's time of a request that records an outcome may lie so far before its commit's. Each read of a watched
    batch takes the outcomes of so many seconds again, in case one of them was committed late."""

    watch_pause_seconds: float = 1
    """Between two reads of a watched batch, however many watch it in one process."""

    watch_kept_bytes_max: int = 4 * 1024 * 1024
    """Results of a watched batch that a process keeps for its other watchers; one further behind reads by itself."""

    watch_stream_seconds: float = 240
    """A stream of events ends after so long, and a browser connects again: less than a function's time."""

    watch_quiet_seconds: float = 10
    """A stream without events sends a comment so often, which shows whether its watcher is still there."""

    watch_streams_max: int = 8
    """Streams that one process serves: each holds one of its 16 threads, and half of them are for other requests. These
    are answered as fast as without a stream (`make bench-watchers`)."""

    permits_max: int = 1_000
    """Permits of a semaphore: each lease lies in its one record, some 200 bytes with an ordinary id."""

    semaphore_name_bytes_max: int = 1_000
    """A semaphore's name: paths below its record must fit within Firestore's limits too."""

    wait_id_bytes_max: int = 128
    """A wait's id: a thousand leases with ids this long fit into one record."""

    lease_seconds_max: int = 24 * 3600
    """A longer lease is renewed; a holder that does not renew for a day is assumed dead."""

    delete_after_seconds_max: int = 366 * 24 * 3600
    """A year, before an unused semaphore is deleted."""

    deadline_seconds_max: int = 30 * 24 * 3600
    """Cloud Tasks schedules at most 30 days ahead."""

    claim_seconds: int = 30
    """A granted continuation must have begun by then; cold starts and a busy queue take seconds."""

    receipt_seconds: int = 32 * 24 * 3600
    """A wait's answer is kept so long after it ended: Cloud Tasks delivers a task for up to 31 days."""

    ended_leases_max: int = 50
    """Leases that are over and still remembered in the record, to recognise a repeated call."""

    expired_leases_max: int = 100
    """Expired leases of continuations kept in the record for their tasks; more are evicted, noted at their waiters."""

    guarded_attempts_max: int = 2
    """Guarded commits of a wait or a signal that may lose the race before it takes the combining path."""

    since_ahead_seconds: float = 0.05
    """Firestore's time of a request may lie so far ahead of its commit's. Waiters are read by the former and granted by
    the latter: behind a full page there may be waiters that were created this long before its end."""

    grants_page_max: int = 90
    """Waiters that one admit run grants at most: with an alarm they fit into one outbox record of 100 tasks."""

    known_head_max: int = 32
    """Waiters whose order is known and who were not granted yet: their ids lie in the semaphore's record, so that who
    grants to them reads them alone."""

    releases_page_max: int = 100
    """Signals that one admit run applies."""

    grant_bytes_max: int = 600_000
    """Payloads of the continuations granted in one commit, so that they fit into its outbox record."""

    admit_slot_seconds: float = 0.2
    """Waits and signals of one slot share one admit run: about what a guarded commit takes under load."""

    admit_margin_seconds: float = 0.1
    """An admit task is due this long after its slot's end: a queue whose clock is ahead would deliver it early, and it
    would be retried."""

    admission_lost_seconds: int = 10
    """If permits stay free while waiters exist this long, the sweeper assumes that the admission task was lost."""

    semaphores_sweep_page: int = 50
    """Semaphores that a sweep reads in one query."""

    sweep_pause_seconds: int = 10
    """A semaphore that a visit of the sweeper left as it was is due again after this pause, then after twice that."""

    sweep_pause_seconds_max: int = 120
    """The longest such pause: so long may permits stay free beside waiters whose admission task was lost."""

    waiters_shown_max: int = 100
    """Waiters of a semaphore in one answer."""

    semaphores_listed_max: int = 50
    """Semaphores in one answer: each costs a count of its waiters."""

    deadlock_semaphores_max: int = 200
    """Semaphores with waiters among which deadlocks are looked for: two calls each, some seconds."""

    receipts_page_max: int = 200
    """Receipts that one commit of a clean-up deletes."""

    clean_pages_max: int = 20
    """Commits that one visit of the sweeper spends on a semaphore's old receipts: 4,000 receipts in some seconds."""

    # --- mailboxes and objects ---

    wake_up_slot_seconds: float = 0.2
    """Messages of one slot share one run: about what a guarded commit takes under load."""

    wake_up_margin_seconds: float = 0.1
    """A wake-up is due this long after its slot's end: a queue whose clock is ahead would deliver it early."""

    mailbox_page: int = 50
    """Messages that one turn applies: a header is written about five times a second at most, so 250 calls a second."""

    turn_seconds: float = 10
    """A turn begins no further call after so long; what is left is for the next one."""

    turn_writes_max: int = 400
    """Writes of one turn; Firestore takes 500 a commit."""

    turn_tasks_max: int = 90
    """Tasks that the calls of one turn send; with wake-ups they fit into one outbox record of 100."""

    turn_bytes_max: int = 2 * 1024 * 1024
    """Of what one turn reads, besides the state, and of what it writes."""

    turn_task_bytes_max: int = 800_000
    """Payloads of the tasks of one turn, with the outcomes that continuations get: they share an outbox record."""

    fast_rounds_max: int = 2
    """Attempts to apply a call at once, before it is posted to the mailbox."""

    object_state_bytes_max: int = 900_000
    """Of an object's state as JSON: it lies in one record."""

    object_key_bytes_max: int = 800
    """Of an object's key: with its class it is an id in Firestore, and part of the paths of its messages."""

    call_attempts_max: int = 10
    """Starts of one call that kill the process or raise a transient error, before it is given up."""

    careful_deliveries: int = 2
    """From so many earlier deliveries of its wake-up on, a run applies one call at a time and counts its starts."""

    call_mark_seconds: int = 60
    """So long a run may take for a call that it has marked, before another may start it."""

    call_receipt_seconds: int = receipt_seconds
    """A call and its outcome are kept so long: Cloud Tasks delivers a task for up to 31 days."""

    call_later_seconds_max: int = 366 * 24 * 3600
    """A call for later is at most a year ahead."""

    call_continuations_max: int = 20
    """Continuations of one call: they are enqueued in the commit that has its outcome."""

    call_wait_seconds_max: int = 30
    """A request waits so long for an outcome: it holds an instance meanwhile."""

    objects_listed_max: int = 100
    """Objects in one response."""

    # --- flows ---

    flow_id_bytes_max: int = 800
    """Of a flow's id: with its name it is an id in Firestore, and part of the paths of its messages."""

    flow_pending_max: int = 90
    """Commands that a flow waits for at once: the tasks of one commit share an outbox record of 100."""

    flow_step_attempts_max: int = 1_000
    """Attempts that a flow asks for of one step: with a pause of an hour, six weeks."""

    flow_advances_max: int = 10_000
    """Times that a flow's code goes on in one turn without anything from outside: more is a loop that never waits."""

    flow_events_kept_max: int = 1_000
    """Events that came and that the code has not waited for; `again` carries them over in one record."""

    flow_event_name_bytes_max: int = 200
    """Of an event's name: it is repeated in the log and in errors."""

    flow_tail_bytes_max: int = 100_000
    """Of the log's end, which lies in the header and is written by each turn; when it is longer, it becomes a chunk."""

    flow_chunk_bytes_max: int = 900_000
    """Of a chunk of the log: a record of Firestore has at most 1 MiB."""

    flow_log_bytes_max: int = 8 * 1024 * 1024
    """Of the log of one generation: a turn reads it whole. A flow that needs more begins anew with `again`."""

    flow_log_entries_max: int = 50_000
    """Entries of the log of one generation: a turn tells them all, some 3 ms a thousand."""

    flow_siblings_max: int = 4
    """A step beside more siblings than this leaves its outcome to a run: their turns would collide."""

    flow_deliveries_max: int = 10
    """Deliveries of one run after which its flow is stuck: the code ends the process, or takes too long."""

    flow_stuck_seconds: int = 600
    """The sweeper wakes a stuck flow so often: the next deployment may have mended its code."""

    flow_kept_seconds: int = 7 * 24 * 3600
    """A flow's records are kept so long after its end."""

    flow_batch_bytes_max: int = 300_000
    """Of the calls of a batch that a flow asks for: they travel in one task."""

    flow_commit_bytes_max: int = 8 * 1024 * 1024
    """Of what one turn of a flow writes; Firestore takes 10 MiB a commit."""

    flow_depth_max: int = 10
    """Flows that one flow may run, each inside the other."""

    flow_log_page: int = 1_000
    """Entries of a flow's log in one response."""

    flows_listed_max: int = 100
    """Flows in one response."""

    flows_sweep_page: int = 50
    """Flows that one sweep looks at: each costs some calls."""

    flow_removal_page: int = 300
    """Records that one commit of a removal deletes."""

    # --- standings ---

    yoke_part_bytes_max: int = 450
    """Of a yoke's user, item and attributes, percent-encoded: three of them are one id, and Firestore's have 1,500."""

    yoke_attributes_max: int = 20
    """Attributes of one yoke: each may be a part of several standings."""

    standing_kinds_max: int = 20
    """Kinds of standings: each is one more record that a yoke's count reads and writes."""

    standing_parts_max: int = 3
    """Parts of a standing's id."""

    standing_thresholds_max: int = 5
    """Thresholds of a kind: the tasks of all thresholds of all kinds fit into one outbox record."""

    threshold_payload_bytes_max: int = 4_096
    """Of a threshold's task, for the same reason."""

    standing_quiet_seconds: float = 1.5
    """A standing that was written this recently is busy: a change is left as an adjustment for a fold run. Longer than
    a slot of the fold runs, so that nobody else writes the standing while these do."""

    fold_slot_seconds: float = 1.0
    """Adjustments of one slot share a fold run, which writes the standing once: Firestore sustains about one write a
    second on a record."""

    fold_margin_seconds: float = 0.1
    """A fold task is due this long after its slot's end: a queue whose clock is ahead would deliver it early."""

    fold_page_max: int = 400
    """Adjustments that one commit adds or merges, and deletes; Firestore takes 500 writes a commit."""

    fold_pages_max: int = 20
    """Pages of one fold run; then it enqueues another."""

    count_page_max: int = 100
    """Yokes that one task of a walk visits."""

    remove_page_max: int = 300
    """Yokes that one task deletes."""

    recounts_page_max: int = 20
    """Standings that one task of the nightly recount looks at."""

    recount_page_max: int = 1_000
    """Counted records that one query of a recount reads, if they are small (`read_bytes_max`)."""

    recount_pages_max: int = 5
    """Such queries of one task of a recount: some seconds."""

    recount_waiting_max: int = 1_000
    """Adjustments that a recount searches for those of its pages; where there are more, it waits for a fold run."""

    recount_pause_seconds: float = 1.0
    """Between the tasks of one recount: each writes the standing."""

    leaderboard_limit_max: int = 100
    """Standings of one page of a leaderboard, and yokes of one page of a list."""

    leaderboard_limit_default: int = 20

    neighbours_max: int = 20
    """Standings on each side of a rank."""

    # --- critical sections ---

    section_lease_seconds: int = 600
    """How long a run may last before a second delivery of its task may run beside it, unless the call says otherwise:
    as long as a task of Cloud Tasks may run."""

    debounce_seconds_max: int = 24 * 3600
    """A day: what is to run later than that is enqueued with a delay, not debounced."""

    collected_items_max: int = 1_000
    """Items that the calls which share a run collect; their payload has the bytes of any other (`task_bytes_max`)."""

    section_ids_max: int = 100
    """Calls of a key whose ids are remembered, to recognise a repeat: they lie in the section's one record."""

    section_end_rounds_max: int = 4
    """Rounds of attempts, `rounds_max` each, to end a run: if none lands, the run is repeated."""

    section_lost_seconds: int = 3_600
    """A run without a sign of life for so long after its lease is granted anew by the next call: somebody purged the
    queue, or paused it for hours."""

    @contextmanager
    def replaced(self, **values: float) -> Iterator[None]:
        """Replace limits while the context is entered. For tests; raises `AttributeError` for an unknown name."""
        before = {name: getattr(self, name) for name in values}
        try:
            for name, value in values.items():
                setattr(self, name, value)
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)


LIMITS = Limits()
