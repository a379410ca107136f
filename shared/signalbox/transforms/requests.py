"""The requests of callers about transforms, and the checks before a transform is stored."""

from typing import Any, Self

from signalbox.core import json_values, keys
from signalbox.core.lazy_dataclasses import dataclass
from signalbox.core.problems import BadKey, TooLarge
from signalbox.core.records import record_values
from signalbox.transforms import machine
from signalbox.transforms.limits import LIMITS
from signalbox.transforms.problems import BadTransform


@dataclass(frozen=True, slots=True)
class PutTransformRequest:
    """A request to store `transform` for the links in the field `name`."""

    name: str
    transform: Any

    @classmethod
    def from_request(cls, name: str, transform: Any) -> Self:
        """Check a name and a transform. Raises a `Problem` if the transform cannot be stored."""
        return cls(check_transform_name(name), check_transform(transform))


def valid_transform_name(name: str) -> bool:
    """Return whether a transform may have this name: any field but `key`, which never contains a link."""
    return name != "key" and keys.valid_key(name)


def check_transform_name(name: str) -> str:
    """Return the name. Raises `BadKey`."""
    if not valid_transform_name(name):
        raise BadKey("A transform's name is a valid key other than 'key'.", field="name")
    return name


def check_transform(transform: Any) -> Any:
    """Return the transform. Raises a `Problem` if it cannot be stored or can never produce an object."""
    json_values.check(transform)
    if len(json_values.canonical(transform)) > LIMITS.transform_bytes_max:
        raise TooLarge(f"A transform has at most {LIMITS.transform_bytes_max:,} bytes.")
    if not machine.may_produce_an_object(transform):
        raise BadTransform("A transform must produce an object, and this one never does.")
    for at in machine.unclosed_braces(transform):
        raise BadTransform("`{{` without a closing `}}`.", field=record_values.field_name(at))
    return transform
