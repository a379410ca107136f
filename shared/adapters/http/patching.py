"""Media types of a PATCH: what each means."""

from shared.adapters.http.routes import Request
from shared.core.rules.problems import UnsupportedMediaType
from shared.documents.rules.patches import Null

NULLS = {"application/json": Null.IS_A_VALUE, "application/merge-patch+json": Null.REMOVES}


def null_of(request: Request) -> Null:
    """Say what null means in a patch of this media type. Raises `UnsupportedMediaType`."""
    if request.media_type in NULLS:
        return NULLS[request.media_type]
    accepted = ", ".join(NULLS)
    said = request.media_type[:80] or "nothing"
    raise UnsupportedMediaType(f"A patch is {accepted}; this one says {said!r}.", headers={"Accept-Patch": accepted})
