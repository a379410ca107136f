"""Write a whole catalogue, with the keys that follow from the code: as a catalogue, or as text for people."""

import dataclasses
from collections.abc import Container, Iterator
from typing import Any

import yaml

from signalbox.catalogue.derived_keys import FROM_CODE
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.reading import SECTIONS, Catalogue


def written(catalogue: Catalogue, *, places: bool = False, elsewhere: bool = False) -> str:
    """Return a catalogue as YAML without defaults; parsing it returns the same catalogue.

    With `places`, for people, a comment names the code that each derived key follows from, and empty keys are omitted.
    Folders are relative to the project; with `elsewhere`, for a file outside the project, they are absolute.
    """
    lines = list(_parts(catalogue)) if places else []
    for section in SECTIONS:
        entries = getattr(catalogue, section)
        lines.append(f"{section}:" if entries else f"{section}: {{}}")
        for name, entry in entries.items():
            origins = catalogue.places.get(f"{section}.{name}", {}) if places else {}
            values = dict(values_of(entry, also=() if places else FROM_CODE))
            if isinstance(entry, Function):
                values = {**_folder(catalogue, entry, elsewhere=elsewhere), **values}
            lines.append(f"  {name}:" if values else f"  {name}: {{}}")
            lines += [f"    {line_of(key, value)}{_origin(origins.get(key))}" for key, value in values.items()]
    lines.append(f"documents: {{written_by: {catalogue.document_writers}}}")
    return "\n".join(lines) + "\n"


def _parts(catalogue: Catalogue) -> Iterator[str]:
    """Iterate over comments that name each part of the kit that is in use, with the code or the entry that uses it."""
    if catalogue.parts:
        yield "# The kit's parts in use, and what they follow from:"
    width = max(map(len, catalogue.parts), default=0)
    yield from (f"#   {name:{width}}  {origin}" for name, origin in catalogue.parts.items())


def _origin(place: str | None) -> str:
    return "" if place is None else f"  # from {place or 'its schedule'}"


def line_of(key: str, value: Any) -> str:
    """Return a key and its value as a line of YAML."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    value_only = text.removesuffix("...\n").strip()  # the end mark of a plain value
    return f"{key}: {value_only}"


def values_of(entry: Any, also: Container[str] = ()) -> Iterator[tuple[str, Any]]:
    """Iterate over an entry's keys whose values are not defaults, and over the keys that `also` contains."""
    for field in dataclasses.fields(entry):
        value = getattr(entry, field.name)
        is_default = value == (
            field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
        )
        if field.name not in ("name", "folder") and (not is_default or field.name in also):
            yield field.name, list(value) if isinstance(value, tuple) else value


def _folder(catalogue: Catalogue, function: Function, *, elsewhere: bool) -> dict[str, str]:
    """Return the folder of a function, unless it is the folder of the kit's function of this name."""
    folder, root = function.folder, catalogue.root
    if elsewhere:
        return {"folder": str(folder)}
    if folder == catalogue.kit_functions / function.name:
        return {}
    return {"folder": folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)}
