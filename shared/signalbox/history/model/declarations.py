"""Which documents have versions, as the catalogue declares: by key, by a prefix of the key, or by type.

The declarations are global to a process, like limits. The settings set them; a test replaces them:

    with HISTORY.replaced([HistoryRule(prefix="contract-")]): ...
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any

from signalbox.core.declarations import DECLARED
from signalbox.history.limits import LIMITS

TYPE = "type"
"""The field of a document with its type."""


@dataclass(frozen=True, slots=True)
class HistoryRule:
    """One declaration: exactly one of ``keys``, ``prefix`` and ``type``, and how many versions are kept how long."""

    keys: frozenset[str] = frozenset()
    prefix: str = ""
    type: str = ""
    versions_max: int = 100
    days_max: float = 365

    def __post_init__(self) -> None:
        if sum(map(bool, (self.keys, self.prefix, self.type))) != 1:
            raise ValueError("a history must have exactly one of keys, prefix and type")
        if not 1 <= self.versions_max <= LIMITS.history_versions_max:
            raise ValueError(f"versions_max must lie between 1 and {LIMITS.history_versions_max:,}")
        if not 0 < self.days_max <= LIMITS.history_days_max:
            raise ValueError(f"days_max must be more than 0 and at most {LIMITS.history_days_max:,}")

    @classmethod
    def from_json(cls, declared: Mapping[str, Any]) -> "HistoryRule":
        """Parse an entry of the catalogue. Raises `ValueError`."""
        return cls(**{**declared, "keys": frozenset(declared.get("keys", ()))})

    def to_json(self) -> dict[str, Any]:
        chosen = {"keys": sorted(self.keys), "prefix": self.prefix, "type": self.type}
        bounds = {"versions_max": self.versions_max, "days_max": self.days_max}
        return {**{name: value for name, value in chosen.items() if value}, **bounds}

    @property
    def age_max(self) -> timedelta:
        return timedelta(days=self.days_max)

    def names(self, key: str) -> bool:
        """Return whether the rule selects a key, whatever the content."""
        return key in self.keys or bool(self.prefix and key.startswith(self.prefix))


class History:
    """The declarations of this process in the catalogue's order. The first one that applies is used."""

    def __init__(self) -> None:
        self._replaced: tuple[HistoryRule, ...] | None = None

    @property
    def rules(self) -> tuple[HistoryRule, ...]:
        return _declared(DECLARED.get("history", "[]")) if self._replaced is None else self._replaced

    @contextmanager
    def replaced(self, rules: Sequence[HistoryRule]) -> Iterator[None]:
        """Use other declarations while the context is entered."""
        before, self._replaced = self._replaced, tuple(rules)
        try:
            yield
        finally:
            self._replaced = before

    def rule_of(self, key: str, *contents: Mapping[str, Any] | None) -> HistoryRule | None:
        """Return the rule for a document, given its contents before and after a write."""
        types = [content.get(TYPE) for content in contents if content]
        return next((rule for rule in self.rules if rule.names(key) or (rule.type and rule.type in types)), None)

    def may_apply(self, key: str) -> bool:
        """Return whether a document under this key may have versions, depending on its content."""
        return any(rule.names(key) or rule.type for rule in self.rules)


@lru_cache(maxsize=8)
def _declared(text: str) -> tuple[HistoryRule, ...]:
    """Parse the declarations of the catalogue. Raises `ValueError`."""
    return tuple(map(HistoryRule.from_json, json.loads(text)))


HISTORY = History()
