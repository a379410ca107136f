"""Kinds of worlds of links, and their limits: so small that three documents make a chain of pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from signalbox.core.limits import LIMITS
from tests.simulation.fault_rates import FaultRates

PAGE_COPIES = 2
"""A page's size here, so that three documents make a chain of pages."""

COMMIT_DOCUMENTS = 2
"""Documents in one commit here, so that a page or a call takes more than one."""

SMALL_DOCUMENT_BYTES = 60
"""A record's bound in the worlds where copies do not fit."""

HOPS_MAX = 5
"""Over so many links a change travels through transforms here, so that growth round a cycle ends soon."""

DIVIDED_BYTES = 100
"""The memory of one request in worlds in which no two documents fit into it."""

FEW_INDEX_ENTRIES = 16
"""Of a document in the worlds where copies have too many of them: a text and two marks have ten."""

EVENT_RECORD_BYTES = 350
"""Of a record in the worlds where events of larger ones may be dropped: a document without long texts is smaller."""

LETTERS_LARGE = 400

LINK_LEVELS_MAX = 3
"""Links that copies are nested to here: a long chain of documents is twice as long."""

FIELDS = ("x", "y")

TRANSFORMS: tuple[Any, ...] = (
    {"made": "#.n"},
    {"text": "{{.n}}!"},
    "#.x",
    {"grows": "{{.x .grows}}+", "n": "#.n"},
    {"deepens": ["#.x .deepens", "#.y .deepens", "#.n"]},
)
"""Outputs: a part of the target, a text, another object, no object, a value that grows or deepens round a cycle."""

SMALL, GROWING = TRANSFORMS[:2], TRANSFORMS[3:]

SAME = {"n": "#.n"}
"""Its output equals the untransformed copy."""

UNLUCKY = FaultRates(lose_answer=0.1, kill=0.1, left=8)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of world. Each makes other races likely.

    `keys` are put in this order, each linking to those before it, or in a `cyclic` world to any of them. The others:

        foreign      another client writes past the kit
        crowded      records are so small that copies do not fit
        narrow       one source changes to another value and back, as does its transform; one document embeds it
        unlucky      there are many faults
        versatile    users also merge, put under a condition, put several documents in one call, and run transactions
        transformed  transforms are put, changed and deleted
        round        each document links to the next, the last to the first: the output of a transform grows on each
                     round; in a crowded world a document that embeds the next is too large for the one before
        lengthy      each key is as long as the kit accepts
        chain        each document links to the one before, or not: the place where copies are cut moves along it
        divided      hardly one document fits into a request's memory, so the inputs of copies are read one by one
        same         a transform is put that changes nothing: the event of a put cannot notice that a walk was there
        large        events of documents with a long text may never arrive. All deletions have a condition, since a
                     deletion without one reads nothing and is left to the nightly verification
        writes_back  users also edit copies, one or two levels deep
        indexed      documents may have few index entries, so that copies do not fit though there is room in bytes
    """

    keys: str
    cyclic: bool = False
    foreign: bool = False
    crowded: bool = False
    narrow: bool = False
    unlucky: bool = False
    versatile: bool = False
    transformed: bool = False
    round: bool = False
    lengthy: bool = False
    chain: bool = False
    divided: bool = False
    same: bool = False
    indexed: bool = False
    large: bool = False
    writes_back: bool = False

    @property
    def transforms(self) -> tuple[Any, ...]:
        """The transforms that its users put."""
        return (SAME,) if self.same else SMALL if self.narrow else GROWING if self.round else TRANSFORMS

    @property
    def transform_share(self) -> float:
        """The share of its users' actions that change a transform."""
        return 0.2 if self.same else 0.8 if self.narrow else 0.4

    @property
    def letters_max(self) -> int:
        """How long the long texts of its users are."""
        return LETTERS_LARGE if self.large else 30 if self.crowded else 1

    @property
    def names(self) -> list[str]:
        """The keys of its documents."""
        return [key * LIMITS.key_bytes_max for key in self.keys] if self.lengthy else list(self.keys)


KINDS = (
    Kind("tp", narrow=True),
    Kind("tp", narrow=True, foreign=True),
    Kind("tp", narrow=True, unlucky=True),
    Kind("tpqr"),
    Kind("tpq", foreign=True),
    Kind("tpqr", cyclic=True),
    Kind("tpqr", cyclic=True, crowded=True),
    Kind("tpq", cyclic=True, crowded=True, foreign=True),
    Kind("tp", versatile=True),
    Kind("tpq", versatile=True, cyclic=True),
    Kind("tpq", versatile=True, foreign=True),
    Kind("tpq", versatile=True, cyclic=True, transformed=True),
    Kind("tp", narrow=True, transformed=True),
    Kind("tpqr", transformed=True, unlucky=True),
    Kind("tpq", cyclic=True, transformed=True),
    Kind("tpq", transformed=True, round=True),
    Kind("tpqrs", crowded=True, round=True),
    Kind("tpq", cyclic=True, crowded=True, foreign=True, transformed=True),
    Kind("tpq", lengthy=True),
    Kind("tpqrsuvw", chain=True),
    Kind("tpqrsuvw", chain=True, crowded=True),
    Kind("tp", narrow=True, transformed=True, same=True),
    Kind("tpqr", cyclic=True, indexed=True),
    Kind("tpqr", cyclic=True, divided=True),
    Kind("tpqr", cyclic=True, crowded=True, divided=True),
    Kind("tpq", versatile=True, cyclic=True, foreign=True, transformed=True, divided=True),
    Kind("tpqrsuvw", chain=True, crowded=True, divided=True),
    Kind("tp", narrow=True, large=True),
    Kind("tpqr", cyclic=True, large=True),
    Kind("tpq", versatile=True, large=True, unlucky=True),
    Kind("tp", narrow=True, writes_back=True),
    Kind("tpq", writes_back=True),
    Kind("tpq", chain=True, writes_back=True),
    Kind("tpqr", cyclic=True, writes_back=True, unlucky=True),
    Kind("tpq", foreign=True, writes_back=True),
    Kind("tpq", transformed=True, writes_back=True),
)

Kinds = tuple[Kind, ...]

WRITES_BACK = tuple(kind for kind in KINDS if kind.writes_back)
_OTHERS = tuple(kind for kind in KINDS if not kind.writes_back)

PLAIN = tuple(
    kind for kind in _OTHERS if not (kind.narrow or kind.crowded or kind.versatile or kind.chain or kind.large)
)
FOREIGN = tuple(kind for kind in _OTHERS if kind.foreign and not kind.versatile)
NARROW = tuple(kind for kind in _OTHERS if kind.narrow)
CROWDED = tuple(kind for kind in _OTHERS if kind.crowded and not (kind.transformed or kind.chain))
VERSATILE = tuple(kind for kind in _OTHERS if kind.versatile)
ROUND = tuple(kind for kind in _OTHERS if kind.round and kind.transformed)
WIDE = tuple(kind for kind in _OTHERS if len(kind.keys) > 3 and not (kind.crowded or kind.chain))
TO_AND_FRO = tuple(kind for kind in _OTHERS if kind.narrow and kind.transformed and not kind.same)
OUTGROWING = tuple(kind for kind in _OTHERS if kind.round and kind.crowded)
CHAIN = tuple(kind for kind in _OTHERS if kind.chain)
DIVIDED = tuple(kind for kind in _OTHERS if kind.divided)
SAME_OUTPUT = tuple(kind for kind in _OTHERS if kind.same)
INDEXED = tuple(kind for kind in _OTHERS if kind.indexed)
LENGTHY = tuple(kind for kind in _OTHERS if kind.lengthy)
LARGE = tuple(kind for kind in _OTHERS if kind.large)
LOOSE = (Kind("tp", transformed=True), Kind("tp", transformed=True, unlucky=True))
"""Two documents, and nothing that fixes what they begin with."""

MUTUAL = tuple(kind for kind in _OTHERS if kind.transformed and kind.cyclic and not kind.crowded)
"""Documents that embed each other, under transforms that change: a document of a walk is also one of its inputs."""

TRANSFORMED = tuple(kind for kind in _OTHERS if kind.transformed)
