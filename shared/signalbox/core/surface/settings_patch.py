"""Changes of settings: the fields of a `PATCH`, which replace those of the stored settings."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, Self, TypeVar

from signalbox.core.lazy_dataclasses import dataclass, replace
from signalbox.core.problems import Problem
from signalbox.core.surface.field_rules import accepted_fields
from signalbox.core.surface.request_fields import RequestFields

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class SettingsPatch(Generic[S]):
    """Settings to change; all other settings stay. A null sets the default."""

    changes: Mapping[str, Any]

    @classmethod
    def from_request(cls, body: Mapping[str, Any], kind: Callable[..., S], problem: type[Problem]) -> Self:
        """Parse the body of a `PATCH` of settings of a class."""
        RequestFields(body, problem).only(*accepted_fields(kind))
        return cls(body)

    def applied_to(self, settings: S) -> S:
        """Return the settings with these changes."""
        return replace(settings, **self.changes)  # type: ignore[type-var]  # settings are dataclasses
