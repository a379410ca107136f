"""What a route declares in addition to its handler: the parameters it takes, and its answers.

A request reads only the names of the parameters. The rest is for the description of the API
(`adapters/http/description.py`), which is made when the documentation is.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated, Any, Literal

from signalbox.core.field_rules import Range
from signalbox.core.lazy_dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Parameter:
    """A query parameter or a header: its name, the type of its value with its rules, and its sentence."""

    name: str
    type: Any
    says: str = ""
    default: object = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer under a status: the type of its body (None: no body), a sentence, and its headers.

    Without a sentence, the first line of the type's docstring is taken.
    """

    type: Any
    says: str = ""
    headers: tuple[Parameter, ...] = ()
    media_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request, if its type alone does not say everything."""

    type: Any
    says: str = ""

    required: bool | None = None
    """Whether a request must have it. None: if it has required members, or is not an object."""

    others: Mapping[str, Any] = field(default_factory=dict)
    """The types of bodies that are not JSON, by media type."""


FLAG = Literal["true"]
"""The type of a query parameter that can only be set."""

PAGE_TOKEN = Parameter("page_token", str, "The `next_page_token` of the page before, of the same search.")
PREFIX = Parameter("prefix", str, "Only what begins with this.")
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    str,
    "What makes two calls the same one where the body names no id; for a wait or a batch it is the id.",
)


def limit(most: int, default: int | None = None) -> Parameter:
    """Return the parameter `limit` of a list with pages of at most `most`, which is also the default."""
    return Parameter("limit", Annotated[int, Range(1, most)], "", default or most)
