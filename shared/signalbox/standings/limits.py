"""The limits of standings, each with its reason."""

from signalbox.core.limits import Limits


class StandingLimits(Limits):
    yoke_part_bytes_max: int = 450
    """Bytes of a yoke's user, item or attribute, percent-encoded: three of them make one id, of at most 1,500 bytes."""

    yoke_attributes_max: int = 20
    """Attributes of one yoke: each may be part of the ids of several standings."""

    standing_kinds_max: int = 20
    """Kinds of standings: each adds a record that counting a yoke reads and writes."""

    standing_parts_max: int = 3
    """Parts of a standing's id: three parts of the longest size fit into an id of Firestore."""

    standing_thresholds_max: int = 5
    """Thresholds of a kind: the tasks of all thresholds of all kinds must fit into one outbox record."""

    threshold_payload_bytes_max: int = 4_096
    """Bytes of the payload of a threshold's task: all of these tasks must fit into one outbox record."""

    visits_together_max: int = 12
    """Yokes that one commit counts. Each writes its counted record and at most two standings of each kind, so that even
    a commit with 20 kinds has no more writes than Firestore takes, which is 500."""

    standing_quiet_seconds: float = 1.5
    """A standing that was written this recently is busy: changes become adjustments, which a fold run adds. It is
    longer than a slot of the fold runs, so that visits do not write the standing while fold runs do.
    """

    fold_slot_seconds: float = 1.0
    """The length of a slot. The adjustments of a slot share a fold run, which writes the standing once: Firestore
    sustains about one write a second on a record.
    """

    fold_margin_seconds: float = 0.1
    """Delay of a fold task after its slot's end, since the clock of the queue may be ahead."""

    fold_page_max: int = 400
    """Adjustments that one commit adds or merges, and deletes; Firestore takes 500 writes a commit."""

    fold_pages_max: int = 20
    """Pages of one fold run; after that it enqueues another run."""

    count_page_max: int = 100
    """Yokes that one task of a walk visits."""

    remove_page_max: int = 300
    """Yokes that one task deletes. Each is a write with its own outcome; the next page is another task."""

    recounts_page_max: int = 20
    """Standings that one task of the nightly recount checks."""

    recount_page_max: int = 1_000
    """Counted records that one query of a recount reads, if they are small (`read_bytes_max`)."""

    recount_pages_max: int = 5
    """Queries of counted records in one task of a recount, which take a few seconds."""

    recount_waiting_max: int = 1_000
    """Waiting adjustments that a recount reads. If there are more, it waits for a fold run."""

    recount_pause_seconds: float = 1.0
    """Pause between two tasks of one recount, since each writes the standing."""

    leaderboard_limit_max: int = 100
    """Standings of one page of a leaderboard, and yokes of one page of a list. Each is a read."""

    leaderboard_limit_default: int = 20
    """Standings or yokes of one page if the request names no limit."""

    neighbours_max: int = 20
    """Standings on each side of a rank. Each is a read."""


LIMITS = StandingLimits()
