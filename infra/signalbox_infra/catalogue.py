"""Read the catalogue: the one list of functions, queues, triggers, schedules and indexes.

Terraform, the packager and the local stack act on the same file, so its errors are reported here, before anything
is built or started. Every error names the entry and what to change. Folders are relative to the project: the folder
above the catalogue's own.

    catalogue = load()
    catalogue.functions["link_fan_out"].segment      # "link-fan-out"
"""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar, get_origin

import yaml

from signalbox_infra.catalogue_consistency import Catalogue
from signalbox_infra.catalogue_entries import (
    CatalogueError,
    Function,
    History,
    Index,
    Queue,
    Schedule,
    Trigger,
    refuse,
    url_segment,
)

__all__ = [
    "CATALOGUE",
    "Catalogue",
    "CatalogueError",
    "Function",
    "History",
    "Index",
    "Queue",
    "Schedule",
    "Trigger",
    "load",
    "parse",
    "url_segment",
]

CATALOGUE = Path(__file__).parents[1] / "catalogue.yaml"


def load(path: Path = CATALOGUE) -> Catalogue:
    """Read and check a catalogue file. Raises `CatalogueError` with what to change, or `OSError`."""
    try:
        content = yaml.load(path.read_text("utf-8"), _UniqueKeys)  # noqa: S506 (a SafeLoader)
        return parse(content, path.resolve().parent.parent)
    except (CatalogueError, yaml.YAMLError) as error:
        raise CatalogueError(f"{path.name}: {error}") from error


def parse(content: object, root: Path) -> Catalogue:
    """Check a catalogue's content; `root` is the folder that functions' folders are relative to."""
    sections = _mapping("the catalogue", content)
    known = {"functions", "queues", "triggers", "schedules", "indexes", "history"}
    refuse(bool(sections.keys() - known), f"unknown sections {sorted(sections.keys() - known)}; known: {sorted(known)}")
    functions = {}
    for name, entry in _entries(sections, "functions"):
        folder = root / str(entry.pop("folder", f"functions/{name}"))
        functions[name] = _build(Function, f"functions.{name}", {"name": name, "folder": folder, **entry})
    return Catalogue(
        root=root,
        functions=MappingProxyType(functions),
        queues=_section(sections, "queues", Queue),
        triggers=_section(sections, "triggers", Trigger),
        schedules=_section(sections, "schedules", Schedule),
        indexes=_section(sections, "indexes", Index),
        history=_section(sections, "history", History),
    )


Entry = TypeVar("Entry", Function, Queue, Trigger, Schedule, Index, History)


def _section(sections: Mapping[str, Any], kind: str, entry_type: type[Entry]) -> Mapping[str, Entry]:
    entries = _entries(sections, kind)
    return MappingProxyType(
        {name: _build(entry_type, f"{kind}.{name}", {"name": name, **raw}) for name, raw in entries}
    )


def _entries(sections: Mapping[str, Any], kind: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, raw in _mapping(kind, sections.get(kind) or {}).items():
        yield name, dict(_mapping(f"{kind}.{name}", raw))


def _build(entry_type: type[Entry], where: str, values: dict[str, Any]) -> Entry:
    fields = {field.name: field for field in dataclasses.fields(entry_type)}
    refuse(bool(values.keys() - fields), f"{where}: unknown keys {sorted(values.keys() - fields)}")
    required = {name for name, field in fields.items() if field.default is field.default_factory is dataclasses.MISSING}
    refuse(bool(required - values.keys()), f"{where}: these keys are missing: {sorted(required - values.keys())}")
    try:
        return entry_type(**{name: _typed(name, value, fields[name].type) for name, value in values.items()})
    except CatalogueError as error:
        raise CatalogueError(f"{where}: {error}") from None


def _typed(name: str, value: Any, wanted: Any) -> Any:
    if get_origin(wanted) is tuple:
        refuse(
            not isinstance(value, list) or any(not isinstance(item, str) for item in value),
            f"{name} must be a list of names",
        )
        refuse(len(set(value)) < len(value), f"{name} names something twice")
        return tuple(value)
    if get_origin(wanted) is dict:
        return dict(_mapping(name, value))
    accepted = (int, float) if wanted is float else wanted
    is_flag = isinstance(value, bool) and wanted is not bool  # Python takes True for an integer
    refuse(is_flag or not isinstance(value, accepted), f"{name} must be of type {wanted.__name__}, not {value!r}")
    return value


def _mapping(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict) or any(not isinstance(key, str) for key in value):
        raise CatalogueError(f"{where} must be a mapping from names to values")
    return value


class _UniqueKeys(yaml.SafeLoader):
    """YAML that refuses a key given twice, where the plain loader keeps the last one in silence."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        twice = sorted({str(key) for key in keys if keys.count(key) > 1})
        refuse(bool(twice), f"line {node.start_mark.line + 1}: given twice: {', '.join(twice)}")
        return super().construct_mapping(node, deep)
