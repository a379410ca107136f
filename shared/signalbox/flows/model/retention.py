"""The retention of an ended run, and the place of its archive, as the decorator of its flow specifies them."""

from datetime import timedelta
from typing import Any, Self

from signalbox.core.kit_names import BUCKET, CLOUD_STORAGE
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.flows.limits import LIMITS

DAY_SECONDS = 24 * 3600


@dataclass(frozen=True, slots=True)
class Keeping:
    """The retention of an ended run, and the place of its archive, which is written before the run is removed.

    If `days` is None, the run is kept while its start may be repeated. `archive` is ``gs://BUCKET/PREFIX`` or a folder,
    and empty if the run has no archive.
    """

    days: int | None = None
    archive: str = ""

    @classmethod
    def checked(cls, days: Any, archive: Any) -> Self:
        """Return the options of a flow's decorator. Raises `TypeError` and `ValueError`."""
        least, most = LIMITS.flow_kept_seconds // DAY_SECONDS, LIMITS.flow_retention_days_max
        if not isinstance(days, int | None) or isinstance(days, bool):
            raise TypeError(f"retention_days must be a whole number of days, not {days!r}")
        if days is not None and not least <= days <= most:
            raise ValueError(
                f"retention_days must be {least} to {most:,}, not {days}: a start may be repeated for 31 days, and "
                "must find the run"
            )
        bytes_max = LIMITS.flow_archive_bytes_max
        if not isinstance(archive, str) or len(archive.encode()) > bytes_max:
            raise TypeError(f"archive must be a string of at most {bytes_max} bytes, not {archive!r}")
        is_bucket = bool(BUCKET.match(archive)) or not archive.startswith(CLOUD_STORAGE)
        if set(archive) & set("*?[]#\r\n") or not is_bucket or (archive and not archive.strip("/")):
            raise ValueError(f"archive must be gs://BUCKET/PREFIX or a folder, not {archive!r}")
        return cls(days, archive.rstrip("/"))

    @property
    def time(self) -> timedelta:
        """The time for which an ended run is kept."""
        return timedelta(days=self.days) if self.days else timedelta(seconds=LIMITS.flow_kept_seconds)


AS_LONG_AS_NEEDED = Keeping()
