"""Transactions over documents, as a user's function runs them."""

from collections.abc import Callable
from typing import TypeVar

from shared.adapters import runtime
from shared.adapters.http.deployed_tasks import deployed
from shared.core.rules.calls import Call
from shared.core.rules.effects import name_of
from shared.core.rules.keys import check_key
from shared.documents.operations import transactions
from shared.kit.idempotency import idempotency_key, is_repeated

Returned = TypeVar("Returned")


class Transaction(transactions.Transaction):
    """What `transaction` passes to its code: `get`, `get_many`, `put`, `delete`, `enqueue`."""

    def enqueue(self, call: Call) -> None:
        """Enqueue a call if, and only if, the transaction commits. Raises `BadCall` if it cannot be delivered."""
        super().enqueue(deployed(call, "call"))


def transaction(
    code: Callable[[Transaction], Returned],
    *,
    id: str | None = None,  # noqa: A002  the word of the HTTP API
) -> Returned:
    """Run `code` in a transaction and return what it returned: all of its writes and tasks take effect, or none.

    The code runs again if a document that it read has changed before the commit, so it must have no other effects.
    Under an `id`, and in a task, it takes effect once: a repeat within 32 days returns what the first returned, which
    must be JSON. Raises what the code raises, and `Unavailable` if others write the same documents all the time.
    """
    derived = None if id else idempotency_key("transaction", getattr(code, "__qualname__", ""))
    name = name_of("transaction", check_key(id)) if id else derived or ""
    is_new = bool(derived) and not is_repeated()
    return transactions.run(runtime.ports(), code, name, is_new=is_new, kind=Transaction)
