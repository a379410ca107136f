"""The limits of critical sections, each with its reason."""

from signalbox.core.limits import Limits


class CriticalSectionLimits(Limits):
    section_lease_seconds: int = 600
    """The time after which a second delivery of a run's task may take the run over, unless the call sets another: as
    long as a task of Cloud Tasks may run."""

    debounce_seconds_max: int = 24 * 3600
    """One day. A call that should run later than that is enqueued with a delay instead."""

    collected_items_max: int = 1_000
    """Items collected by the calls that share a run. The payload is also bounded in bytes, as any other is
    (`task_bytes_max`)."""

    section_ids_max: int = 100
    """Call ids remembered for each key to recognise repeated calls. They are stored in the section's one record."""

    section_end_rounds_max: int = 4
    """Rounds of `rounds_max` attempts each to end a run. If every attempt fails, the task is retried and the code runs
    again."""

    section_lost_seconds: int = 3_600
    """The time after the end of a run's lease at which its task is assumed lost, because an operator purged the queue
    or paused it for hours. The next call, or the sweeper, then grants the run again."""

    sections_sweep_page: int = 50
    """Critical sections in one query of the sweeper. Each is a read."""


LIMITS = CriticalSectionLimits()
