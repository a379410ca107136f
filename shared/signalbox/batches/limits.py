"""The limits of batches, each with its reason."""

from signalbox.core.limits import Limits


class BatchLimits(Limits):
    """The limits by name."""

    page_units_max: int = 100
    """Units of one page: its expansion enqueues a task for each in about a second, and repeats them all if it dies."""

    page_bytes_max: int = 900_000
    """A page is one record, which must fit with its id and times into Firestore's 1 MiB."""

    concurrency_max: int = 5_000
    """Units that run at once, where a batch limits them: as many tasks as one queue of Cloud Tasks dispatches."""

    then_bytes_max: int = 200 * 1024
    """Bytes of the batches that follow a batch, with their units: its header contains them, and three payloads."""

    then_payload_bytes_max: int = 8 * 1024 * 1024
    """Bytes of the batches that follow a batch, if their units are stored as payloads: `batch_expand` has all of them
    in memory, several times."""

    then_stages_max: int = 20
    """Batches that follow one another. Each is nested in the one before, in a request of at most 100 levels, and is
    written again into the header of each batch before it."""

    call_units_max: int = 10_000
    """Units of one call: a hundred pages, each a commit, take much less than a function's minute."""

    call_bytes_max: int = 8 * 1024 * 1024
    """The body of a call that loads units. The whole body is in memory."""

    counter_units_max: int = 20
    """Units that share a counter: Firestore sustains about one write a second on a record, and each unit is one write.
    """

    group_payloads_bytes_max: int = 64 * 1024
    """Payloads of a page that travel in the tasks of its groups. Of a larger page, each group reads the page."""

    group_commit_bytes_max: int = 2 * 1024 * 1024
    """Results that a group holds before it commits them: they are in memory, and lost if its process dies."""

    group_hold_seconds: int = 10
    """The time for which a group holds results: a process that dies loses no more than this much work."""

    group_seconds: int = 300
    """The time after which a group enqueues the rest of its units as another task; half of the delivery's time if that
    is shorter."""

    node_children_max: int = 20
    """Children of a node of a batch's tree: few enough that no record is hot, many enough that three levels suffice."""

    tree_levels: int = 4
    """Levels of a batch's tree; pages' nodes are level 1. Each level multiplies the largest batch by 20."""

    batch_deadline_seconds: int = 7 * 24 * 3600
    """The default deadline. Every batch has one, because nothing else reports a unit that is never completed."""

    batch_deadline_seconds_max: int = 29 * 24 * 3600
    """Cloud Tasks schedules at most 30 days ahead, and keeps a task for 31 days. The difference is a margin, as for
    `delay_seconds_max`."""

    batch_keep_seconds: int = 7 * 24 * 3600
    """The time for which an ended batch and its results are kept: longer than any call or delivery lasts."""

    batch_idle_seconds: int = 60
    """The time without progress after which the sweeper walks a sealed batch, in case a process died before it
    propagated a full counter."""

    unit_silent_seconds: int = 3600
    """The time without an outcome after which the tasks of a page's other units may be lost, and are enqueued again. A
    task that still exists has its name, so it is not created twice."""

    end_silent_seconds: int = 3600
    """The time after a batch's end until the sweeper checks that its completion has run. The task may be lost; one
    that is only late has its name, so it is not created twice."""

    silent_pages_max: int = 20
    """Pages whose tasks one visit of the sweeper enqueues again: two thousand units a minute."""

    batches_sweep_page: int = 20
    """Batches that a sweep reads in one query: a header with its tasks' payloads may be large."""

    walk_nodes_max: int = 100
    """Nodes of one level that a walk reads. Later walks read the others."""

    missing_named_max: int = 100
    """Missing units that a batch names at its deadline."""

    clean_records_max: int = 300
    """Records that one commit of a removal deletes; Firestore takes 500 writes a commit."""

    clean_commits_max: int = 10
    """Commits that one sweep spends on removing one collection of a batch."""

    retry_units_max: int = 1_000
    """Units that one call may name for a retry. A call that names none retries all failed units."""

    look_again_seconds: int = 60
    """The first pause before a chain of retries checks again whether a unit that another call retries has ended."""

    look_again_seconds_max: int = 3_600
    """The longest such pause. Each is twice as long as the last, since the unit may wait for days."""

    batches_listed_max: int = 100
    """Batches in one answer: a header with its tasks' payloads may be large."""

    units_listed_max: int = 100
    """Units in one answer: with results of 100 KiB each, they still fit into a function's memory."""

    watch_page: int = 500
    """Outcomes of one read of a watched batch; fewer if they are large (`read_bytes_max`)."""

    watch_behind_seconds: float = 5
    """The time by which Firestore's time of a request may be earlier than that of its commit. Each read of a watched
    batch reads the outcomes of this time again, in case one of them was committed late."""

    watch_pause_seconds: float = 1
    """The pause between two reads of a watched batch in one process, for any number of watchers."""

    watch_kept_bytes_max: int = 4 * 1024 * 1024
    """Results of a watched batch that a process keeps for its watchers. A watcher further behind reads by itself."""

    watch_stream_seconds: float = 240
    """The time after which a stream of events ends and a browser connects again: less than a function's timeout."""

    watch_quiet_seconds: float = 10
    """The interval at which a stream without events sends an id, which shows whether its watcher is still connected."""

    watch_streams_max: int = 8
    """Streams that one process serves: each occupies one of its 16 threads, and half of the threads are for other
    requests, which are answered as fast as without streams (`make bench NAME=watchers`)."""


LIMITS = BatchLimits()
