"""The headers ``If-Match`` and ``If-None-Match``, parsed into a precondition.

This part is separate from the routes because other subjects' HTTP parses preconditions, too.
"""

from signalbox.adapters.http.routes import Request
from signalbox.documents.problems import BadPrecondition
from signalbox.documents.requests import Precondition, Tags


def precondition_of(request: Request) -> Precondition:
    """Return the precondition of a request. Raises `BadPrecondition` for a header without an entity tag."""
    return Precondition(_tags(request, "If-Match"), _tags(request, "If-None-Match"))


def _tags(request: Request, header: str) -> Tags | None:
    tags = request.entity_tags(header)
    if tags is None:
        return None
    strong, weak = frozenset(map(_quoted, tags.as_set())), frozenset(map(_quoted, tags.as_set(include_weak=True)))
    if not (weak or tags.star_tag):
        raise BadPrecondition(f"{header} has no entity tag: send * or entity tags in quotes.")
    return Tags(strong, weak - strong, tags.star_tag)


def _quoted(tag: str) -> str:
    return f'"{tag}"'
