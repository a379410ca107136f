"""The limits of semaphores, each with its reason."""

from signalbox.core.limits import Limits

LEASE_SECONDS_DEFAULT = 600.0
"""The default of `lease_seconds`: as long as Cloud Tasks lets a task run."""


class SemaphoreLimits(Limits):
    """The limits by name; units come last in a name."""

    semaphore_name_bytes_max: int = 1_000
    """A semaphore's name. Paths below its record must also fit within Firestore's limits."""

    description_characters_max: int = 500
    """A semaphore's description: a few sentences, since each write of its record contains them."""

    permits_max: int = 1_000
    """Permits of a semaphore: its one record contains all leases, about 200 bytes each with an ordinary id."""

    wait_id_bytes_max: int = 128
    """A wait's id. A thousand leases with ids of this length fit into one record."""

    delete_after_seconds_max: int = 366 * 24 * 3600
    """One year until an unused semaphore is deleted."""

    deadline_seconds_max: int = 29 * 24 * 3600
    """Cloud Tasks schedules at most 30 days ahead. The difference is a margin, as for `delay_seconds_max`."""

    claim_seconds: int = 30
    """The time in which a granted continuation must start. Cold starts and a busy queue take seconds."""

    grant_silent_seconds: int = 3600
    """The time from the expiry of an unclaimed grant until the sweeper assumes that its task is lost, and returns its
    wait to the queue. A late task that arrives before that returns the wait itself; after that, it does not run."""

    silent_grants_max: int = 20
    """Waits of one semaphore that a visit of the sweeper returns to the wait queue, each by a commit."""

    acquire_wait_seconds_max: int = 30
    """The longest time for which a request waits for permits: it occupies an instance meanwhile."""

    acquires_waiting_max: int = 12
    """Requests of one process that wait for permits at once, so that the others of an instance are still answered."""

    acquire_pause_seconds: float = 0.02
    """The first pause of a process in which requests wait for permits; it grows by half each time."""

    acquire_pause_seconds_max: float = 0.5
    """The longest such pause. A process reads the semaphore about twice a second, however many of its requests wait."""

    acquire_retry_seconds_max: int = 4
    """The longest `Retry-After` of an acquire that was refused; the shortest is a second. The header has the time until
    the expected turn of the request. If that is not known, it is random, so that callers do not all retry at once."""

    acquire_away_seconds: float = 6
    """How long after its last answer a process remembers when a refused acquire first arrived. It is longer than
    `acquire_retry_seconds_max`, so that a caller that obeys `Retry-After` is still remembered."""

    paused_retry_seconds_max: int = 60
    """The longest `Retry-After` of an acquire while the semaphore is paused: nothing is granted until it is resumed."""

    ended_leases_max: int = 50
    """Ended leases that the record keeps, to recognise a repeated call."""

    expired_leases_max: int = 100
    """Expired leases of continuations that the record keeps for their tasks. Others are evicted, and noted in their
    waiters' records."""

    guarded_attempts_max: int = 2
    """Guarded commits of a wait or a signal that may fail before it takes the combining path."""

    grants_page_max: int = 90
    """Waiters that one admit run grants. With an alarm they fit into one outbox record of 100 tasks."""

    known_head_max: int = 32
    """Waiters whose order is known before they are granted. Their ids are stored in the semaphore's record, so the next
    grant reads only these waiters."""

    key_weight_max: int = 1_000
    """A key's weight: its share of the permits compared with that of a key without one."""

    weights_max: int = 100
    """Keys with a weight. Each always has separate lanes, so the record needs room for three lanes of each."""

    lanes_max: int = 256
    """Lanes of one semaphore that a single key uses alone. Each takes 60 to 200 bytes of the record, which every grant
    writes."""

    lanes_shared_max: int = 16
    """Lanes of each priority for the keys beyond `lanes_max`: a key's hash chooses one of them."""

    lanes_read_max: int = 32
    """Lanes whose waiters one grant or one admit run reads, each by a query. The next run continues."""

    lane_heads_max: int = 256
    """Ids of known waiters of all lanes together: 10 to 40 KB of the semaphore's record."""

    releases_page_max: int = 100
    """Releases that one admit run applies."""

    grant_bytes_max: int = 600_000
    """Payloads of the continuations granted in one commit, so that they fit into its outbox record."""

    admit_slot_seconds: float = 0.2
    """Waits and signals of one slot share one admit run: about the time of a guarded commit under load."""

    admit_margin_seconds: float = 0.1
    """The time from a slot's end until its admit task is due. A queue whose clock is ahead would otherwise deliver the
    task early, and it would be retried."""

    admission_lost_seconds: int = 10
    """The time for which permits may be free while waiters exist. After it, the sweeper assumes that the admit task was
    lost."""

    semaphores_sweep_page: int = 50
    """Semaphores that a sweep reads in one query."""

    sweep_pause_seconds: int = 10
    """The pause after a visit of the sweeper that did not change the semaphore. It doubles after each such visit."""

    sweep_pause_seconds_max: int = 120
    """The longest such pause. For this time permits may stay free while waiters exist whose admit task was lost."""

    waiters_shown_max: int = 100
    """Waiters of a semaphore in one answer. Each is a read, and a semaphore may have any number of them."""

    semaphores_listed_max: int = 50
    """Semaphores in one answer. Each requires a count of its waiters."""

    deadlock_semaphores_max: int = 200
    """Semaphores with waiters that are searched for deadlocks. Each takes two calls, all of them a few seconds."""

    receipts_page_max: int = 200
    """Receipts that one commit of a clean-up deletes."""

    clean_pages_max: int = 20
    """Commits that one visit of the sweeper spends on a semaphore's old receipts: 4,000 receipts in a few seconds."""


LIMITS = SemaphoreLimits()
