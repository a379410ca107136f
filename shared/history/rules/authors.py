"""Who writes: the user who signed in, the account that calls, else the function that runs. An adapter sets it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

AUTHOR: ContextVar[str] = ContextVar("author", default="")


@contextmanager
def acting(author: str) -> Iterator[None]:
    """Make what is written while the context is entered an author's."""
    token = AUTHOR.set(author)
    try:
        yield
    finally:
        AUTHOR.reset(token)


def of_function(name: str) -> str:
    """Return the author that a function is."""
    return f"function:{name}"


def of_user(id_: str) -> str:
    """Return the author that a signed-in user is."""
    return f"user:{id_}"


def of_account(name: str) -> str:
    """Return the author that an account is which Cloud Run has verified: an address, or a number."""
    return f"account:{name}"
