"""The limits of resources, each with its reason."""

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import Limits


class ResourceLimits(Limits):
    resource_items_max: int = CORE_LIMITS.query_limit_max
    """Items in one answer of a resource, even if the request names no limit. So a client without paging gets complete
    lists of up to this length.
    """

    resource_sorted_max: int = 1_000
    """Items of a resource that the function itself sorts and filters if Firestore lacks the composite index: each costs
    a read. A larger resource requires the index."""

    resource_offset_max: int = 10_000
    """Items that a list may skip (`_start`, `_page`): each costs a read. `page_token` skips none."""


LIMITS = ResourceLimits()
