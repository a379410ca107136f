"""What a route declares in addition to its handler: the parameters it takes, and its answers.

A request reads only the names of the parameters. The rest is for the description of the API
(`adapters/http/description.py`), which is made when the documentation is.
"""

from typing import Annotated, Any, Literal

from signalbox.core.surface.field_rules import Described, Range


class Parameter:
    """A query parameter or a header: its name, its type with the rules of a value, and a sentence that describes it.

    An empty query parameter counts as absent, unless the route refuses it (`refuses_empty`).
    """

    __slots__ = ("default", "name", "refuses_empty", "required", "says", "type")

    def __init__(
        self,
        name: str,
        type: Any,
        says: str = "",
        default: object = None,
        *,
        required: bool = False,
        refuses_empty: bool = False,
    ) -> None:
        self.name = name
        self.type = type
        self.says = says
        self.default = default
        self.required = required
        self.refuses_empty = refuses_empty


class Answer:
    """The answer under a status: the type of its body (None: no body), a sentence, and its headers.

    Without a sentence, the first line of the type's docstring is taken. The type of a refusal is the class of the
    problem.
    """

    __slots__ = ("headers", "media_type", "says", "type")

    def __init__(
        self, type: Any, says: str = "", headers: tuple[Parameter, ...] = (), media_type: str = "application/json"
    ) -> None:
        self.type = type
        self.says = says
        self.headers = headers
        self.media_type = media_type


FLAG = Literal["true"]
"""The type of a query parameter that can only be set."""

PAGE_TOKEN = Parameter("page_token", str, "The `next_page_token` of the page before, of the same search.")
PREFIX = Parameter("prefix", str, "Only names or ids that begin with this text.")
IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    str,
    "Identifies repeats of a call whose body names no id. For a wait or a batch, it is the id.",
)

IF_MATCH = Parameter(
    "If-Match",
    Annotated[str, Described({"examples": ["*", '"20260131T120000123456"']})],
    "Entity tags, one of which must be that of the stored document; `*` for any document.",
)
IF_NONE_MATCH = Parameter(
    "If-None-Match",
    Annotated[str, Described({"examples": ["*", 'W/"20260131T120000123456"']})],
    "Entity tags, none of which may be that of the stored document; `*` for no document. A GET is answered with 304.",
)


def limit(most: int, default: int | None = None) -> Parameter:
    """Return the parameter `limit` of a list whose pages have at most `most` items; `default` of None means `most`."""
    return Parameter("limit", Annotated[int, Range(1, most)], "", default or most)
