"""Documents, semaphores and batches, as a function of a user's own speaks of them.

    documents.put("order-7", {"customer": {"key": "ann"}})
    semaphore("printer").wait(print_it.call(order=7), release_on_return=True)
    batch("quilt").populate(paint.call(square=n) for n in range(64))

All of it can be said again: within a task, what has no id gets one that a second delivery repeats.
"""

from typing import Any

from shared.adapters import runtime
from shared.front.batches import Batch
from shared.front.semaphores import Semaphore
from shared.operations import documents as operations


class Documents:
    """JSON under keys, with links that stay true."""

    def put(self, key: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document, and give it as stored: with its links filled. Raises a `Problem` if it cannot be."""
        return operations.put(runtime.ports(), key, document).document

    def get(self, key: str) -> dict[str, Any]:
        """Read a document. Raises `NotFound`."""
        return operations.get(runtime.ports(), key).document

    def delete(self, key: str) -> None:
        """Delete a document. Raises `NotFound`."""
        operations.delete(runtime.ports(), key)


documents = Documents()


def semaphore(name: str) -> Semaphore:
    """Speak of the semaphore of that name, which need not exist yet."""
    return Semaphore(name)


def batch(id: str) -> Batch:  # noqa: A002  the word of the HTTP API
    """Speak of the batch of that id, which need not exist yet."""
    return Batch(id)
