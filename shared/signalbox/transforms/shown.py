"""The answers about transforms."""

from typing import Annotated, Any, Self

from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.surface.field_rules import Described
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.model import StoredTransform


@dataclass(frozen=True, slots=True)
class NamedTransformShown:
    """A transform and the field whose links it applies to."""

    name: str
    transform: Any
    etag: str

    @classmethod
    def of(cls, name: str, stored: StoredTransform) -> Self:
        return cls(name, stored.transform, stored.etag)


@dataclass(frozen=True, slots=True)
class TransformsShown:
    """One page, the last if it has no `next_page_token`."""

    transforms: Annotated[tuple[NamedTransformShown, ...], Described({"maxItems": LIMITS.transforms_listed_max})]
    next_page_token: str = ""
