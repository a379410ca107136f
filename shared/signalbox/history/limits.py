"""The limits of history, each with its reason."""

from signalbox.core.limits import Limits


class HistoryLimits(Limits):
    history_segment_versions: int = 32
    """Entries of a segment, from one whole version to the next: at most this many are read for one version."""

    history_versions_max: int = 1_000
    """The largest `versions_max` in a catalogue: the document's reserved map lists all segments."""

    history_days_max: int = 36_500
    """The largest `days_max` in a catalogue: a hundred years."""

    history_text_letters_max: int = 20_000
    """Characters of a patch that is stored uncompressed. A longer one is compressed."""

    history_part_bytes_max: int = 700_000
    """Bytes of a compressed patch in one record. A longer one is stored in parts: in base64 this many bytes fit into a
    record, and compressed content may be larger than the document."""

    history_delete_page: int = 100
    """Versions that are deleted by one commit."""


LIMITS = HistoryLimits()
