"""The limits of flows, each with its reason."""

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import Limits


class FlowLimits(Limits):
    flow_id_bytes_max: int = 800
    """Bytes of a flow's id. With the flow's name it is an id in Firestore, and part of the paths of its messages."""

    flow_pending_max: int = 90
    """Commands that a flow waits for at once. A turn that replaces all of them has up to 300 writes."""

    flow_step_attempts_max: int = 1_000
    """Attempts of one step that a flow can ask for: six weeks, with a pause of an hour."""

    flow_last_error_letters: int = 200
    """Letters of the error of a step's attempt before the last one: the header and the log keep them."""

    flow_pause_factor_max: float = 10
    """The growth of the pause from one attempt of a step to the next. More would reach the longest pause at once."""

    flow_advances_max: int = 10_000
    """Times that a coroutine is resumed in one turn without an entry of the log. More means a loop that never waits."""

    flow_events_kept_max: int = 1_000
    """Events that a flow has received and its code has not waited for. If there are more, further ones are refused."""

    flow_events_shown_max: int = 10
    """Names in a run's status of events that its code has not waited for."""

    flow_events_kept_bytes_max: int = 1_500_000
    """Bytes of the events that a flow keeps for its code. If there are more, further ones are refused.
    `continue_as_new` carries over all in one commit.
    """

    flow_events_passed_on_max: int = 10_000
    """Events that a flow keeps if they arrive faster than turns, for instance while it is suspended. The turn refuses
    further ones.
    """

    flow_events_passed_on_bytes_max: int = 3_000_000
    """Bytes of events and updates that a flow keeps if they arrive faster than turns: `continue_as_new` carries over as
    many in one commit. The turn refuses further ones.
    """

    flow_updates_max: int = 100
    """Updates that a flow has received and its code has not answered. If there are more, further ones are refused: the
    header has the ids of all.
    """

    flow_update_id_bytes_max: int = 200
    """Bytes of the id of an update, which the header and the log contain."""

    flow_event_name_bytes_max: int = 200
    """Bytes of the name of an event or an update, which the log and errors repeat."""

    flow_callback_seconds_max: float = 365 * 24 * 3600
    """The longest time for which the address of a callback is valid."""

    flow_callback_question_bytes_max: int = 300
    """Bytes of the question on the page of a callback, which its address contains."""

    flow_callback_choice_letters_max: int = 60
    """Characters of an answer that the page of a callback offers: it is the text of a button."""

    flow_callback_token_max: int = 3_200
    """Characters of the signed part of a callback's address. Servers refuse a request line of more than 4,094."""

    flow_trace_bytes_max: int = 4_000
    """Bytes of the stack trace of a run that is stuck or has failed. Of a longer one, the innermost frames are kept."""

    flow_answers_max: int = 100
    """Queries that the code of a run answers."""

    flow_query_entries_max: int = 10_000
    """Entries of the log of a run that can be queried: each query replays them all, in up to 0.2 seconds."""

    flow_timeout_seconds_max: float = 365 * 24 * 3600
    """The longest time-out of a run. It has a task for each 29 days."""

    flow_labels_max: int = 10
    """Labels that a start sets, and labels that the code of one execution sets."""

    flow_labels_total_max: int = 20
    """Labels of one run. Each has two entries in an index, which are written whenever a label or the state changes."""

    flow_label_bytes_max: int = 200
    """Bytes of a label's value. Firestore indexes at most 1,500 bytes of a value."""

    flow_rewinds_max: int = 100
    """Retries in place of one run. The header keeps the keys of all of them."""

    flow_tail_bytes_max: int = 100_000
    """Bytes of the end of the log, which is in the header and is written by each turn. A longer one becomes a chunk."""

    flow_live_tail_bytes_max: int = 20_000
    """Bytes of the end of the log after a turn of an inline step, which reads no chunk. A long last chunk is written
    less often.
    """

    flow_chunk_bytes_max: int = 900_000
    """Bytes of a chunk of the log. A record in Firestore can have 1 MiB."""

    flow_log_bytes_max: int = 8 * 1024 * 1024
    """Bytes of the log of one execution, which a turn reads whole. A longer flow returns `continue_as_new`."""

    flow_log_entries_max: int = 50_000
    """Entries of the log of one execution. A turn replays them all, in 10 to 16 ms for a thousand."""

    flow_page_log_entries: int = 500
    """Entries of a log from which on a turn applies more messages at once: it replays so many in 5 to 8 ms, which is as
    much as its commit takes.
    """

    flow_page_max: int = 350
    """Messages that one turn of a flow applies. Each is a write of its commit, which has at most 400."""

    inline_timeout_seconds: float = 60
    """The default time within which an inline step must end."""

    inline_timeout_seconds_max: float = 480
    """The longest time that an inline step may ask for. Cloud Tasks ends a delivery after ten minutes. Use a task for a
    longer step.
    """

    inline_steps_max: int = 8
    """Inline steps that one delivery runs at once, each in a thread. Their instance also serves other requests."""

    inline_starts_max: int = 10
    """Starts of one attempt of an inline step after which it is given up: each raised an error, or its process ended.
    """

    inline_claim_seconds: float = 60
    """The time after a commit for which no other delivery runs the code. If the process dies, the code waits for this
    time."""

    inline_renewal_seconds: float = 20
    """The interval at which a delivery renews its claims: short enough for a second try."""

    inline_look_seconds: float = 1
    """The interval at which a delivery with inline steps looks for messages, for instance a cancel: one read."""

    inline_margin_seconds: float = 20
    """The time that a delivery keeps for the commit after its last inline step."""

    inline_pause_seconds_max: float = 60
    """The longest pause before an inline step starts again after an error. It doubles from one second."""

    flow_siblings_max: int = 4
    """A step with more pending siblings than this posts its outcome and runs no turn, which would often conflict."""

    flow_careful_deliveries: int = 2
    """The number of earlier deliveries of a wake-up from which its run counts the starts of the flow's code."""

    flow_starts_max: int = 10
    """Counted starts of a flow's code by one wake-up after which the flow is stuck: each ended the process, or took too
    long. Deliveries that end before the code is started, as in an outage, do not count."""

    flow_stuck_seconds: int = 600
    """The interval at which the sweeper wakes a stuck flow. A deployment may have fixed its code."""

    flow_silent_seconds: int = 3600
    """The time without a turn after which the sweeper repeats a running flow's commands: their tasks may be lost."""

    flow_patient_seconds: int = 24 * 3600
    """The time without a turn after which the sweeper repeats the commands of a flow that waits only for events, times
    and sub-flows.
    """

    flow_kept_seconds: int = CORE_LIMITS.receipt_seconds
    """The time for which an ended flow is kept: longer than the 31 days for which Cloud Tasks may repeat its start."""

    flow_retention_days_max: int = 3_650
    """Days for which an ended run can be kept: ten years, the longest time for which laws require business records.
    Each run has at least two records for that time; an archive costs less."""

    flow_archive_bytes_max: int = 300
    """Bytes of the place of an archive. The names of its objects begin with it, and have 1,024 bytes at most."""

    flow_archive_seconds: int = 600
    """The interval at which the sweeper repeats the task that archives an ended run, if that has failed or was lost."""

    flow_batch_bytes_max: int = 300_000
    """Bytes of the calls of a flow's batch, which are sent in one task."""

    flow_bulk_runs_max: int = 20_000
    """Runs on which one request acts. It lists them while its caller waits, and commits a page for each hundred."""

    flow_bulk_page: int = 1_000
    """Listings that a request for an action on many runs reads at a time."""

    flow_bulk_per_task: int = 20
    """Runs on which one task of an action on many runs acts, one after another, in about a second."""

    flow_commit_bytes_max: int = 3_500_000
    """Bytes that one turn of a flow writes. A commit has at most 4 MiB, with the names of its records and fields."""

    flow_depth_max: int = 10
    """The depth of nested sub-flows. Otherwise a flow that starts itself, by mistake, would start runs without end."""

    flow_log_page: int = 1_000
    """Entries of a flow's log in one response, which is built in memory; an entry may contain kilobytes."""

    flow_watch_pause_seconds: float = 1
    """The pause between two reads of a watched run, for each watcher."""

    flow_watch_seconds: float = 240
    """The time after which a stream of a run's events ends and a browser connects again."""

    flow_watch_quiet_seconds: float = 10
    """The interval at which a stream without events sends an id, which shows whether its watcher is still connected."""

    flow_watch_streams_max: int = 8
    """Streams of runs that one process serves: each occupies one of its 16 threads."""

    flows_listed_max: int = 100
    """Flows in one response. Each is a read."""

    flow_scanned_pages: int = 10
    """Pages of listings that one page of a list by several labels reads: only the first label has an index."""

    flow_scanned_page: int = 300
    """Listings in one query of a count by labels."""

    flow_scanned_max: int = 20_000
    """Listings that a count by labels reads, each of which is a read: so it costs at most about a cent."""

    flows_sweep_page: int = 50
    """Listings that the sweeper reads at a time."""

    flow_removal_commits_max: int = 20
    """Commits of one removal in one sweep. The next sweep continues it, after the other removals that are due."""

    flow_removed_at_once_max: int = 90
    """Messages and chunks of a run that is removed in one commit. Their leases fit into one outbox record of 100."""

    flow_removal_page: int = 300
    """Records that one commit of a removal deletes."""


LIMITS = FlowLimits()
