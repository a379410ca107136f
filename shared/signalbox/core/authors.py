"""The author of what is written: the function, the user or the account that acts."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

AUTHOR: ContextVar[str] = ContextVar("author", default="")


@contextmanager
def acting(author: str) -> Iterator[None]:
    """Record `author` for everything that is written while the context is entered."""
    token = AUTHOR.set(author)
    try:
        yield
    finally:
        AUTHOR.reset(token)


def author_of_function(name: str) -> str:
    """Return the author name of a function."""
    return f"function:{name}"


def author_of_user(id_: str) -> str:
    """Return the author name of a signed-in user."""
    return f"user:{id_}"


def author_of_account(name: str) -> str:
    """Return the author name of an account that Cloud Run has verified: an address, or a number."""
    return f"account:{name}"
