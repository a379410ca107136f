"""The addresses of objects and flows, which have mailboxes."""

from collections.abc import Mapping
from typing import ClassVar, Self

from signalbox.core.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class Address:
    """The owner of a mailbox: an object of the class `name`, or a run of the flow `name`.

    A kind of owner is a subclass, with its collection and with the members that its address has in JSON.
    """

    COLLECTION: ClassVar[str]
    MEMBERS: ClassVar[tuple[str, str]]

    name: str
    key: str

    @property
    def base(self) -> str:
        """The path of the listing record, below which the mailbox is stored."""
        return f"{self.COLLECTION}/{self.name}~{self.key}"

    @classmethod
    def of_base(cls, base: str) -> Self:
        """Return the address that has this base."""
        return cls(*base.removeprefix(f"{cls.COLLECTION}/").split("~", 1))

    def to_json(self) -> dict[str, str]:
        """Return the address as results, continuations and lists show it."""
        return dict(zip(self.MEMBERS, (self.name, self.key), strict=True))

    @classmethod
    def from_json(cls, value: Mapping[str, str]) -> Self:
        """Undo `to_json`."""
        return cls(*(value[member] for member in cls.MEMBERS))


class ObjectAddress(Address):
    """An object: its class and its key. It exists once it has been called.

    It is here and not with objects, since the outcome of a flow's step can also be an object.
    """

    __slots__ = ()
    COLLECTION = "objects"
    MEMBERS = ("class", "key")
