"""The headers ``If-Match`` and ``If-None-Match``, parsed into a precondition."""

import flask
from werkzeug.datastructures import ETags

from shared.core.rules.problems import BadPrecondition
from shared.documents.rules.preconditions import Precondition, Tags


def precondition_of(request: flask.Request) -> Precondition:
    """Return the precondition of a request. Raises `BadPrecondition` for a header without an entity tag."""
    return Precondition(
        _tags(request, "If-Match", request.if_match), _tags(request, "If-None-Match", request.if_none_match)
    )


def _tags(request: flask.Request, header: str, parsed: ETags) -> Tags | None:
    if header not in request.headers:
        return None
    strong, weak = frozenset(map(_quoted, parsed.as_set())), frozenset(map(_quoted, parsed.as_set(include_weak=True)))
    if not (weak or parsed.star_tag):
        raise BadPrecondition(f"{header} has no entity tag: send * or entity tags in quotes.")
    return Tags(strong, weak - strong, parsed.star_tag)


def _quoted(tag: str) -> str:
    return f'"{tag}"'
