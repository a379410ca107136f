"""Two releases at once on one store: each process of a world runs the library of today or that of the last release.

The last release is a second library in this process (`tests.compatibility.last_release`), whose values are of other
classes. A call of the library by a world crosses into the library of its process: arguments, results and errors are
translated between the two by the names of their classes and fields. So does each call of the last release at its ports,
back into the store and the queue of the world. World and library share no class, as two deployments share none.

What the last release lacks (a function, a parameter, a field) cannot be asked of it: today's library runs that call, or
the seed is skipped (`Lacking`). A task is different. One that a release does not have is refused with `Unavailable` and
delivered again.

Each world draws how many of its processes are of the last release, and after how many processes the deployment has
ended: from then on all processes are of today.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import sys
import warnings
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from enum import Enum
from importlib import import_module
from random import Random
from types import (
    BuiltinFunctionType,
    CodeType,
    CoroutineType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
)
from typing import Any

from greenlet import getcurrent, greenlet

from signalbox.core.effects import Effect
from signalbox.core.ports import Snapshot
from signalbox.core.problems import Unavailable
from signalbox.core.user_code import ProcessEnded
from signalbox.flows.machine.tree import CLOSES_MAX, innermost, is_open
from tests.compatibility.last_release import LAST, TODAY, counterpart, replaced_in_both
from tests.simulation.reached_counts import CALLS_OF_THE_LAST_RELEASE, CALLS_ONLY_OF_TODAY, REACHED

SHARES = (0.2, 0.5, 0.8)
"""Of the processes, those of the last release until the deployment has ended."""

DEPLOYED_AFTER = (10, 40, 160, 10**9)
"""Processes after which the deployment has ended; the last: never."""

WORLDS = "tests.simulation.worlds"

RAW = {("core.code_contents", "content_of_code")}
"""Functions that look into the code that they are given: it must not be wrapped."""

FETCHES_PORTS = {("function.document_handlers", "receive")}
"""Functions that fetch the ports instead of receiving them: no call of theirs crosses, so they run in today's code."""

METHODS = (
    "objects.machine.classes:ObjectClass.apply",
    "objects.machine.classes:ObjectClass.check_state",
    "tasks.api:Task.call",
)
"""Methods of values that a world calls in a process, and that call the world's code in turn."""

PORTS = ("tests.simulation.faulty_ports", "contextlib")
"""Modules of objects whose calls cross, as those of all stores do. Other objects of a world stay as they are."""

MOVED: Mapping[str, tuple[str, ...]] = {}
"""Modules of the last release, with those of today that have what is in them. Keeping a new release empties this."""

PLAIN = frozenset((str, int, float, bool, type(None), bytes, datetime, timedelta, CodeType, ModuleType, Random))


class _State:
    """Whether worlds are of two versions, in this process."""

    on = False


class Versions:
    """The versions of one world's processes, drawn from a generator of their own."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"versions {seed}")
        self._share = self._random.choice(SHARES)
        self._left = self._random.choice(DEPLOYED_AFTER)
        self.crossings = Crossings()

    def assign(self, process: greenlet) -> str:
        """Draw the library of a new process; return what its name ends with."""
        self._left -= 1
        process.crossings = self.crossings
        process.library = LAST if self._left > 0 and self._random.random() < self._share else TODAY
        process.version = process.library
        return " (last release)" if process.library == LAST else ""

    def end_deployment(self) -> None:
        """Let all further processes be of today."""
        self._left = 0

    def carried(self, effect: Effect, enqueued_by: str) -> Effect:
        """Return a task as this process reads the body that the library of another process has written."""
        library = library_of_process()
        if library == enqueued_by == TODAY:
            return effect
        written = effect if enqueued_by == TODAY else self.crossings.to(LAST, effect)
        body = json.loads(json.dumps(_envelopes(enqueued_by).of(written).to_json()))
        read = _envelopes(library).from_json
        envelope = read(body) if library == TODAY else self.crossings.call(read, (body,), {}, home=LAST)
        return dataclasses.replace(effect, task=envelope.name, payload=envelope.payload, context=envelope.context)


def _envelopes(library: str) -> Any:
    module = counterpart("signalbox.core.effects", library)
    assert module is not None, "every release has envelopes"
    return module.TaskEnvelope


def versions_of(seed: int) -> Versions | None:
    """Return the versions of a world, or None if all of it is of today."""
    return Versions(seed) if _State.on else None


def version_now() -> str:
    """Return the library of the process that runs."""
    return getattr(getcurrent(), "version", TODAY)


def library_of_process() -> str:
    """Return the library of the process that calls a port, whose code is of today."""
    return getattr(getcurrent(), "library", TODAY)


@contextmanager
def _within(version: str) -> Iterator[None]:
    """Run calls in a library while the context is entered, in this greenlet."""
    current, before = getcurrent(), version_now()
    current.version = version
    try:
        yield
    finally:
        current.version = before


# --- calls of the library by a world ---


class Lacking(ProcessEnded):
    """The last release lacks a class or a field. Not an `Exception`: nothing in the code under test may catch it.

    If it is an argument that the last release lacks, today's code runs the call. If a user's code in a flow or in an
    object uses what is new, the seed is skipped: a function has such code only together with the library of today.
    """


class Entry:
    """A function of the library as a world calls it: that of the library whose process calls.

    `key` is its key if it is in a table of functions, such as `TASKS`.
    """

    def __init__(self, module: str, name: str, todays: Callable[..., Any], key: str | None = None) -> None:
        self._module, self._name, self._key, self._todays = module, name, key, todays
        functools.update_wrapper(self, todays)

    def __call__(self, *args: Any, **named: Any) -> Any:
        if version_now() == TODAY:
            return self._of_today()(*args, **named)
        crossings = _crossings()
        function = self._of_the_last()
        translated = self._translated(crossings, args, named)
        if function is None or translated is None or not _accepts(function, *translated):
            return self._call_only_of_today(args, named)
        REACHED[CALLS_OF_THE_LAST_RELEASE] += 1
        return crossings.call(function, *translated, home=LAST)

    def _translated(self, crossings: Crossings, args: Any, named: Any) -> tuple[Any, Any] | None:
        if (self._module.partition(".")[2], self._name) in RAW:
            return args, named
        try:
            return crossings.to(LAST, args), crossings.to(LAST, named)
        except Lacking:
            return None

    def _call_only_of_today(self, args: Any, named: Any) -> Any:
        if self._key is not None:
            raise Unavailable(f"the last release has no task {self._key!r}")
        REACHED[CALLS_ONLY_OF_TODAY] += 1
        with _within(TODAY):
            return self._of_today()(*args, **named)

    def _of_today(self) -> Callable[..., Any]:
        if "." in self._name:
            return self._todays
        found = getattr(import_module(self._module), self._name)
        return found if self._key is None else found[self._key]  # type: ignore[no-any-return]  # a table of functions

    def _of_the_last(self) -> Callable[..., Any] | None:
        if (self._module.partition(".")[2], self._name) in FETCHES_PORTS:
            return None
        found: Any = _found(self._module, self._name, LAST)
        return found if self._key is None or found is None else found.get(self._key)  # type: ignore[no-any-return]  # likewise

    def __get__(self, instance: object, _: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)


@functools.cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _accepts(function: Callable[..., Any], args: Any, named: Any) -> bool:
    try:
        _signature(function).bind(*args, **named)
    except TypeError:
        return False
    return True


class ModuleOfBoth:
    """A module of the library as a world uses it: its functions are entries, all else is of today."""

    def __init__(self, module: ModuleType) -> None:
        self.__dict__["_modules"] = module, next(_counterparts(module.__name__, LAST), None)

    def __getattr__(self, name: str) -> Any:
        module = self._modules[0]
        return _as_entry(module.__name__, name, getattr(module, name))

    def __setattr__(self, name: str, value: Any) -> None:
        for module in filter(None, self._modules):
            setattr(module, name, value)

    def __delattr__(self, name: str) -> None:
        for module in filter(None, self._modules):
            delattr(module, name)


def _as_entry(module: str, name: str, value: Any) -> Any:
    if isinstance(value, ModuleType) and _is_of(value.__name__, TODAY):
        return ModuleOfBoth(value)
    if _is_function_of(value, TODAY):
        return Entry(module, name, value)
    if isinstance(value, Mapping) and value and all(_is_function_of(item, TODAY) for item in value.values()):
        return {key: Entry(module, name, item, key) for key, item in value.items()}
    return value


def _is_function_of(value: Any, package: str) -> bool:
    is_function = isinstance(value, FunctionType) and not _is_of(value.__module__, f"{TODAY}.testing")
    return is_function and _is_of(value.__module__, package)


def _is_of(module: str | None, package: str) -> bool:
    return module is not None and (module == package or module.startswith(f"{package}."))


def _crossings() -> Crossings:
    crossings = getattr(getcurrent(), "crossings", None)
    assert isinstance(crossings, Crossings), "a process of the last release has its world's crossings"
    return crossings


@contextmanager
def two_versions(on: bool = True) -> Iterator[None]:
    """Let worlds be of two versions while the context is entered."""
    if not on or _State.on:
        yield
        return
    counterpart("signalbox.flows.api.host", LAST)  # connects calls with the flow that runs, as the worlds do
    changed: list[tuple[Any, str, Any]] = []
    for module in [module for name, module in sys.modules.items() if _is_of(name, WORLDS)]:
        for name, value in list(vars(module).items()):
            if getattr(value, "__module__", None) == "signalbox.testing.replaced_limits" and name == "replaced":
                crossing: Any = replaced_in_both
            else:
                crossing = _as_entry(getattr(value, "__module__", ""), getattr(value, "__name__", name), value)
            if crossing is not value and not name.startswith("__"):
                changed.append((module, name, value))
                setattr(module, name, crossing)
    for method in METHODS:
        place, _, name = method.partition(":")
        owner, _, attribute = name.partition(".")
        kind = getattr(import_module(f"{TODAY}.{place}"), owner)
        changed.append((kind, attribute, vars(kind)[attribute]))
        setattr(kind, attribute, Entry(f"{TODAY}.{place}", name, vars(kind)[attribute]))
    _State.on = True
    try:
        with warnings.catch_warnings():  # a coroutine that a flow drops before it begins was wrapped, and is not closed
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
            yield
    finally:
        _State.on = False
        for owner, name, value in changed:
            setattr(owner, name, value)


# --- translation ---


class Stranger:
    """An object of one library, or of a world, as the other library sees it: a call of it crosses."""

    def __init__(self, crossings: Crossings, inner: Any, home: str) -> None:
        self.__dict__.update(_crossings=crossings, _inner=inner, _home=home)

    @property  # type: ignore[misc]  # isinstance asks this
    def __class__(self) -> Any:
        kind: Any = type(self._inner)
        try:
            return _counterpart_of_class(kind, LAST if self._home == TODAY else TODAY)
        except Lacking:
            return Stranger

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if callable(value) and not isinstance(value, type):
            return lambda *args, **named: self._crossings.cross(value, args, named, self._home)
        return self._crossings.translate(value, self._home)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, self._crossings.back(value, self._home))

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._crossings.cross(self._inner, args, named, self._home)

    def __enter__(self) -> Any:
        return self._crossings.cross(self._inner.__enter__, (), {}, self._home)

    def __exit__(self, *error: Any) -> Any:
        return self._crossings.cross(self._inner.__exit__, error, {}, self._home)

    def __iter__(self) -> Any:
        return iter(self._crossings.translate(list(self._inner), self._home))

    def __hash__(self) -> int:
        return hash(self._inner)

    def __eq__(self, other: object) -> bool:
        return bool(self._inner == getattr(other, "_inner", other))


class Crossings:
    """Translates values between the two libraries; a value that crosses back is the one that crossed."""

    def __init__(self) -> None:
        self._originals: dict[int, tuple[Any, Any, str]] = {}

    def to(self, package: str, value: Any) -> Any:
        """Return the value as `package` has it."""
        return self.translate(value, TODAY if package == LAST else LAST)

    def back(self, value: Any, home: str) -> Any:
        """Return a value of the other library as `home` has it."""
        return self.translate(value, LAST if home == TODAY else TODAY)

    def cross(self, function: Callable[..., Any], args: Any, named: Any, home: str) -> Any:
        """Call a function of `home` with the other library's values; return its result as the other has it."""
        return self.call(function, self.back(args, home), self.back(named, home), home)

    def call(self, function: Callable[..., Any], args: Any, named: Any, home: str) -> Any:
        """Call a function of `home` with its own values; return its result as the other library has it."""
        try:
            with _within(home):
                result = function(*args, **named)
        except BaseException as error:  # noqa: BLE001  every error crosses
            raise self._raised(error, home) from error.__cause__
        return self.translate(result, home)

    def _raised(self, error: BaseException, home: str) -> BaseException:
        """Return an error of `home` as the other library has it, at the place where it was raised."""
        translated: BaseException = self.translate(error, home)
        return translated.with_traceback(error.__traceback__)

    def translate(self, value: Any, home: str) -> Any:
        """Return a value of `home` as the other library has it. Raises `Lacking`."""
        kind = type(value)
        if kind in PLAIN:
            return value
        held = self._originals.get(id(value))
        if held is not None and held[0] is value:
            return held[1] if held[2] != home else value
        return self._container(kind, value, home)

    def _container(self, kind: type, value: Any, home: str) -> Any:
        if kind in (list, tuple, set, frozenset):
            return kind(self.translate(item, home) for item in value)
        if kind in (dict, MappingProxyType):
            return {self.translate(key, home): self.translate(item, home) for key, item in value.items()}
        if isinstance(value, type):
            return _counterpart_of_class(value, LAST if home == TODAY else TODAY)
        return self._kept(value, self._translated(kind, value, home), home)

    def _kept(self, value: Any, translated: Any, home: str) -> Any:
        if translated is not value:
            self._originals[id(translated)] = (translated, value, home)
            self._originals[id(value)] = (value, translated, LAST if home == TODAY else TODAY)
        return translated

    def _translated(self, kind: type, value: Any, home: str) -> Any:
        other = LAST if home == TODAY else TODAY
        if isinstance(value, BaseException):
            return self._error(value, home)
        if isinstance(value, CoroutineType):
            return self._coroutine(value, home)
        if isinstance(value, Enum) and _is_of(kind.__module__, home):
            return _counterpart_of_class(kind, other)[value.name]
        if kind is Snapshot and value.data is not None:
            formats = counterpart("signalbox.core.records.formats", LAST)
            assert formats is not None, "every release has formats"
            formats.check_record(value.path, value.data)  # as the last release's store does
        if dataclasses.is_dataclass(kind) and _is_of(kind.__module__, home) and _is_a_value(kind):
            return self._fields(kind, value, other, home)
        if isinstance(value, tuple):
            target: Any = _counterpart_of_class(kind, other)
            items = [self.translate(item, home) for item in value]
            return target(*items) if hasattr(kind, "_fields") else target(items)
        if isinstance(value, MethodType) and _is_of(type(value.__self__).__module__, home):
            return getattr(self.translate(value.__self__, home), value.__name__)
        if isinstance(value, FunctionType | MethodType | BuiltinFunctionType | functools.partial | Entry):
            return self._function(value, home)
        if kind.__module__ in PORTS or hasattr(kind, "commit") or _is_of(kind.__module__, home):
            return Stranger(self, value, home)
        return value

    def _fields(self, kind: type, value: Any, other: str, home: str) -> Any:
        target = _counterpart_of_class(kind, other)
        new: Any = object.__new__(target)
        held = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
        for field in dataclasses.fields(target):
            known = field.name in held
            value_there = self.translate(held.pop(field.name), home) if known else _default(field)
            object.__setattr__(new, field.name, value_there)
        for field in dataclasses.fields(kind):
            if field.name in held and held[field.name] != _default(field):
                raise Lacking(f"{other} has no field {field.name} of {kind.__name__}")
        return new

    def _error(self, error: Any, home: str) -> Any:
        other = LAST if home == TODAY else TODAY
        ours: Any = next((kind for kind in type(error).__mro__ if _is_of(kind.__module__, home)), None)
        if ours is None:
            return error
        base = _known_class(ours, other)
        own: Any = type(error)
        kind = base if ours is own else _subclass(own, base)
        new = kind.__new__(kind, *error.args)
        new.args = error.args
        new.__dict__.update(self.translate(error.__dict__, home))
        return new

    def _function(self, function: Callable[..., Any], home: str) -> Callable[..., Any]:
        inside = home if _is_of(getattr(function, "__module__", None), home) else None

        def crossing(*args: Any, **named: Any) -> Any:
            return self.cross(function, args, named, inside or version_now())

        def translated(*args: Any, **named: Any) -> Any:
            """Call a world's function, which stays in the process's library: what it calls is an entry."""
            try:
                result = function(*self.back(args, home), **self.back(named, home))
            except BaseException as error:  # noqa: BLE001  every error crosses
                raise self._raised(error, home) from error.__cause__
            return self.translate(result, home)

        made = crossing if inside == LAST else translated
        try:
            return functools.update_wrapper(made, function)
        except AttributeError:
            return made

    async def _coroutine(self, inner: Any, home: str) -> Any:
        try:
            return await _Awaited(self._steps(inner, home))
        except (GeneratorExit, Lacking):
            _close(inner)
            raise

    def _enter(self, home: str) -> None:
        """Let code of `home` know the run whose driver is of the other library."""
        other = LAST if home == TODAY else TODAY
        here, there = (counterpart("signalbox.flows.machine.running_flow", package) for package in (home, other))
        assert here is not None, "every release has flows"
        assert there is not None, "every release has flows"
        here.enter(self.translate(there.current_flow(), other))

    def _steps(self, inner: Any, home: str) -> Generator[Any, Any, Any]:
        """Run a coroutine. Each command that it awaits, and each outcome, crosses. Raises `Lacking`, but not in it."""
        sent: Any = None
        error: BaseException | None = None
        while True:
            self._enter(home)
            try:
                item = inner.send(sent) if error is None else inner.throw(error)
            except StopIteration as stop:
                return self.translate(stop.value, home)
            except BaseException as raised:  # noqa: BLE001  every error crosses
                raise self._raised(raised, home) from raised.__cause__
            there = self.translate(item, home)
            try:
                outcome = yield there
            except GeneratorExit:
                raise
            except BaseException as thrown:  # noqa: BLE001  every error crosses
                sent, error = None, self.back(thrown, home)
            else:
                sent, error = self.back(outcome, home), None


@dataclasses.dataclass(frozen=True)
class _Awaited:
    """The steps of a coroutine, which another one awaits."""

    steps: Generator[Any, Any, Any]

    def __await__(self) -> Generator[Any, Any, Any]:
        return self.steps


def _close(code: Any) -> None:
    """Close a coroutine from the inside, as a flow's tree does; its clean-up may wait."""
    for _ in range(CLOSES_MAX):
        if not is_open(code):
            return
        with suppress(BaseException):
            innermost(code).close()


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise Lacking(f"the field {field.name} has no default")


def _is_a_value(kind: Any) -> bool:
    return bool(kind.__dataclass_params__.frozen)


@functools.cache
def _counterpart_of_class(kind: Any, package: str) -> Any:
    """Return the class of this name in a package; a class of neither package is the same in both. Raises `Lacking`."""
    other = TODAY if package == LAST else LAST
    if not _is_of(kind.__module__, other):
        return kind
    found = _found(kind.__module__, kind.__qualname__, package)
    if found is None:
        raise Lacking(f"{package} has no class {kind.__qualname__}")
    return found


def _found(module: str, name: str, package: str) -> Any:
    """Return what has this name in a package, in the module that corresponds to one of the other package, or None."""
    for place in _counterparts(module, package):
        found: Any = place
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    return None


def _counterparts(module: str, package: str) -> Iterator[ModuleType]:
    """Iterate over the modules of a package that may have what is in a module of the other one."""
    inner = module.partition(".")[2]
    moved = MOVED.get(inner, ()) if package == TODAY else [last for last, today in MOVED.items() if inner in today]
    for name in (inner, *moved):
        place = counterpart(f"{package}.{name}", package)
        if place is not None:
            yield place


def _known_class(kind: Any, package: str) -> Any:
    """Return the first of a class and its bases that a package has, too."""
    for base in kind.__mro__:
        try:
            return _counterpart_of_class(base, package)
        except Lacking:
            continue
    raise AssertionError("both have `object`")


@functools.cache
def _subclass(kind: Any, base: Any) -> Any:
    """Return a world's class of errors as a subclass of the other library's base."""
    plain = {name: value for name, value in vars(kind).items() if isinstance(value, str | int)}
    return type(kind.__name__, (base,), plain)
