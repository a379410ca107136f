"""Requests about documents, parsed and checked. HTTP and the kit build the same ones.

Preconditions (RFC 9110, section 13). ``If-Match`` makes a write conditional on the state that its caller has seen,
``If-None-Match: *`` on the absence of the document. The commit is guarded by the read that the precondition was checked
against, so the precondition also holds when the write is committed.

Queries. ``where=address.zipcode==54321`` compares a field, also one inside a copy. The value is parsed as JSON if it is
JSON (``54321``, ``true``, ``"54321"`` for the text), else it is text. ``key`` is the document's own key, always a text.
Firestore orders an inequality by its own field first, so that is the order if ``order_by`` is absent. Ties are ordered
by key.
"""

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, Any, Protocol, Self, TypeVar

from signalbox.core import json_values
from signalbox.core.keys import check_key, valid_key
from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.limits import LIMITS as CORE_LIMITS
from signalbox.core.problems import BadKey, BadQuery, NotAnObject, Problem, TooLarge
from signalbox.core.records.queries import ID, Condition, Field, Operator, Order, with_implied
from signalbox.core.surface.field_rules import Described, Range, accepted_fields
from signalbox.core.surface.paging import parse_limit, read_page_token, write_page_token
from signalbox.core.surface.request_fields import RequestFields
from signalbox.documents.limits import LIMITS
from signalbox.documents.machine.links import check_count
from signalbox.documents.machine.patches import Null
from signalbox.documents.model.contents import Content, Surveyed, value_at
from signalbox.documents.model.stamped_contents import RESERVED, check_body
from signalbox.documents.problems import BadPrecondition, DuplicateKey, KeyRequired, PreconditionFailed

# --- preconditions ---


class EntityTags(Protocol):
    """The entity tags of a header without their quotes, as werkzeug parses them.

    `star_tag` is whether the header is ``*``.
    """

    star_tag: bool

    def as_set(self, include_weak: bool = False) -> Collection[str]:
        """Return the strong tags, or all of them."""


@dataclass(frozen=True, slots=True)
class Tags:
    """The entity tags of a header, with their quotes and without ``W/``. `every` means ``*``."""

    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()
    every: bool = False

    def matches(self, etag: str | None, *, weakly: bool) -> bool:
        """Return whether the tags include a strong tag. None, the tag of an absent document, matches nothing."""
        if etag is None:
            return False
        return self.every or etag in self.strong or (weakly and etag in self.weak)


@dataclass(frozen=True, slots=True)
class Precondition:
    """The preconditions of a request. None means that the header is absent."""

    if_match: Tags | None = None
    if_none_match: Tags | None = None

    @classmethod
    def from_headers(cls, tags_of: Callable[[str], EntityTags | None]) -> Self:
        """Parse the headers of a request by name. Raises `BadPrecondition` for a header without an entity tag."""
        return cls(_tags("If-Match", tags_of), _tags("If-None-Match", tags_of))

    def check_match(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless `If-Match` holds, which compares strongly."""
        if self.if_match is not None and not self.if_match.matches(etag, weakly=False):
            raise PreconditionFailed(f"If-Match does not hold: {_state(etag)}.")

    def is_not_modified(self, etag: str | None) -> bool:
        """Return whether `If-None-Match`, which compares weakly, includes this tag: the reader has this state."""
        return self.if_none_match is not None and self.if_none_match.matches(etag, weakly=True)

    def check_write(self, etag: str | None) -> None:
        """Raise `PreconditionFailed` unless both headers allow a write."""
        self.check_match(etag)
        if self.is_not_modified(etag):
            raise PreconditionFailed(f"If-None-Match does not hold: {_state(etag)}.")


UNCONDITIONAL = Precondition()


def _tags(header: str, tags_of: Callable[[str], EntityTags | None]) -> Tags | None:
    tags = tags_of(header)
    if tags is None:
        return None
    strong, weak = frozenset(map(_quoted, tags.as_set())), frozenset(map(_quoted, tags.as_set(include_weak=True)))
    if not (weak or tags.star_tag):
        raise BadPrecondition(f"{header} has no entity tag: send * or entity tags in quotes.")
    return Tags(strong, weak - strong, tags.star_tag)


def _quoted(tag: str) -> str:
    return f'"{tag}"'


def _state(etag: str | None) -> str:
    return "the document does not exist" if etag is None else f"the entity tag is {etag}"


# --- writes of one document ---


@dataclass(frozen=True, slots=True)
class PutRequest:
    """A request to store `content` under `key`, replacing the document there."""

    key: str
    content: Surveyed
    precondition: Precondition = UNCONDITIONAL

    @classmethod
    def from_request(cls, key: str, body: Any, precondition: Precondition = UNCONDITIONAL) -> Self:
        """Check a key and a document. Raises a `Problem` if the document cannot be stored."""
        return cls(key, check_body(check_key(key), body), precondition)

    @classmethod
    def from_body(cls, body: Any, new_key: str, precondition: Precondition = UNCONDITIONAL) -> Self:
        """Check a document that contains its own key. If it contains none, its key is `new_key`.

        Raises a `Problem` if the document cannot be stored.
        """
        key = new_key if isinstance(body, dict) and "key" not in body else own_key(body)
        return cls.from_request(key, body, precondition)


@dataclass(frozen=True, slots=True)
class PatchRequest:
    """A request to merge `patch` into the document `key`, or to create it.

    With `write_back`, edits of copies are written to their sources.
    """

    key: str
    patch: Content
    null: Null = Null.IS_A_VALUE
    precondition: Precondition = UNCONDITIONAL
    write_back: bool = False

    @classmethod
    def from_request(
        cls,
        key: str,
        body: Any,
        null: Null = Null.IS_A_VALUE,
        precondition: Precondition = UNCONDITIONAL,
        *,
        write_back: bool = False,
    ) -> Self:
        """Check a key and a patch. Raises a `Problem` if the patch cannot be merged."""
        return cls(key, check_body(check_key(key), body).content, null, precondition, write_back)


def own_key(body: Any) -> str:
    """Return the key that a document contains. Raises `NotAnObject`, `KeyRequired` or `BadKey`."""
    if not isinstance(body, dict):
        raise NotAnObject("A document is a JSON object.")
    key = body.get("key")
    if key is None or key == "":
        raise KeyRequired("`key` must be a non-empty string. Only a single document may leave it out.", field="key")
    if not isinstance(key, str):
        raise BadKey("`key` must be a string.", field="key")
    return check_key(key)


# --- bulk puts ---


@dataclass(frozen=True, slots=True)
class BulkEntry:
    """One document of a bulk put, or the reason why it cannot be put. Its key is None if it has no valid one."""

    key: str | None
    request: PutRequest | Problem


@dataclass(frozen=True, slots=True)
class BulkPutRequest:
    """The documents of one call, in the call's order."""

    entries: tuple[BulkEntry, ...]

    @classmethod
    def from_request(cls, bodies: Sequence[Any]) -> Self:
        """Check each body, and that no two have the same key.

        Instead of a body, there may be the `Problem` of reading it. Of several bodies with the same key the first is
        put. Raises `TooLarge` if there are more than one call accepts.
        """
        if len(bodies) > LIMITS.bulk_puts_max:
            raise TooLarge(f"One call takes at most {LIMITS.bulk_puts_max} documents; this one has {len(bodies):,}.")
        places: dict[str, int] = {}
        return cls(tuple(_refuse_duplicate(_entry(body), places, place) for place, body in enumerate(bodies)))

    def contents(self) -> dict[str, Surveyed]:
        """Return the contents to put, by key."""
        requests = [entry.request for entry in self.entries]
        return {request.key: request.content for request in requests if isinstance(request, PutRequest)}


def _entry(body: Any) -> BulkEntry:
    if isinstance(body, Problem):
        return BulkEntry(None, body)
    try:
        key = own_key(body)
    except Problem as problem:
        return BulkEntry(None, problem)
    try:
        request = PutRequest.from_request(key, body)
        check_count(request.content)
    except Problem as problem:
        return BulkEntry(key, problem)
    return BulkEntry(key, request)


def _refuse_duplicate(entry: BulkEntry, places: dict[str, int], place: int) -> BulkEntry:
    if entry.key is None:
        return entry
    first = places.setdefault(entry.key, place)
    if first == place:
        return entry
    return BulkEntry(entry.key, DuplicateKey(f"Document {first} of this call has the same key.", field="key"))


# --- queries ---

PARTS_MAX = 20
"""Conditions of a query, and fields that it is sorted by."""

_CONDITION = re.compile(
    r"(?P<field>[^=!<>\s]+)\s*(?P<operator>==|!=|<=|>=|<|>|\bin\b|\bcontains\b)\s*(?P<value>.*)\Z", re.DOTALL
)
_OPERATORS: dict[str, Operator] = {
    "==": "==",
    "!=": "!=",
    "<": "<",
    "<=": "<=",
    ">": ">",
    ">=": ">=",
    "in": "in",
    "contains": "array_contains",
}


@dataclass(frozen=True, slots=True)
class FindRequest:
    """A request for a page of documents. `after` is the place of the last document of the previous page."""

    where: tuple[Condition, ...]
    order_by: tuple[Order, ...]
    limit: int
    after: tuple[Any, ...] = ()

    @classmethod
    def from_request(cls, where: Sequence[str], order_by: Sequence[str], limit: str, page_token: str) -> Self:
        """Parse parameters as a URL has them. Raises `BadQuery` with the name of the parameter."""
        conditions = _parts("where", where, _condition)
        count = parse_limit(limit, LIMITS.query_limit_default, CORE_LIMITS.query_limit_max)
        request = cls(conditions, _orders(_parts("order_by", order_by, _order), conditions), count)
        if not page_token:
            return request
        return replace(request, after=read_page_token(page_token, request.mark, len(request.order_by)))

    @property
    def mark(self) -> str:
        """A hash of the query without its limit and page, which its page tokens contain."""
        conditions = sorted(
            json.dumps([condition.field, condition.operator, condition.value], sort_keys=True)
            for condition in self.where
        )
        orders = [[order.field, order.descending] for order in self.order_by]
        return hashlib.sha256(json.dumps([conditions, orders]).encode()).hexdigest()[:12]

    def page_token(self, key: str, data: Mapping[str, Any]) -> str:
        """Return the token of the page that begins after this record."""
        return write_page_token(self.mark, [value_at(data, order.field) for order in self.order_by], key)


@dataclass(frozen=True, slots=True)
class CountRequest:
    """A request for the number of documents that meet all conditions."""

    where: tuple[Condition, ...]

    @classmethod
    def from_request(cls, where: Sequence[str], others: Collection[str] = ()) -> Self:
        """Parse conditions. `others` are the names of the call's other parameters. Raises `BadQuery`."""
        for name in sorted(others):
            raise BadQuery(f"`{name}` cannot be combined with count=true.", field=name)
        return cls(_parts("where", where, _condition))


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """A query in a body. `query_from_body` parses it."""

    where: Annotated[tuple[str | tuple[str, str, Any], ...], Described({"maxItems": PARTS_MAX})] = ()
    """Conditions as in an address, or lists of field, operator and value. All of them must hold."""

    order_by: Annotated[tuple[str, ...], Described({"maxItems": PARTS_MAX})] = ()
    limit: Annotated[int | None, Range(1, lambda: CORE_LIMITS.query_limit_max)] = None
    page_token: str = ""

    count: bool = False
    """Return only the number of documents. Cannot be combined with other fields than `where`."""


def query_from_body(body: Mapping[str, Any]) -> FindRequest | CountRequest:
    """Parse a query in a JSON object, whose fields are the parameters of a URL. Raises `BadQuery` with the field.

    A condition is a text, as in a URL, or a list of field, operator and value.
    """
    fields = RequestFields(body, BadQuery).only(*accepted_fields(DocumentQuery))
    where = [_condition_text(condition) for condition in fields.items("where", [])]
    if fields.flag("count"):
        given = (name for name, value in body.items() if value is not None)
        return CountRequest.from_request(where, set(given) - {"count", "where"})
    order_by, limit = fields.items("order_by", []), fields.integer("limit", 1, CORE_LIMITS.query_limit_max, None)
    if not all(isinstance(name, str) for name in order_by):
        raise fields.refuse("order_by", "`order_by` must be a list of fields.")
    limit_text = "" if limit is None else str(limit)
    return FindRequest.from_request(where, order_by, limit_text, fields.text("page_token", ""))


def _condition_text(condition: Any) -> str:
    match condition:
        case str():
            return condition
        case [str(field), str(operator), value]:
            return condition_text(field, operator, value)
    raise BadQuery("A condition is a text FIELD==VALUE, or a list of field, operator and value.", field="where")


def condition_text(field: str, operator: str, value: Any) -> str:
    """Return a condition as a URL has it.

    Raises `BadQuery` for a field or an operator that would be parsed differently.
    """
    parts = (field, operator, json.dumps(value))
    match = _CONDITION.match(text := " ".join(parts))
    if match is None or match.group("field", "operator", "value") != parts:
        raise BadQuery(f"{field!r} {operator!r} is not a field and one of == != < <= > >= in contains.", field="where")
    return text


Part = TypeVar("Part")


def _parts(name: str, texts: Sequence[str], parse: Callable[[str], Part]) -> tuple[Part, ...]:
    """Parse a parameter that may come several times."""
    if len(texts) > PARTS_MAX:
        raise BadQuery(f"A query has `{name}` at most {PARTS_MAX} times.", field=name)
    return tuple(map(parse, texts))


def _condition(text: str) -> Condition:
    match = _CONDITION.match(text)
    if not match:
        raise BadQuery(f"{text!r} is not FIELD==VALUE (or != < <= > >= in contains).", field="where")
    operator, field = _OPERATORS[match["operator"]], _field(match["field"], "where")
    value = _value(match["value"])
    if operator == "in" and not (isinstance(value, list) and 1 <= len(value) <= 30):
        raise BadQuery(f"{text!r}: 'in' takes a JSON list of 1 to 30 values.", field="where")
    if operator == "in" and None in value:
        raise BadQuery(f"{text!r}: 'in' does not match null. Send `{match['field']}==null` instead.", field="where")
    if field == ID:
        return Condition(ID, operator, _keys(text, operator, match["value"], value))
    return Condition(field, operator, _stored(operator, value))


def _keys(text: str, operator: Operator, raw: str, value: Any) -> Any:
    """Return the key or keys to compare with.

    Keys are texts: any value except a JSON string is used as it was written.
    """
    keys = value if operator == "in" else [value if isinstance(value, str) else raw]
    if operator == "array_contains" or not all(map(valid_key, keys)):
        raise BadQuery(f"{text!r} compares the key with a value that is not a valid key.", field="where")
    return keys if operator == "in" else keys[0]


def _value(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _stored(operator: Operator, value: Any) -> Any:
    """Return a value as records contain it, and the operand of `contains` as lists contain it."""
    if operator == "in":
        return [json_values.encode(item) for item in value]
    return json_values.encode([value])[0] if operator == "array_contains" else json_values.encode(value)


def _field(text: str, parameter: str) -> Field:
    names = tuple(text.split("."))
    if not all(names):
        raise BadQuery(f"{text!r} is not a field; write name.name.name.", field=parameter)
    if names == ("key",):
        return ID
    if names[0] in ("key", RESERVED, *ID):
        raise BadQuery(f"{text!r} is not a field of a document.", field=parameter)
    return names


def _order(text: str) -> Order:
    return Order(_field(text.removeprefix("-"), "order_by"), descending=text.startswith("-"))


def _orders(named: tuple[Order, ...], conditions: Sequence[Condition]) -> tuple[Order, ...]:
    """Return the full order without the key. The key always comes last, and is only checked if the request names it."""
    if ID not in [order.field for order in named]:
        return with_implied(named, conditions)
    *others, last = named
    descending = bool(others) and others[-1].descending
    if last != Order(ID, descending) or with_implied(tuple(others), conditions) != tuple(others):
        raise BadQuery(
            "`key` must come last in order_by, in the direction of the field before it, ascending if there is none; "
            "fields that are compared with < > or != come before it.",
            field="order_by",
        )
    return tuple(others)
