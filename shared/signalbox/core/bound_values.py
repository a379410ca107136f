"""Context variables that are bound while a context is entered. Each request, task and step enters several."""

from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Bound(Generic[T]):
    """Bind a variable while the context is entered, which returns the value. It is entered once.

    A generator with `contextmanager` would take three times as long.
    """

    __slots__ = ("_token", "_value", "_variable")

    def __init__(self, variable: "ContextVar[T] | ContextVar[T | None]", value: T) -> None:
        self._variable: ContextVar[Any] = variable
        self._value = value

    def __enter__(self) -> T:
        self._token: Token[Any] = self._variable.set(self._value)
        return self._value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._variable.reset(self._token)
