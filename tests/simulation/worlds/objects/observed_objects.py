"""The history of the objects in a simulated world, from the writes of their records."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from signalbox.core.ports import Snapshot
from signalbox.mailboxes.model.addresses import ObjectAddress
from signalbox.mailboxes.model.messages import HEADER
from tests.simulation.world import Violation
from tests.simulation.worlds.objects.remembering_class import REMINDED


@dataclass(slots=True)
class Lives:
    """The calls of an object, in parts: each deletion ends a part (a life)."""

    lives: list[list[str]] = field(default_factory=lambda: [[]])
    version: int = 0
    revision: int = 0

    def extend(self, fields: Mapping[str, Any] | None, version: int, *, deleting: bool) -> list[str]:
        """Add what a header shows; return what is new. Raises `Violation` for what is gone without a deletion."""
        seen, known = list(fields["seen"]) if fields else [], self.lives[-1]
        if seen[: len(known)] != known:
            if not deleting:
                raise Violation(f"the state forgot calls: {known} became {seen}")
            self.lives.append([])
        elif fields and version < self.version:
            raise Violation(f"older code wrote a state of version {self.version}")
        new, self.lives[-1], self.version = seen[len(self.lives[-1]) :], seen, version
        return new

    @property
    def all(self) -> list[str]:
        """The calls of all lives, in order."""
        return [id_ for life in self.lives for id_ in life]


@dataclass(slots=True)
class History:
    """All objects' lives; the commit time of each message, by object and id; and the due times of delayed ones."""

    now: Callable[[], datetime]
    deleting: bool
    lives: dict[str, Lives] = field(default_factory=lambda: defaultdict(Lives))
    landed: dict[tuple[str, str], tuple[datetime, str]] = field(default_factory=dict)
    due: dict[tuple[str, str], datetime] = field(default_factory=dict)

    def observed(self, path: str, before: Snapshot, after: Snapshot) -> None:
        """Note a change of a record. Raises `Violation` if a header has a forbidden state."""
        if not path.startswith("objects/") or "/mailbox/" not in path or after.data is None:
            return
        base, _, id_ = path.rpartition("/mailbox/")
        key = ObjectAddress.of_base(base).key
        if id_ == HEADER:
            self._header(key, after.data)
        elif before.data is None:
            self.landed[key, id_] = self.now(), after.data["body"]
            if after.data.get("later"):
                self.due[key, id_] = after.data["since"]
            elif f'{REMINDED}"' in after.data["body"]:
                raise Violation(f"the delayed call {after.data['body']} has no time")

    def _header(self, key: str, data: Mapping[str, Any]) -> None:
        if data["revision"] <= self.lives[key].revision:
            raise Violation(f"revision {data['revision']} follows {self.lives[key].revision}")
        self.lives[key].revision = data["revision"]
        state: dict[str, Any] = json.loads(data["state"]) if data["state"] else {"fields": None, "version": 0}
        for each in self.lives[key].extend(state["fields"], state["version"], deleting=self.deleting):
            if (key, each) in self.due and self.now() < self.due[key, each]:
                raise Violation(f"{each} took effect before its time")
        twice = [each for each, count in Counter(self.lives[key].all).items() if count > 1]
        if twice:
            raise Violation(f"{twice} took effect twice on {key}: {self.lives[key].lives}")

    def times(self, key: str | None, id_: str) -> int:
        """Return how often a call took effect on an object, or on any."""
        return sum(each.all.count(id_) for name, each in self.lives.items() if key in (None, name))
