"""The declared kinds of standings, and their thresholds.

A kind is declared by the parts of its ids: ``["item"]``, ``["category"]`` (an attribute), ``["item", "day"]`` (a pair).
The kinds `item` and `user` always exist. A yoke that lacks one of the parts does not count in that kind.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Annotated, Any, Literal, Self, get_args

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.surface.field_rules import Described, accepted_fields
from signalbox.core.surface.request_fields import RequestFields
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.exact_sums import units_of
from signalbox.standings.model.yokes import RESERVED, StandingKey, Yoke, YokePart, encode, fits, join
from signalbox.standings.problems import BadStanding, NoStanding

StandingField = Literal["count", "sum", "average", "min", "max"]

ORDERS: tuple[StandingField, ...] = get_args(StandingField)
"""The numbers of a standing by which a leaderboard can be ordered."""


_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")

StandingKind = Annotated[str, Described({"pattern": f"^{_KIND.pattern}$"})]


@dataclass(frozen=True, slots=True)
class StandingThreshold:
    """A number of a standing, the value that it must reach, and the task that then runs, in a request."""

    field: StandingField
    reaches: float
    continuation: Call


@dataclass(frozen=True, slots=True)
class StandingDeclaration:
    """A kind of standings in a request."""

    by: Annotated[tuple[YokePart, ...], Described({"minItems": 1, "maxItems": LIMITS.standing_parts_max})] = ()
    """The parts of an id, `user`, `item` or attributes. The kinds `user` and `item` always exist."""

    on_threshold: Annotated[tuple[StandingThreshold, ...], Described({"maxItems": LIMITS.standing_thresholds_max})] = ()


@dataclass(frozen=True, slots=True)
class Threshold:
    """`call` is enqueued once for each standing when the standing's `field` is first found to be `reaches` or more."""

    field: StandingField
    reaches: float
    call: Call

    @property
    def name(self) -> str:
        return name_of("threshold", self.field, self.reaches, self.call.function, self.call.task)[:16]

    def call_with(self, shown: Mapping[str, Any]) -> Call:
        """Return the call with the numbers of a standing as its argument `standing`."""
        return replace(self.call, payload={**self.call.payload, "standing": shown})

    @classmethod
    def from_request(cls, value: Any, at: str) -> Self:
        """Parse a threshold. Raises `BadStanding` or `BadCall`."""
        if not isinstance(value, Mapping):
            raise BadStanding(f"`{at}` must be an object.", field=at)
        fields = RequestFields(value, BadStanding, at).only(*accepted_fields(StandingThreshold))
        if fields.value("field") not in ORDERS:
            raise fields.refuse("field", f"`field` must be one of {', '.join(ORDERS)}.")
        if units_of(fields.value("reaches")) is None:
            raise fields.refuse("reaches", "`reaches` must be a number.")
        call = Call.from_request(value.get("continuation"), f"{at}.continuation")
        if len(json.dumps(call.payload)) > LIMITS.threshold_payload_bytes_max:
            raise fields.refuse(
                "continuation", f"The payload may have at most {LIMITS.threshold_payload_bytes_max:,} bytes."
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
        fields = RequestFields(body, BadStanding).only(*accepted_fields(StandingDeclaration))
        by = fields.items("by", [kind] if kind in RESERVED else None)
        if (
            not isinstance(by, list)
            or not all(map(_is_name, by))
            or not 1 <= len(set(by)) == len(by) <= LIMITS.standing_parts_max
        ):
            raise fields.refuse("by", f"`by` must list 1 to {LIMITS.standing_parts_max} different names.")
        if kind in RESERVED and by != [kind]:
            raise fields.refuse("by", f"The kind `{kind}` is built in: `by` must be [`{kind}`] or absent.")
        asked = fields.items("on_threshold", [])
        if len(asked) > LIMITS.standing_thresholds_max:
            raise fields.refuse("on_threshold", f"A kind has at most {LIMITS.standing_thresholds_max} thresholds.")
        thresholds = (Threshold.from_request(value, f"on_threshold[{index}]") for index, value in enumerate(asked))
        return cls(tuple(by), tuple(thresholds))

    def to_record(self) -> dict[str, Any]:
        return {"by": list(self.by), "thresholds": [threshold.to_record() for threshold in self.thresholds]}


@dataclass(frozen=True, slots=True)
class Declarations:
    """All declared kinds, and a revision that grows with each change of them."""

    revision: int = 0
    kinds: Mapping[str, Declaration] = field(default_factory=dict)

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self:
        """Parse a record, and add the kinds that always exist."""
        held = {
            kind: Declaration(
                tuple(declared["by"]),
                tuple(
                    Threshold(threshold["field"], threshold["reaches"], Call.from_record(threshold["call"]))
                    for threshold in declared["thresholds"]
                ),
            )
            for kind, declared in (data or {}).get("kinds", {}).items()
        }
        always = {kind: Declaration((kind,)) for kind in RESERVED}
        return cls((data or {}).get("revision", 0), always | held)

    def to_record(self) -> dict[str, Any]:
        kinds = {kind: declaration.to_record() for kind, declaration in self.kinds.items()}
        return {"revision": self.revision, "kinds": kinds}

    def declare(self, kind: str, declaration: Declaration) -> Self:
        """Return the declarations with a kind added or replaced. Raises `BadStanding`."""
        kinds = {**self.kinds, kind: declaration}
        if len(kinds) > LIMITS.standing_kinds_max:
            raise BadStanding(f"There can be at most {LIMITS.standing_kinds_max} kinds of standings.", field="kind")
        return replace(self, revision=self.revision + 1, kinds=kinds)

    def remove(self, kind: str) -> Self:
        """Return the declarations without a kind.

        Raises `NoStanding`, or `BadStanding` for a kind that always exists.
        """
        if kind in RESERVED:
            raise BadStanding(f"The kind `{kind}` is built in and cannot be removed.", field="kind")
        self.check(kind)
        kinds = {name: other for name, other in self.kinds.items() if name != kind}
        return replace(self, revision=self.revision + 1, kinds=kinds)

    def check(self, kind: str) -> Declaration:
        """Return the declaration of a kind. Raises `NoStanding`."""
        if kind not in self.kinds:
            raise NoStanding(f"The kind {kind!r} of standings is not declared.", field="kind")
        return self.kinds[kind]

    def keys_of(self, yoke: Yoke) -> Iterable[StandingKey]:
        """Iterate over the standings in which a yoke counts."""
        for kind, declaration in self.kinds.items():
            parts = [yoke.part(name) for name in declaration.by]
            if None not in parts:
                yield StandingKey(kind, join(part for part in parts if part is not None))

    def thresholds_of(self, key: StandingKey) -> tuple[Threshold, ...]:
        """Return the thresholds of a standing's kind. There are none if the kind was removed."""
        return self.kinds[key.kind].thresholds if key.kind in self.kinds else ()


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and fits(part) and encode(part) == part


def check_kind(kind: str) -> str:
    """Return the kind if its name is valid. Raises `BadStanding`."""
    if not _KIND.fullmatch(kind):
        raise BadStanding(f"A kind must match {_KIND.pattern}.", field="kind")
    return kind
