"""What is counted: the declared kinds, the record of one yoke, a standing and its changes, the recount that repairs it.

A *recount* walks over the counted records of a standing in the order of their *places*: the time when the yoke was
created, then its id. Its state is stored in the standing's record. `tally` sums the yokes up to `cursor`, and those
created after `until`, the time when the recount began. A process that changes the standing meanwhile also changes
`tally` if the place of the change is covered. So the tally and the standing agree at the end, even if yokes are written
all the time, unless the standing was wrong before.

A kind is declared by the parts of its ids: ``["item"]``, ``["category"]`` (an attribute), ``["item", "day"]`` (a pair).
The kinds `item` and `user` always exist. A yoke that lacks one of the parts does not count in that kind.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from fractions import Fraction
from typing import Any, Self

from signalbox.core.calls import Call
from signalbox.core.effects import name_of
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.requests import RequestFields
from signalbox.core.times import rfc3339
from signalbox.standings.limits import LIMITS
from signalbox.standings.model.yokes import (
    RESERVED,
    UNIT,
    ZERO,
    StandingKey,
    Tally,
    Value,
    Yoke,
    YokeKey,
    encode,
    fits,
    join,
    number_of,
    sortable,
    units_of,
)
from signalbox.standings.problems import BadStanding, NoStanding

ORDERS = ("count", "sum", "average", "min", "max")
"""The numbers of a standing by which a leaderboard can be ordered."""


_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class Threshold:
    """`call` is enqueued once for each standing when its `field` is first found to be `reaches` or more."""

    field: str
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
        fields = RequestFields(value, BadStanding, at).only("field", "reaches", "continuation")
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
        fields = RequestFields(body, BadStanding).only("by", "on_threshold")
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

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as callers get it."""
        return {
            "by": list(self.by),
            "on_threshold": [
                {
                    "field": threshold.field,
                    "reaches": threshold.reaches,
                    "continuation": {"function": threshold.call.function, "task": threshold.call.task},
                }
                for threshold in self.thresholds
            ],
        }


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
        """Return the declarations without a kind. Raises `NoStanding`, or `BadStanding` for one that always exists."""
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
        """Return the thresholds of a standing's kind, or none if the kind was removed."""
        return self.kinds[key.kind].thresholds if key.kind in self.kinds else ()


def _is_name(part: Any) -> bool:
    return isinstance(part, str) and fits(part) and encode(part) == part


def check_kind(kind: str) -> str:
    """Return the kind if its name is valid. Raises `BadStanding`."""
    if not _KIND.fullmatch(kind):
        raise BadStanding(f"A kind must match {_KIND.pattern}.", field="kind")
    return kind


Place = tuple[datetime, str]
"""The position of a yoke in the walk of a recount: its create time and its id."""

LAST_ID = "\U0010ffff"


@dataclass(frozen=True, slots=True)
class Move:
    """The tally that a standing gains at a place; a negative one is lost."""

    place: Place
    tally: Tally

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        return cls((record["since"], record["id"]), Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        return {"since": self.place[0], "id": self.place[1], **self.tally.to_record()}


Moves = Sequence[Move]


@dataclass(frozen=True, slots=True)
class Adjustment:
    """A change of a busy standing that no fold run has added yet. `moves` is None for the sum of many changes."""

    tally: Tally
    moves: Moves | None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        moves = tuple(map(Move.from_record, record["moves"])) if "moves" in record else None
        return cls(Tally.from_record(record), moves)

    def to_record(self) -> dict[str, Any]:
        moves = {} if self.moves is None else {"moves": [move.to_record() for move in self.moves]}
        return self.tally.to_record() | moves


@dataclass(frozen=True, slots=True)
class Recount:
    """The state of a recount between two of its turns."""

    run: str
    until: datetime
    cursor: Place | None = None
    tally: Tally = ZERO

    @classmethod
    def from_record(cls, record: Mapping[str, Any] | None) -> Self | None:
        if record is None:
            return None
        cursor = (record["since"], record["id"]) if record["id"] else None
        return cls(record["run"], record["until"], cursor, Tally.from_record(record))

    def to_record(self) -> dict[str, Any]:
        since, id_ = self.cursor or (None, "")
        return {"run": self.run, "until": self.until, "since": since, "id": id_, **self.tally.to_record()}

    @property
    def turn(self) -> str:
        """The name of the next turn. It differs between all turns of all recounts."""
        cursor = (rfc3339(self.cursor[0]), self.cursor[1]) if self.cursor else ()
        return name_of(self.run, rfc3339(self.until), *cursor)[:20]

    def covers(self, place: Place) -> bool:
        """Return whether `tally` includes the yoke at a place."""
        return place[0] > self.until or (self.cursor is not None and place <= self.cursor)

    def moved(self, moves: Moves) -> Self:
        """Return the recount after a change of its standing."""
        return replace(self, tally=sum((move.tally for move in moves if self.covers(move.place)), self.tally))

    def walked(self, cursor: Place | None, tally: Tally) -> Self:
        """Return the recount after pages up to a cursor, or up to the end if it is None."""
        return replace(self, cursor=cursor or (self.until, LAST_ID), tally=self.tally + tally)


@dataclass(frozen=True, slots=True)
class Standing:
    """What is counted for one id: a tally, the smallest and the largest value.

    `crossed` names the thresholds whose task was enqueued. Every adjustment committed until `folded_at` is included.
    `recount` is the recount in progress. `neutral` counts changes that did not change the tally: Firestore does not
    change the update time of a record that is written unchanged, so guards would not notice them.
    """

    tally: Tally = ZERO
    min: Value = None
    max: Value = None
    crossed: tuple[str, ...] = ()
    folded_at: datetime | None = None
    recount: Recount | None = None
    neutral: int = 0

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self:
        """Parse a record. Without one, nothing is counted."""
        if data is None:
            return cls()
        return cls(
            Tally.from_record(data),
            data.get("min"),
            data.get("max"),
            tuple(data["crossed"]),
            data.get("folded_at"),
            Recount.from_record(data.get("recount")),
            data.get("neutral", 0),
        )

    def to_record(self) -> dict[str, Any]:
        """Return the record. If nothing is counted, it lacks the fields by which leaderboards are ordered."""
        kept: dict[str, Any] = {"crossed": list(self.crossed), "folded_at": self.folded_at, "neutral": self.neutral}
        if self.recount:
            kept["recount"] = self.recount.to_record()
        shown = {name: value for name, value in self._shown().items() if value is not None}
        if "sum" in shown:
            shown["sum"] = sortable(shown["sum"])
        return self.tally.to_record() | kept | shown

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as callers get them."""
        return {"count": 0, "sum": 0, "average": None, "min": None, "max": None} | self._shown()

    def shown(self, key: StandingKey) -> dict[str, Any]:
        """Return the name and the numbers as callers get them."""
        return {"kind": key.kind, "id": key.id, **self.to_json()}

    def _shown(self) -> dict[str, Any]:
        if self.tally == ZERO:
            return {}
        numbers = {"count": self.tally.count, "sum": number_of(self.tally.units)}
        return numbers | {"average": self.average, "min": self.min, "max": self.max}

    @property
    def average(self) -> float | None:
        """The average of the values, or None without values."""
        return float(Fraction(self.tally.units, UNIT * self.tally.values)) if self.tally.values > 0 else None

    def moved(self, tally: Tally, moves: Moves) -> Self:
        """Return the standing, and its recount, after a change."""
        recount, neutral = self.recount and self.recount.moved(moves), self.neutral + (tally == ZERO)
        return replace(self, tally=self.tally + tally, recount=recount, neutral=neutral)

    def with_extremes(self, values: Iterable[Value]) -> Self:
        """Return the standing with the extremes of these values."""
        numbers = [value for value in values if value is not None]
        return replace(self, min=min(numbers, default=None), max=max(numbers, default=None))


Entries = Mapping[StandingKey, Value]


@dataclass(frozen=True, slots=True)
class Counted:
    """What the standings include of a yoke.

    `version` is the update time of the yoke when it was counted, None if it was deleted; `revision` is that of the
    declarations. `keys` are the standings that include it, with `value`. `logged` are those with an adjustment of this
    yoke that may not be added yet. `since` is the create time of the yoke, `gone_at` the time when a visit found it
    deleted.
    """

    version: datetime | None = None
    revision: int = 0
    value: Value = None
    keys: tuple[StandingKey, ...] = ()
    logged: tuple[StandingKey, ...] = ()
    since: datetime | None = None
    gone_at: datetime | None = None

    @classmethod
    def from_record(cls, data: Mapping[str, Any] | None) -> Self | None:
        """Parse a record; None if the yoke was never counted."""
        if data is None:
            return None
        keys, logged = (tuple(map(StandingKey.from_text, data[name])) for name in ("keys", "logged"))
        since, gone_at = data["since"], data["gone_at"]
        return cls(data["version"], data["revision"], data["value"], keys, logged, since, gone_at)

    def to_record(self, key: YokeKey) -> dict[str, Any]:
        """Return the record, with `times` and `values` by standing, each a field that Firestore indexes."""
        return {
            "user": key.user,
            "item": key.item,
            "version": self.version,
            "revision": self.revision,
            "value": self.value,
            "keys": [standing.text for standing in self.keys],
            "logged": [standing.text for standing in self.logged],
            "times": {standing.field: self.since for standing in self.keys},
            "values": {standing.field: self.value for standing in self.keys if self.value is not None},
            "since": self.since,
            "gone_at": self.gone_at,
        }

    @property
    def entries(self) -> Entries:
        return dict.fromkeys(self.keys, self.value)


NOT_COUNTED = Counted()
