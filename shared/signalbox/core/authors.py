"""The author of writes: the signed-in user, or else the calling account, or else the running function.

The adapter that handles a request sets the author. Writes of documents record it.
"""

from contextvars import ContextVar

from signalbox.core.bound_values import Bound

AUTHOR: ContextVar[str] = ContextVar("signalbox.author", default="")


def acting(author: str) -> Bound[str]:
    """Use `author` as the author of all writes inside the block."""
    return Bound(AUTHOR, author)


def author_of_function(name: str) -> str:
    """Return the author name of a function."""
    return f"function:{name}"


def author_of_user(id_: str) -> str:
    """Return the author name of a signed-in user."""
    return f"user:{id_}"


def author_of_account(name: str) -> str:
    """Return the author name of an account that Cloud Run has verified: an address, or a number."""
    return f"account:{name}"
