"""Group the documents of a load into requests of limited size."""

from dataclasses import field

from signalbox.core.lazy_dataclasses import dataclass

LOAD_DOCUMENTS_MAX = 500


LOAD_BYTES_MAX = 4 * 1024 * 1024
"""Bytes of a request of a load: half of what the function accepts."""


@dataclass(slots=True)
class Group:
    """The documents of one request of a load, as newline-delimited JSON."""

    documents: list[tuple[str | None, bytes]] = field(default_factory=list)
    size_bytes: int = 0

    def takes(self, line: bytes) -> bool:
        """Return whether the group has room for one more document."""
        return not self.documents or (
            len(self.documents) < LOAD_DOCUMENTS_MAX and self.size_bytes + len(line) <= LOAD_BYTES_MAX
        )

    def add(self, key: str | None, line: bytes) -> None:
        """Add a document."""
        self.documents.append((key, line))
        self.size_bytes += len(line)

    @property
    def content(self) -> bytes:
        """The body of the request."""
        return b"".join(line for _, line in self.documents)
