"""Documents, semaphores and batches, as a function of a user's own speaks of them.

    documents.put("order-7", {"customer": {"key": "ann"}})
    documents.patch("order-7", {"paid": True})
    semaphore("printer").wait(print_it.call(order=7), release_on_return=True)
    batch("quilt").populate(paint.call(square=n) for n in range(64))

All of it can be said again: within a task, what has no id gets one that a second delivery repeats.
"""

from collections.abc import Iterable
from typing import Any

from shared.adapters import runtime
from shared.core.rules.problems import Problem, Unavailable
from shared.documents.operations import bulk as document_bulk
from shared.documents.operations import documents as operations
from shared.documents.operations import patches as document_patches
from shared.documents.operations.bulk import Loaded
from shared.documents.operations.documents import Stored
from shared.documents.rules.patches import Null
from shared.kit.batches import Batch
from shared.kit.semaphores import Semaphore

Ending = dict[str, Any] | Problem | Unavailable
"""Of one of many documents: how it is stored, or why it is not. After `Unavailable` that is not known: put it again."""


class Documents:
    """JSON under keys, with links that stay true."""

    def put(self, key: str, document: dict[str, Any]) -> dict[str, Any]:
        """Store a document, and give it as stored: with its links filled. Raises a `Problem` if it cannot be."""
        return operations.put(runtime.ports(), key, document).document

    def patch(self, key: str, changes: dict[str, Any], *, none_removes: bool = False) -> dict[str, Any]:
        """Merge into a document, or make one of it, and give it as stored. Raises a `Problem` if that cannot be.

        Objects are merged member by member, all else is replaced. None is a value, or removes what it stands for.
        """
        null = Null.REMOVES if none_removes else Null.IS_A_VALUE
        return document_patches.patch(runtime.ports(), key, changes, null).document

    def put_many(self, documents: Iterable[dict[str, Any]]) -> list[Ending]:
        """Store documents that hold their own keys, each for itself; give how each ended, in their order.

        They may link to each other, in any order. Raises `TooLarge` for more than one call may bring.
        """
        return [_ending(loaded) for loaded in document_bulk.put_each(runtime.ports(), list(documents))]

    def get(self, key: str) -> dict[str, Any]:
        """Read a document. Raises `NotFound`."""
        return operations.get(runtime.ports(), key).document

    def delete(self, key: str) -> None:
        """Delete a document. Raises `NotFound`."""
        operations.delete(runtime.ports(), key)


def _ending(loaded: Loaded) -> Ending:
    return loaded.ending.document if isinstance(loaded.ending, Stored) else loaded.ending


documents = Documents()


def semaphore(name: str) -> Semaphore:
    """Speak of the semaphore of that name, which need not exist yet."""
    return Semaphore(name)


def batch(id: str) -> Batch:  # noqa: A002  the word of the HTTP API
    """Speak of the batch of that id, which need not exist yet."""
    return Batch(id)
