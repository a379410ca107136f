"""The limits of links, each with its reason."""

from signalbox.core.limits import Limits


class LinkLimits(Limits):
    walk_documents_max: int = 50
    """Documents that one task of a transform's walk refreshes. The task also reads the targets of all their links."""

    page_copies_first: int = 300
    """Copies that the first task of a fan-out refreshes, before the size of the documents is known."""

    page_copies_max: int = 1_500
    """Copies that a later task refreshes, in a few seconds. Fewer and larger pages mean fewer queries."""

    group_copies_max: int = 500
    """Copies that are written in one call, between two reads of their source: the limit of BatchWrite."""

    refresh_failures_max: int = 20
    """Deliveries after which a refresh that fails or times out is given up, with an ERROR in the log. The nightly
    verification repairs the copies. Outages do not end a refresh: it is retried without a limit.
    """

    verify_page_documents_max: int = 300
    """Documents that one task of a verification compares, if they are small (`read_bytes_max`). Pages run one after
    another, so larger pages make a verification faster.
    """

    verify_group_documents_max: int = 100
    """Documents of a page whose targets are read together, since large targets of more documents fill the memory."""

    verify_targets_max: int = 100
    """Targets read in one call of a verification, if they are small."""

    verify_parts: int = 7
    """Nights in which nightly verifications compare all documents once: each read costs, and drift is rare."""

    verify_part_documents_min: int = 10_000
    """Documents that a nightly verification compares at least, so that a small database is compared every night. As
    many reads cost $0.09 a month, or at most two fifths of a free tier.
    """

    verify_moving_seconds: int = 60
    """The age of a write from which a difference counts as drift. Before that, the event of the write may still be on
    its way.
    """

    verify_abandoned_seconds: int = 3_600
    """The time without progress after which a verification counts as abandoned, and another may begin."""

    verifications_listed_max: int = 20
    """Verifications in one answer: those of about three weeks."""


LIMITS = LinkLimits()
