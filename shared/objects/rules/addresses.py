"""Which object: its class and its key. Its records lie under ``objects/{Class}~{key}``."""

import re
from dataclasses import dataclass
from typing import Any, Self

from shared.core.rules.keys import check_key, valid_key
from shared.core.rules.limits import LIMITS
from shared.core.rules.problems import BadKey, BadObjectCall

COLLECTION = "objects"
CALL_ID_BYTES_MAX = 128
CLASS_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")


@dataclass(frozen=True, slots=True, order=True)
class ObjectAddress:
    """An object of `class_name`. It exists once it has been called."""

    class_name: str
    key: str

    @classmethod
    def checked(cls, class_name: str, key: Any) -> Self:
        """Return the address of an object. Raises `BadObjectCall` or `BadKey`."""
        if not isinstance(class_name, str) or not CLASS_NAME.fullmatch(class_name):
            raise BadObjectCall(f"A class of objects matches {CLASS_NAME.pattern}.", field="class")
        if len(check_key(key).encode()) > LIMITS.object_key_bytes_max:
            raise BadKey(f"An object's key has at most {LIMITS.object_key_bytes_max:,} bytes.", field="key")
        return cls(class_name, key)

    @property
    def base(self) -> str:
        """Return the path of the object's card, below which its mailbox lies."""
        return f"{COLLECTION}/{self.class_name}~{self.key}"

    @classmethod
    def of_base(cls, base: str) -> Self:
        """Undo `base`."""
        return cls(*base.removeprefix(f"{COLLECTION}/").split("~", 1))

    def to_json(self) -> dict[str, str]:
        """Return the address as a result or a continuation shows it."""
        return {"class": self.class_name, "key": self.key}

    @classmethod
    def from_json(cls, value: Any) -> Self:
        """Undo `to_json`."""
        return cls(value["class"], value["key"])


def check_call_id(id_: Any) -> str:
    """Return the id of a call. Raises `BadKey`."""
    if not valid_key(id_) or len(id_.encode()) > CALL_ID_BYTES_MAX or id_.startswith("!"):
        raise BadKey(
            f"A call's id has 1 to {CALL_ID_BYTES_MAX} bytes, without '/', and does not begin with '!'.", field="id"
        )
    return str(id_)
