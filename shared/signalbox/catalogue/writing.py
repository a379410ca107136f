"""Write a whole catalogue, with the keys that follow from the code: the lock that Terraform reads, or text for people.

The lock is next to the catalogue (``catalogue.lock.yaml``) and is committed, so a diff shows each right that the code
gains. It has no line numbers, which change more often than rights; ``written(catalogue, places=True)`` has them.
"""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from signalbox.catalogue.derived_keys import FROM_CODE
from signalbox.catalogue.function_entries import Function
from signalbox.catalogue.reading import SECTIONS, Catalogue, load

HEADING = "# Generated from {name} and the functions' code by `make catalogue`. Commit it: Terraform reads it.\n"


def lock_of(file: Path) -> Path:
    """Return the path of a catalogue's lock."""
    return file.with_name(f"{file.stem}.lock.yaml")


def lock(file: Path) -> bool:
    """Write the lock of a catalogue's file. Return whether it changed. Raises `CatalogueError` or `OSError`."""
    content = HEADING.format(name=file.name) + written(load(file))
    place = lock_of(file)
    if place.is_file() and place.read_text("utf-8") == content:
        return False
    place.write_text(content, "utf-8")
    return True


def written(catalogue: Catalogue, *, places: bool = False, elsewhere: bool = False) -> str:
    """Return a catalogue as YAML without defaults; parsing it returns the same catalogue.

    With `places`, for people, a comment says which code each derived key follows from, and empty keys are omitted.
    Folders are relative to the project; with `elsewhere`, for a file outside the project, they are absolute.
    """
    lines: list[str] = []
    for section in SECTIONS:
        entries = getattr(catalogue, section)
        lines.append(f"{section}:" if entries else f"{section}: {{}}")
        for name, entry in entries.items():
            found = catalogue.places.get(f"{section}.{name}", {}) if places else {}
            values = dict(_values(catalogue, entry, whole=not places, elsewhere=elsewhere))
            lines.append(f"  {name}:" if values else f"  {name}: {{}}")
            lines += [f"    {_line(key, value)}{_origin(found.get(key))}" for key, value in values.items()]
    lines.append(f"documents: {{written_by: {catalogue.document_writers}}}")
    return "\n".join(lines) + "\n"


def _origin(place: str | None) -> str:
    return "" if place is None else f"  # from {place or 'its schedule'}"


def _line(key: str, value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True, sort_keys=False)
    value_only = text.removesuffix("...\n").strip()  # the end mark of a plain value
    return f"{key}: {value_only}"


def _values(catalogue: Catalogue, entry: Any, *, whole: bool, elsewhere: bool) -> Iterator[tuple[str, Any]]:
    """Iterate over an entry's keys whose values are not defaults and, if `whole`, all keys that follow from code."""
    kept = FROM_CODE if whole and isinstance(entry, Function) else ()
    for field in dataclasses.fields(entry):
        value = getattr(entry, field.name)
        if field.name == "folder":
            if elsewhere:
                yield "folder", str(value)
            elif value != catalogue.kit_functions / entry.name:
                yield "folder", _relative(value, catalogue.root)
        elif field.name != "name" and (value != _default(field) or field.name in kept):
            yield field.name, list(value) if isinstance(value, tuple) else value


def _default(field: Any) -> object:
    return field.default if field.default_factory is dataclasses.MISSING else field.default_factory()


def _relative(folder: Path, root: Path) -> str:
    """Return a folder relative to the project. ``functions/`` gets ``./`` first: Terraform reads it as the kit's."""
    relative = folder.relative_to(root).as_posix() if folder.is_relative_to(root) else str(folder)
    return f"./{relative}" if relative.startswith("functions/") else relative
