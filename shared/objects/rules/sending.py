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

_running: ContextVar[tuple[ObjectAddress, Sent] | None] = ContextVar("running_method", default=None)


class Reference:
    """An object by its address: what a method returns for a result that is an object."""

    def __init__(self, address: ObjectAddress) -> None:
        self._address = address


@contextmanager
def running(address: ObjectAddress) -> Iterator[Sent]:
    """Collect what a method of the object at `address` sends."""
    sent = Sent()
    token = _running.set((address, sent))
    try:
        yield sent
    finally:
        _running.reset(token)


def is_running() -> bool:
    """Return whether a method of an object runs."""
    return _running.get() is not None


def running_object(what: str) -> ObjectAddress:
    """Return the object whose method runs. Raises `BadObjectCall` outside of a method; `what` names what needs one."""
    return _method(what)[0]


def send_task(call: Call) -> None:
    """Send a task, if the call takes effect. Raises `BadObjectCall` outside of a method."""
    _method("send")[1].tasks.append(call)


def send_post(post: Post) -> None:
    """Send a message to an object, if the call takes effect. Raises `BadObjectCall` outside of a method."""
    _method("A message")[1].posts.append(post)


def _method(what: str) -> tuple[ObjectAddress, Sent]:
    method = _running.get()
    if method is None:
        raise BadObjectCall(f"`{what}` belongs inside a method of an object.")
    return method
