"""Fields of a model: what a JSON value must be, and the annotations that say more than a type does.

No library checks the fields: a cold start would wait for its import, and those of msgspec, attrs and cattrs take
several times as long as that of these few checks.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal

from shared.resources.rules.field_types import FieldType


class Missing(Enum):
    """The default of a field that has none."""

    REQUIRED = "required"


@dataclass(frozen=True, slots=True)
class RefersTo:
    """An annotation of a `str`: it is the id of an item of `resource`.

    With ``on_delete="cascade"`` an item goes when the one goes that it refers to; otherwise it shows `link_missing`.
    """

    resource: str
    on_delete: Literal["keep", "cascade"] = "keep"


class Hidden:
    """An annotation: the field is never shown."""


class ReadOnly:
    """An annotation: what a client sends for the field is ignored."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a model. `default` is JSON as stored; `refers_to` is set for a reference, or a list of them."""

    name: str
    type: FieldType
    is_list: bool = False
    is_optional: bool = False
    default: Any = Missing.REQUIRED
    is_hidden: bool = False
    is_read_only: bool = False
    refers_to: RefersTo | None = None

    @property
    def is_required(self) -> bool:
        """Return whether an item cannot be created without it."""
        return self.default is Missing.REQUIRED

    def errors_of(self, value: Any) -> Iterator[tuple[str, str]]:
        """Iterate over what is wrong with a JSON value: a place and what must be there."""
        parts = enumerate(value) if self.is_list and isinstance(value, list) else [(None, value)]
        if value is None and self.is_optional:
            return
        if self.is_list and not isinstance(value, list):
            yield self.name, "must be a list"
            return
        for index, part in parts:
            try:
                self.type.check(part)
            except ValueError as error:
                yield self.name if index is None else f"{self.name}[{index}]", str(error)

    def stored(self, value: Any) -> Any:
        """Return a JSON value without errors as it is stored."""
        if value is None:
            return None
        return [self.type.check(each) for each in value] if self.is_list else self.type.check(value)
