"""Filter and sort documents as Firestore does: for a resource that is small enough, where an index is missing."""

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import Any

from shared.core.rules.ordering import Key, order_key
from shared.core.rules.queries import ID, Condition, Field
from shared.documents.rules.documents import Content
from shared.resources.rules.lists import ListRequest

_NOTHING = object()


def matching(documents: Sequence[Content], request: ListRequest) -> list[Content]:
    """Return the documents that meet all conditions and have every field of the order, in its order."""
    fields = [each.field for each in request.order_by]
    found = [each for each in documents if all(_meets(each, one) for one in request.where)]
    complete = [each for each in found if all(_at(each, field) is not _NOTHING for field in fields)]
    return sorted(complete, key=cmp_to_key(_order_of(request)))


def _order_of(request: ListRequest) -> Callable[[Content, Content], int]:
    def compared(one: Content, other: Content) -> int:
        return _compared(request, place_of(one, request), place_of(other, request))

    return compared


def behind(documents: Sequence[Content], request: ListRequest) -> list[Content]:
    """Return those of the sorted documents that lie behind the place where the page before ended."""
    return [each for each in documents if _compared(request, place_of(each, request), request.after) > 0]


def place_of(document: Content, request: ListRequest) -> tuple[Any, ...]:
    """Return the values that the request orders by, then the key."""
    return (*(_at(document, each.field) for each in request.order_by), document["key"])


def _compared(request: ListRequest, one: Sequence[Any], other: Sequence[Any]) -> int:
    *directions, last = _directions(request)
    for descending, mine, its in zip([*directions, last], one, other, strict=True):
        left, right = order_key(mine), order_key(its)
        if left != right:
            return 1 if (left > right) != descending else -1
    return 0


def _directions(request: ListRequest) -> list[bool]:
    named = [each.descending for each in request.order_by]
    return [*named, named[-1] if named else request.by_id_descending]


def _at(document: Content, field: Field) -> Any:
    value: Any = document
    for name in ("key",) if field == ID else field:
        if not isinstance(value, dict) or name not in value:
            return _NOTHING
        value = value[name]
    return value


def _meets(document: Content, condition: Condition) -> bool:
    value = _at(document, condition.field)
    if value is _NOTHING:
        return False
    if condition.operator == "in":
        return any(order_key(value) == order_key(each) for each in condition.value)
    if condition.operator == "array_contains":
        return isinstance(value, list) and any(order_key(each) == order_key(condition.value) for each in value)
    return _holds(order_key(value), condition.operator, order_key(condition.value), value)


def _holds(left: Key, operator: str, right: Key, value: Any) -> bool:
    if operator == "==":
        return left == right
    if operator == "!=":
        return left != right and value is not None
    if left[0] != right[0]:
        return False
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]
