"""Dataclasses whose methods are generated when each is first looked up, not when the class is imported.

`dataclasses.dataclass` compiles up to ten methods of each class. A function with flows and objects imports some 270
classes. That took a third of its import time, and a request uses only a few of the methods. Here a class gets its
fields and slots when it is imported. Its `__init__`, `__repr__`, `__hash__` and comparisons are descriptors at first.
Looking one up, by an instance, `super()` or `inspect.signature`, replaces it with the method that `dataclasses`
generates.

Three methods are generated here. The decisions of a request create and copy many values: `__init__` sets the slots
of a frozen class by their descriptors, in less than half the time of `object.__setattr__`. `replace` has code for each
class, and does not look at the fields at each call: it takes a fifth of the time of `dataclasses.replace`. `__hash__`
is looked up while classes are made, in the class of each default value, and takes a fifth of the time of a class of
`dataclasses` that has it.

A type checker sees `dataclasses.dataclass`. It is used with parentheses: `@dataclass(frozen=True, slots=True)`.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from types import MemberDescriptorType
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
    if method == "__init__":
        return _init_of(cls, frozen)
    if method == "__hash__":
        return _hash_of(cls)
    fields = [(field.name, field.type, field) for field in dataclasses.fields(cls)]
    parts = {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    compares = method in COMPARISONS
    with_method = dataclasses.make_dataclass(
        cls.__name__,
        fields,
        namespace=parts,
        init=False,
        repr=method == "__repr__",
        eq=compares or method == "__eq__",
        order=compares,
    )
    return with_method.__dict__[method]


def _hash_of(cls: Any) -> Any:
    """Return the `__hash__` of a class. `dataclasses` looks it up in the class of each default value of a field."""
    compared = [
        field.name for field in dataclasses.fields(cls) if (field.compare if field.hash is None else field.hash)
    ]
    values = "".join(f"_self.{name}, " for name in compared)
    return _function("__hash__", [], [], [f"return hash(({values}))"], {}, {})


def _init_of(cls: Any, frozen: bool) -> Any:
    """Return the `__init__` of a class, which is called as that of `dataclasses` is."""
    fields = dataclasses.fields(cls)
    positional, named = _parameters(cls)
    scope: dict[str, Any] = {"_not_given": NOT_GIVEN}
    body = [line for field in fields for line in _field_set(cls, field, frozen, scope)]
    body += ["_self.__post_init__()"] if hasattr(cls, "__post_init__") else []
    init = _function("__init__", positional, named, body or ["pass"], scope, vars(sys.modules[cls.__module__]))
    defaults = {field.name: _default(field) for field in fields if field.init}
    given = {name: default for name, default in defaults.items() if default is not dataclasses.MISSING}
    init.__defaults__ = tuple(given[name] for name in positional if name in given) or None
    init.__kwdefaults__ = {name: given[name] for name in named if name in given} or None
    types = {field.name: field.type for field in fields if field.init}
    init.__annotations__ = {name: types[name] for name in (*positional, *named)} | {"return": None}
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    return init


def _parameters(cls: Any) -> tuple[list[str], list[str]]:
    """Return the names of the positional parameters of a class, and of those that are passed by name only."""
    fields = [field for field in dataclasses.fields(cls) if field.init]
    return [field.name for field in fields if not field.kw_only], [field.name for field in fields if field.kw_only]


def _field_set(cls: Any, field: "dataclasses.Field[Any]", frozen: bool, scope: dict[str, Any]) -> Iterable[str]:
    """Return the line that sets a field, if it is set, and add the names in the line to `scope`."""
    name = field.name
    slot: Any = getattr(cls, name, None)
    has_slot = isinstance(slot, MemberDescriptorType)
    if field.default_factory is not dataclasses.MISSING:
        scope[f"_new_{name}"] = field.default_factory
        value = f"_new_{name}() if {name} is _not_given else {name}" if field.init else f"_new_{name}()"
    elif field.init:
        value = name
    elif has_slot and field.default is not dataclasses.MISSING:
        scope[f"_default_{name}"], value = field.default, f"_default_{name}"
    else:
        return ()
    if not frozen:
        return (f"_self.{name} = {value}",)
    scope[f"_set_{name}"] = slot.__set__ if has_slot else partial(_set_attribute, name)
    return (f"_set_{name}(_self, {value})",)


def _set_attribute(name: str, instance: Any, value: Any) -> None:
    object.__setattr__(instance, name, value)


NOT_GIVEN: Any = dataclasses._HAS_DEFAULT_FACTORY  # type: ignore[attr-defined]  # a signature shows it as <factory>


def _default(field: "dataclasses.Field[Any]") -> Any:
    """Return the default of a parameter, or `MISSING`."""
    return field.default if field.default_factory is dataclasses.MISSING else NOT_GIVEN


def _function(
    name: str,
    positional: Sequence[str],
    named: Sequence[str],
    body: Sequence[str],
    scope: Mapping[str, Any],
    module: dict[str, Any],
) -> Any:
    """Return a function of an instance and parameters, whose code also has the names of `scope`."""
    parameters = ", ".join(["_self", *positional, *(["*"] if named else []), *named])
    lines = "".join(f"  {line}\n" for line in body)
    source = f"def made({', '.join(scope)}):\n def {name}({parameters}):\n{lines} return {name}\n"
    namespace: dict[str, Any] = {}
    exec(source, module, namespace)  # noqa: S102  names of fields, as `dataclasses` does
    return namespace["made"](**scope)


def replaced(instance: Any, /, **changes: Any) -> Any:
    """Return a copy of an instance with changed fields, as `dataclasses.replace` does."""
    cls: Any = type(instance)
    return _copier(cls)(instance, **changes)


@cache
def _copier(cls: Any) -> Callable[..., Any]:
    positional, named = _parameters(cls)
    names = [*positional, *named]
    values = {name: f"_self.{name} if {name} is _not_given else {name}" for name in names}
    arguments = [*(values[name] for name in positional), *(f"{name}={values[name]}" for name in named)]
    scope = {"_not_given": NOT_GIVEN, "_class": cls}
    copy = _function("replace", [], names, [f"return _class({', '.join(arguments)})"], scope, {})
    copy.__kwdefaults__ = dict.fromkeys(names, NOT_GIVEN)
    return cast(Callable[..., Any], copy)


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
    from dataclasses import replace as replace
else:
    dataclass = lazy_dataclass
    replace = replaced
