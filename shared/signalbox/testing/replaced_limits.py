"""Replace limits during a test by their names alone, whichever subject owns each.

    with replaced(page_units_max=3, rounds_max=2): ...

Tests and the simulation use this, so a limit that moves to another subject changes no test.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from inspect import get_annotations
from pathlib import Path

from signalbox.core import limits as core_limits
from signalbox.core.limits import Limits


def owners_of(subjects: Iterable[Limits]) -> Mapping[str, Limits]:
    """Return the limits object of each field, by the field's name. Raises `ValueError` if two fields share a name."""
    found: dict[str, Limits] = {}
    for limits in subjects:
        for name in get_annotations(type(limits)):
            if name in found:
                raise ValueError(f"{type(limits).__name__} and {type(found[name]).__name__} both have a limit `{name}`")
            found[name] = limits
    return found


@cache
def _owners() -> Mapping[str, Limits]:
    return owners_of(all_limits())


def all_limits() -> list[Limits]:
    """Return core's limits, then those of each subject, sorted by the subject's name."""
    root = Path(core_limits.__file__).parents[1]
    subjects = sorted(path.parent.name for path in root.glob("*/limits.py"))
    modules = [import_module(f"signalbox.{name}.limits") for name in subjects if name not in ("core", "testing")]
    return [core_limits.LIMITS, *(module.LIMITS for module in modules)]


@contextmanager
def replaced(**values: float) -> Iterator[None]:
    """Replace limits while the context is entered. Raises `AttributeError` for a name that no subject has."""
    with ExitStack() as stack:
        for name, value in values.items():
            owner = _owners().get(name)
            if owner is None:
                raise AttributeError(f"no subject has a limit `{name}`")
            stack.enter_context(owner.replaced(**{name: value}))
        yield
