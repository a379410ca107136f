"""The limits of documents, each with its reason."""

from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.limits import Limits


class DocumentLimits(Limits):
    document_bytes_max: int = 1_000_000
    """Bytes of a document. Firestore holds 1,048,576 bytes a record, by its own formula; the rest is room for the kit's
    reserved map. The keys and fields of links are stored in that map too and count here, since they may exceed that
    room."""

    transform_output_bytes_max: int = document_bytes_max
    """Bytes of the output of one run of a transform: no document could contain more. Discarded output also counts."""

    index_entries_max: int = 39_500
    """Index entries of a document, as Firestore's own indexes count: two for each field that is neither map nor list,
    also inside maps, and one for each item of a list. Firestore refuses a record with more than 40,000; the difference
    is room for the kit's reserved map and for composite indexes. The emulator refuses none."""

    event_record_bytes_max: int = 240_000
    """Bytes of a record in an event. Eventarc accepts 512 KB for an event, and the event of a document contains its
    record before and after the write. If either is larger, the write commits a task that does the work of the event,
    which may not arrive.
    """

    link_levels_max: int = 10
    """Copies inside each other; links below are marked. A change is shown no further away, so every fan-out ends, and a
    document costs no more than this even if it is part of a long chain."""

    hops_max: int = CORE_LIMITS.depth_max
    """A transform can carry a value from copy to copy over any number of links, or round a cycle, and make it grow on
    each pass. Beyond this number of links the output of a transform is no longer refreshed but marked as a cycle."""

    query_limit_default: int = 100
    """Documents of a page if the request names no limit. Each is a read."""

    cascade_documents_max: int = 1_000
    """Dependent documents that one request or one task deletes after the document that they depend on. A task deletes
    the rest."""

    cascade_page_documents_max: int = 100
    """Dependent documents that are read together."""

    cascade_task_delay_seconds: int = 10
    """Seconds from the read of a document that is deleted to the task that deletes the dependents which the process has
    left.
    """

    put_seconds_max: int = 600
    """The most seconds from the read of a put to its commit: no request runs longer. A record with an older stamp was
    imported.
    """

    transaction_documents_max: int = 100
    """Documents that a transaction reads or writes, or that a write-back writes: all are in memory until the commit."""

    versions_listed_max: int = 100
    """Versions in one answer. A page ends early if their entries are large."""

    bulk_puts_max: int = 500
    """Documents of one bulk put: the limit of one BatchWrite."""

    bulk_bytes_max: int = 8 * 1024 * 1024
    """Bytes of the body of a bulk put, all of which is in memory."""

    bulk_targets_max: int = 1_000
    """Targets of the documents of one bulk put. Those that fit into memory together (`read_bytes_max`) are read at one
    instant; documents with other targets are put one by one."""

    bulk_waves_max: int = CORE_LIMITS.depth_max
    """Waves of one bulk put. Each writes documents whose targets were written before it, and no copy shows more levels
    than a document may have."""

    commit_documents_max: int = 100
    """Documents with tasks that are written in one commit: their tasks fit into one outbox record."""

    commit_bytes_max: int = 1_000_000
    """Bytes of the documents with tasks that are written in one commit. A larger document has its own commit."""

    compared_keys_bytes_max: int = 20_000
    """Bytes of the keys that the task of a put names, to compare their copies. If there are more, it compares all."""


LIMITS = DocumentLimits()
