"""Dataclasses whose methods are generated when each is first looked up, not when the class is imported.

`dataclasses.dataclass` compiles up to ten methods of each class. A function with flows and objects imports some 270
classes. That took a third of its import time, and a request uses only a few of the methods. Here a class gets its
fields and slots when it is imported. Its `__init__`, `__repr__`, `__hash__` and comparisons are descriptors at first.
Looking one up, by an instance, `super()` or `inspect.signature`, replaces it with the method that `dataclasses`
generates.

A type checker sees `dataclasses.dataclass`. It is used with parentheses: `@dataclass(frozen=True, slots=True)`.
"""

import dataclasses
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

Class = TypeVar("Class", bound=type)

ASSIGNMENTS = ("__setattr__", "__delattr__")
COMPARISONS = ("__lt__", "__le__", "__gt__", "__ge__")


def lazy_dataclass(
    *,
    frozen: bool = False,
    slots: bool = False,
    weakref_slot: bool = False,
    kw_only: bool = False,
    eq: bool = True,
    order: bool = False,
) -> Callable[[Class], Class]:
    """Return a decorator that makes a class a dataclass. The options mean what they mean to `dataclasses.dataclass`.

    The decorator raises `TypeError` for a class with an `InitVar`, with a field without a default after a field with a
    default, or with a method that an option generates, such as `__setattr__` with `frozen`.
    """

    with_fields: Any = partial(dataclasses.dataclass, init=False, repr=False, eq=False)

    def decorated(cls: Class) -> Class:
        _refuse_own_methods(cls, (*(ASSIGNMENTS if frozen else ()), *(COMPARISONS if order else ())))
        cls.__doc__ = cls.__doc__ or cls.__name__  # `dataclasses` would compute the signature, which is slow
        names = ("__init__", "__repr__", *(("__eq__",) if eq else ()), *(COMPARISONS if order else ()))
        lazy = [name for name in names if name not in cls.__dict__]
        has_hash = "__hash__" in cls.__dict__ and not (cls.__dict__["__hash__"] is None and "__eq__" in cls.__dict__)
        has_state = [name for name in ("__getstate__", "__setstate__") if name in cls.__dict__]
        inherits = any(map(dataclasses.is_dataclass, cls.__bases__))  # then all of them must be frozen, or none
        made: Any = with_fields(frozen=frozen and inherits, kw_only=kw_only, slots=slots, weakref_slot=weakref_slot)(
            cls
        )
        _refuse_init_variables(made)
        _check_order(made)
        if eq and not has_hash:
            lazy += ["__hash__"] if frozen else ()
            made.__hash__ = None
        for name in lazy:
            setattr(made, name, _Late(made, name, frozen))
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse_to_assign, _refuse_to_delete
        if frozen and slots and not has_state:
            made.__getstate__, made.__setstate__ = _state, _restore
        options = {"init": True, "repr": True, "eq": eq, "order": order, "frozen": frozen}
        for option, value in options.items():
            setattr(made.__dataclass_params__, option, value)
        return cast(Class, made)

    return decorated


def _refuse_own_methods(cls: type, names: Iterable[str]) -> None:
    for name in names:
        if name in cls.__dict__:
            raise TypeError(f"{cls.__qualname__} has a method {name}, which an option generates: remove either.")


def _refuse_init_variables(cls: Any) -> None:
    kept = {field.name for field in dataclasses.fields(cls)}
    for name, field in cls.__dataclass_fields__.items():
        if name not in kept and "InitVar" in str(field.type):
            raise TypeError(f"{cls.__qualname__}.{name} is an InitVar: use `dataclasses.dataclass`.")


def _check_order(cls: Any) -> None:
    """Raise `TypeError`, now and not at the first use, for an order of fields that `__init__` cannot have."""
    has_default = ""
    for field in dataclasses.fields(cls):
        if not field.init or field.kw_only:
            continue
        if field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING:
            has_default = field.name
        elif has_default:
            raise TypeError(
                f"{cls.__qualname__}: the field {field.name!r} has no default, and {has_default!r} has one."
            )


class _Late:
    """A descriptor of a method that is not generated yet. Looking it up generates the method, which replaces it."""

    def __init__(self, cls: type, name: str, frozen: bool) -> None:
        self._cls = cls
        self._name = name
        self._frozen = frozen

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        method = _generated(self._cls, self._name, self._frozen)
        setattr(self._cls, self._name, method)
        return method.__get__(instance, owner)


def _generated(cls: type, method: str, frozen: bool) -> Any:
    """Return a method of a temporary class with the same fields. Threads that race get equal methods."""
    fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
    names = ("__module__", "__qualname__", "__doc__", "__post_init__")
    parts = {name: getattr(cls, name) for name in names if hasattr(cls, name)}
    compares = method in COMPARISONS
    with_method = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace=parts,
        init=method == "__init__",
        repr=method == "__repr__",
        eq=compares or method in ("__eq__", "__hash__"),
        order=compares,
        frozen=frozen,
    )
    return with_method.__dict__[method]


def _refuse_to_assign(self: Any, name: str, value: Any) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
    object.__setattr__(self, name, value)


def _refuse_to_delete(self: Any, name: str) -> None:
    if _is_frozen(self, name):
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
    object.__delattr__(self, name)


def _is_frozen(self: Any, name: str) -> bool:
    """Return whether a name cannot be assigned. A subclass that is not a dataclass may have further attributes."""
    return "__dataclass_fields__" in type(self).__dict__ or name in self.__dataclass_fields__


def _state(self: Any) -> list[Any]:
    """Return the state that a copy needs; the default would assign each slot."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:
    dataclass = lazy_dataclass
