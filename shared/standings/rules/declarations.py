"""Declarations: which standings are kept of a yoke, and which task runs when one reaches a threshold.

A kind of standing is declared by the parts of its ids: ``["item"]``, ``["category"]`` (an attribute), ``["item",
"day"]`` (a pair). The kinds `item` and `user` are always there. A yoke without one of the parts does not count there.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from shared.core.rules.calls import Call
from shared.core.rules.effects import name_of
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadStanding, NoStanding
from shared.core.rules.request_fields import RequestFields
from shared.standings.rules.keys import StandingKey, encode, fits, join
from shared.standings.rules.tallies import units_of
from shared.standings.rules.yokes import RESERVED, Yoke

ORDERS = ("count", "sum", "average", "min", "max")
"""What a standing has, and a leaderboard can be ordered by."""

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Threshold:
    """`call` is enqueued once for each standing whose `field` is found at `reaches` or above."""

    field: str
    reaches: float
    call: Call

    @property
    def name(self) -> str:
        return name_of("threshold", self.field, self.reaches, self.call.function, self.call.task)[:16]

    @classmethod
    def from_request(cls, value: Any, at: str) -> Self:
        """Parse a threshold. Raises `BadStanding` or `BadCall`."""
        if not isinstance(value, Mapping):
            raise BadStanding(f"`{at}` must be an object.", field=at)
        fields = RequestFields(value, BadStanding, at).only("field", "reaches", "continuation")
        if fields.value("field") not in ORDERS:
            raise fields.refuse("field", f"`field` must be one of {', '.join(ORDERS)}.")
        if units_of(fields.value("reaches")) is None:
            raise fields.refuse("reaches", "`reaches` must be a number.")
        call = Call.from_request(value.get("continuation"), f"{at}.continuation")
        if len(json.dumps(call.payload)) > LIMITS.threshold_payload_bytes_max:
            raise fields.refuse(
                "continuation", f"Its payload has at most {LIMITS.threshold_payload_bytes_max:,} bytes."
            )
        return cls(value["field"], value["reaches"], call)

    def to_record(self) -> dict[str, Any]:
        return {"field": self.field, "reaches": self.reaches, "call": self.call.to_record()}


@dataclass(frozen=True, slots=True)
class Declaration:
    """A kind of standing: the parts of its ids, and its thresholds."""

    by: tuple[str, ...]
    thresholds: tuple[Threshold, ...] = ()

    @classmethod
    def from_request(cls, kind: str, body: Mapping[str, Any]) -> Self:
        """Parse a declaration. Raises `BadStanding` or `BadCall`."""
        check_kind(kind)
        fields = RequestFields(body, BadStanding).only("by", "on_threshold")
        by = fields.items("by", [kind] if kind in RESERVED else None)
        if (
            not isinstance(by, list)
            or not all(map(_is_name, by))
            or not 1 <= len(set(by)) == len(by) <= LIMITS.standing_parts_max
        ):
            raise fields.refuse("by", f"`by` must list 1 to {LIMITS.standing_parts_max} different names.")
        if kind in RESERVED and by != [kind]:
            raise fields.refuse("by", f"The kind `{kind}` is always by [`{kind}`].")
        asked = fields.items("on_threshold", [])
        if len(asked) > LIMITS.standing_thresholds_max:
            raise fields.refuse("on_threshold", f"A kind has at most {LIMITS.standing_thresholds_max} thresholds.")
        thresholds = (Threshold.from_request(each, f"on_threshold[{index}]") for index, each in enumerate(asked))
        return cls(tuple(by), tuple(thresholds))

    def to_record(self) -> dict[str, Any]:
        return {"by": list(self.by), "thresholds": [each.to_record() for each in self.thresholds]}

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as a caller gets it."""
        return {
            "by": list(self.by),
            "on_threshold": [
                {
                    "field": each.field,
                    "reaches": each.reaches,
                    "continuation": {"function": each.call.function, "task": each.call.task},
                }
                for each in self.thresholds
            ],
        }


@dataclass(frozen=True, slots=True)
class Declarations:
    """All kinds, and a number that grows with each change of them."""

    revision: int = 0
    kinds: Mapping[str, Declaration] = field(default_factory=dict)

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self:
        """Return what the record holds, and the kinds that are always there."""
        held = {
            kind: Declaration(
                tuple(one["by"]),
                tuple(
                    Threshold(each["field"], each["reaches"], Call.from_record(each["call"]))
                    for each in one["thresholds"]
                ),
            )
            for kind, one in (data or {}).get("kinds", {}).items()
        }
        always = {kind: Declaration((kind,)) for kind in RESERVED}
        return cls((data or {}).get("revision", 0), always | held)

    def to_record(self) -> dict[str, Any]:
        return {"revision": self.revision, "kinds": {kind: one.to_record() for kind, one in self.kinds.items()}}

    def declare(self, kind: str, declaration: Declaration) -> Self:
        """Return these with one more kind, or another declaration of it. Raises `BadStanding`."""
        kinds = {**self.kinds, kind: declaration}
        if len(kinds) > LIMITS.standing_kinds_max:
            raise BadStanding(f"There are at most {LIMITS.standing_kinds_max} kinds of standings.", field="kind")
        return replace(self, revision=self.revision + 1, kinds=kinds)

    def remove(self, kind: str) -> Self:
        """Return these without a kind. Raises `NoStanding`, or `BadStanding` for one that is always there."""
        if kind in RESERVED:
            raise BadStanding(f"The kind `{kind}` is always there.", field="kind")
        self.check(kind)
        kinds = {name: one for name, one in self.kinds.items() if name != kind}
        return replace(self, revision=self.revision + 1, kinds=kinds)

    def check(self, kind: str) -> Declaration:
        """Return a declared kind. Raises `NoStanding`."""
        if kind not in self.kinds:
            raise NoStanding(f"There is no kind {kind!r} of standings.", field="kind")
        return self.kinds[kind]

    def keys_of(self, yoke: Yoke) -> Iterable[StandingKey]:
        """Iterate over the standings that a yoke counts in."""
        for kind, declaration in self.kinds.items():
            parts = [yoke.part(name) for name in declaration.by]
            if None not in parts:
                yield StandingKey(kind, join(part for part in parts if part is not None))

    def thresholds_of(self, key: StandingKey) -> tuple[Threshold, ...]:
        """Return the thresholds of a standing's kind; none if it is not declared any more."""
        return self.kinds[key.kind].thresholds if key.kind in self.kinds else ()


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and fits(part) and encode(part) == part


def check_kind(kind: str) -> str:
    """Return the name of a kind. Raises `BadStanding`."""
    if not _KIND.fullmatch(kind):
        raise BadStanding(f"A kind must match {_KIND.pattern}.", field="kind")
    return kind
