"""What a method may do besides changing its state: call objects and send tasks. It is sent if the call takes effect.

A turn may lose its guard and be done again, so nothing else acts inside a method: the kit's documents, semaphores and
batches refuse.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from shared.core.rules.calls import Call
from shared.core.rules.problems import BadObjectCall
from shared.objects.rules.addresses import ObjectAddress
from shared.objects.rules.methods import Post, Sent

_running: ContextVar[Sent | None] = ContextVar("running_method", default=None)


class Reference:
    """An object by its address: what a method returns for a result that is an object."""

    def __init__(self, address: ObjectAddress) -> None:
        self._address = address


@contextmanager
def running() -> Iterator[Sent]:
    """Collect what a method sends."""
    sent = Sent()
    token = _running.set(sent)
    try:
        yield sent
    finally:
        _running.reset(token)


def is_running() -> bool:
    """Return whether a method of an object runs."""
    return _running.get() is not None


def send_task(call: Call) -> None:
    """Send a task, if the call takes effect. Raises `BadObjectCall` outside of a method."""
    _sent("send").tasks.append(call)


def send_post(post: Post) -> None:
    """Send a message to an object, if the call takes effect. Raises `BadObjectCall` outside of a method."""
    _sent("a call from inside a method").posts.append(post)


def _sent(what: str) -> Sent:
    sent = _running.get()
    if sent is None:
        raise BadObjectCall(f"There is {what} only inside a method of an object.")
    return sent
