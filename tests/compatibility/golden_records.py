"""Golden records: examples of each kind of record and of task that a release wrote, kept as JSON for its successors.

The worlds of the simulation write them, by the code of the release. The examples of a kind are the fewest found that
show each field with each of its types, and the kind without each field that may be missing. A file is never edited: a
release has one, and `unreleased.json` shows what the next release will write.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from tests.compatibility.record_shapes import Pair, pairs_of, watched
from tests.simulation.__main__ import FORGED, WORLDS

FOLDER = Path(__file__).parent / "golden"
UNRELEASED = FOLDER / "unreleased.json"

SEEDS = 80
"""Of each world, in which examples are looked for."""

TRACES = ("traceback", "trace")
"""Fields with paths of a machine, or with lines of the worlds' code."""

Examples = Mapping[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Kind:
    """What is known of a kind: its fields with their types, and those that every one of it has."""

    name: str
    examples: list[dict[str, Any]]

    @cached_property
    def pairs(self) -> frozenset[Pair]:
        """The fields with their types."""
        return frozenset[Pair]().union(*(pairs_of(self.name, example) for example in self.examples))

    @cached_property
    def always(self) -> frozenset[str]:
        """The fields that are never missing."""
        fields = [{path for path, _ in pairs_of(self.name, example)} for example in self.examples]
        return frozenset(set[str].intersection(*fields))

    def differences(self, data: Mapping[str, Any]) -> list[str]:
        """Return in what a record differs from all examples, as sentences."""
        found = pairs_of(self.name, data)
        new = [f"{self.name} has a new field or type: {path} ({type_})" for path, type_ in sorted(found - self.pairs)]
        missing = sorted(self.always - {path for path, _ in found})
        return new + [f"{self.name} has lost its field {path}" for path in missing]


@dataclass
class Collection:
    """Records and tasks of one release, found while worlds run: the smallest of each shape."""

    smallest: dict[str, dict[frozenset[Pair], str]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, kind: str, data: dict[str, Any]) -> None:
        pairs = pairs_of(kind, data)
        text = to_text(data | {name: "Traceback" for name in TRACES if data.get(name)})
        held = self.smallest[kind].get(pairs)
        if held is None or (len(text), text) < (len(held), held):
            self.smallest[kind][pairs] = text

    @classmethod
    def of_worlds(cls, seeds: int, worlds: Iterable[str] = tuple(sorted(WORLDS.keys() - FORGED))) -> Self:
        """Return what the first seeds of the worlds write."""
        collection = cls()
        with watched(collection.add):
            for world in worlds:
                for seed in range(seeds):
                    WORLDS[world](seed)
        return collection

    def examples(self) -> Examples:
        """Return the examples to keep, by kind."""
        return {kind: [from_text(text) for text in _cover(shapes)] for kind, shapes in sorted(self.smallest.items())}


def _cover(shapes: Mapping[frozenset[Pair], str]) -> list[str]:
    """Choose few texts that together show all that the shapes show: what a field may be, and that it may be missing."""
    fields = {path for shape in shapes for path, _ in shape}
    shown = {
        text: shape | {(path, "missing") for path in fields - {path for path, _ in shape}}
        for shape, text in shapes.items()
    }
    left, chosen = set[Pair]().union(*shown.values()), list[str]()
    while left or not chosen:
        best = min(shown, key=lambda text: (-len(left & shown[text]), len(text), text))
        chosen.append(best)
        left -= shown[best]
    return chosen


def to_text(value: Any) -> str:
    """Return a record as JSON."""
    return json.dumps(value, default=_time, sort_keys=True, ensure_ascii=False)


def from_text(text: str) -> dict[str, Any]:
    """Undo `to_text`."""
    return json.loads(text, object_hook=_object)  # type: ignore[no-any-return]  # a record


def _time(value: object) -> dict[str, str]:
    assert isinstance(value, datetime), value
    return {"$time": value.isoformat()}


def _object(value: dict[str, Any]) -> Any:
    return datetime.fromisoformat(value["$time"]) if value.keys() == {"$time"} else value


def write(path: Path, examples: Examples) -> None:
    """Write a file: one line for each example."""
    kinds = [
        f" {json.dumps(kind)}: [\n  " + ",\n  ".join(map(to_text, found)) + "\n ]" for kind, found in examples.items()
    ]
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(kinds) + "\n}\n", "utf-8")


def read(path: Path) -> dict[str, Kind]:
    """Return the kinds in a file."""
    return {kind: Kind(kind, found) for kind, found in from_text(path.read_text("utf-8")).items()}


def files() -> Iterable[Path]:
    """Return all golden files."""
    return sorted(FOLDER.glob("*.json"))
